// Writes types, bounds and descriptions of schemas as HTML for the reference. Everything from the document is escaped.

import { isRecord, member } from '../../../base/is-record.ts';
import { escapeHtml } from '../page/html-page.ts';

/** Gives a string; an empty one for any other value. */
export function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** Gives an array; an empty one for any other value. */
export function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** Gives the names and values of an object; none for any other value. */
export function entries(value: unknown): readonly (readonly [string, unknown])[] {
  return isRecord(value) ? Object.entries(value) : [];
}

/** The name that a reference to a component ends with (`#/components/schemas/NAME`); empty where there is none. */
export function referredName(schema: unknown): string {
  const reference = text(member(schema, '$ref'));
  return reference.slice(reference.lastIndexOf('/') + 1);
}

/** One error of the API as the reference describes it. */
export interface DescribedError {
  /** The E_ token; a number as text where the error has none. */
  readonly key: string;
  readonly number: number;
  /** The HTTP statuses that it is answered with. */
  readonly statuses: readonly number[];
  /** A title for people; absent where the token is clear enough. */
  readonly title?: string | undefined;
  /** When it is answered; may have backquotes. */
  readonly when: string;
  /** What a caller does about it; may have backquotes. */
  readonly remedy: string;
}

/** The `id` of an element that a link of the page leads to. */
export const anchors = {
  tag: (name: string): string => `tag-${slug(name)}`,
  operation: (id: string): string => slug(id),
  schema: (name: string): string => `schema-${slug(name)}`,
  error: (key: string): string => `error-${slug(key)}`,
} as const;

function slug(name: string): string {
  return name.replace(/[^A-Za-z0-9_]+/g, '-').replace(/^-|-$/g, '');
}

/** A link within the page; `html` is its text. */
export function linkTo(id: string, html: string): string {
  return `<a href="#${id}">${html}</a>`;
}

/** Text as HTML `code`. */
export function code(value: string): string {
  return `<code>${escapeHtml(value)}</code>`;
}

/** Escapes the text of one paragraph and writes `code` elements for its backquotes. */
export function inline(value: string): string {
  return escapeHtml(value).replace(/`([^`]+)`/g, '<code>$1</code>');
}

/** Writes a description as paragraphs; an empty line ends a paragraph. */
export function paragraphs(value: unknown): string {
  return text(value)
    .split('\n\n')
    .filter((part) => part !== '')
    .map((part) => `<p>${inline(part)}</p>\n`)
    .join('');
}

/** Links the tokens and numbers of a description to their place in the table of errors. */
export function withErrorLinks(value: string, errors: ReadonlySet<string>): string {
  // A number in parentheses behind its token belongs to the token.
  return escapeHtml(value).replace(/\b(E_[A-Z_]+)( \(\d+\))?|\b\d{5}\b/g, (whole, token?: string) => {
    const key = token ?? whole;
    return errors.has(key) ? linkTo(anchors.error(key), whole) : whole;
  });
}

/** A schema's type in few words, with links to components. */
export function typeOf(schema: unknown): string {
  const name = referredName(schema);
  if (name !== '') return linkTo(anchors.schema(name), escapeHtml(name));
  const union = list(member(schema, 'anyOf'));
  if (union.length > 0) return union.map(typeOf).join(' or ');
  const values = list(member(schema, 'enum'));
  if (values.length > 0) return values.map((value) => code(JSON.stringify(value))).join(' or ');
  const constant = member(schema, 'const');
  if (constant !== undefined) return code(JSON.stringify(constant));
  const type = member(schema, 'type');
  if (type === 'array') {
    const items = member(schema, 'items');
    return items === undefined ? 'array' : `array of ${typeOf(items)}`;
  }
  const names = [type].flat().map((each) => escapeHtml(text(each)));
  return names.join(' or ') || 'any';
}

const bounds = [
  ['minLength', (value: number) => `${value} characters at least`],
  ['maxLength', (value: number) => `${value} characters at most`],
  ['minimum', (value: number) => `at least ${value}`],
  ['maximum', (value: number) => `at most ${value}`],
  ['minItems', (value: number) => `${value} items at least`],
  ['maxItems', (value: number) => `${value} items at most`],
] as const;

/** Description, bounds and an example, in one line. */
function notesOf(schema: unknown, description = member(schema, 'description')): string {
  const parts: string[] = [];
  for (const [name, words] of bounds) {
    const value = member(schema, name);
    if (typeof value === 'number') parts.push(words(value));
  }
  const [example] = list(member(schema, 'examples'));
  if (example !== undefined) parts.push(`for example ${code(JSON.stringify(example))}`);
  const told = inline(text(description));
  if (told === '' || parts.length === 0) return told || parts.join('; ');
  return `${told.replace(/\.$/, '')}; ${parts.join('; ')}`;
}

/** One entry of a list of names. @param at.place of a parameter: path, query, header @param at.description absent: the schema's */
export function nameEntry(
  name: string,
  schema: unknown,
  at: { readonly required: boolean; readonly place?: string; readonly description?: unknown },
): string {
  const type = at.place === undefined ? typeOf(schema) : `${escapeHtml(at.place)}, ${typeOf(schema)}`;
  const need = at.required ? ' <strong>required</strong>' : '';
  const notes = notesOf(schema, at.description);
  // An object that is written inline, by itself or as the items of an array, is shown below its name.
  const inner = [schema, member(schema, 'items')].find((each) => isRecord(member(each, 'properties')));
  const told = `${notes === '' ? '' : `<p>${notes}</p>`}${inner === undefined ? '' : membersOf(inner)}`;
  return `<dt>${code(name)} <span>${type}</span>${need}</dt>\n<dd>${told}</dd>\n`;
}

/** The members of an object as a list of names; of any other schema its type in a line. */
export function membersOf(schema: unknown): string {
  const properties = entries(member(schema, 'properties'));
  if (properties.length === 0) {
    const notes = notesOf(schema, '');
    return `<p>${[typeOf(schema), notes].filter((part) => part !== '').join('; ')}</p>\n`;
  }
  const required = list(member(schema, 'required'));
  const shown = properties.map(([name, property]) => nameEntry(name, property, { required: required.includes(name) }));
  return `<dl class="names">\n${shown.join('')}</dl>\n`;
}
