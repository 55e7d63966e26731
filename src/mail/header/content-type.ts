// Reads Content-Type and Content-Disposition (RFC 2045 §5.1, RFC 2231), tolerant of what mailers write.

import { skipComments } from './quoted-text.ts';

/** A parsed value. */
export interface ContentType {
  /** `text`, `multipart` ..., lower case. For Content-Disposition the whole disposition, `subtype` ''. */
  readonly type: string;
  readonly subtype: string;
  /** By lower-case name, the first of a repeated one. Continuations joined, RFC 2231 percent-encoding undone as latin1 octets. */
  readonly parameters: ReadonlyMap<string, string>;
}

/** The type of a part without a usable Content-Type (RFC 2045 §5.2). */
export const plainText: ContentType = { type: 'text', subtype: 'plain', parameters: new Map() };

/** The type of a part of a multipart/digest without Content-Type (RFC 2046 §5.1.5). */
export const embeddedMessage: ContentType = { type: 'message', subtype: 'rfc822', parameters: new Map() };

/** One parameter as it stands in a value. */
export interface RawParameter {
  /** As written, with its RFC 2231 marks (`filename*0*`). */
  readonly name: string;
  /** Quotes and backslashes taken off. */
  readonly value: string;
  /** Offsets of `name=value` in the value. */
  readonly start: number;
  readonly end: number;
}

/** Skips white space and comments (RFC 5322 §3.2.2). */
function skipCfws(value: string, from: number): number {
  const end = skipComments(value, from);
  return end < 0 ? value.length : end;
}

const tokenEnd = /[\s;=(),"]/g;

function readToken(value: string, from: number): number {
  tokenEnd.lastIndex = from;
  const found = tokenEnd.exec(value);
  return found ? found.index : value.length;
}

function readQuoted(value: string, from: number): { readonly text: string; readonly end: number } {
  let text = '';
  let index = from + 1;
  let copied = index;
  for (; index < value.length; index += 1) {
    const character = value[index];
    if (character === '"') return { text: text + value.slice(copied, index), end: index + 1 };
    if (character === '\\' && index + 1 < value.length) {
      text += value.slice(copied, index);
      copied = index + 1;
      index += 1;
    }
  }
  return { text: text + value.slice(copied), end: value.length };
}

const unquotedEnd = /[;\r\n]/g;

/** A value without quotes ends at `;`, the line's end or a comment; blanks inside it are accepted (`name=a b.pdf`). */
function readUnquoted(value: string, from: number): number {
  unquotedEnd.lastIndex = from;
  const found = unquotedEnd.exec(value);
  const text = value.slice(from, found ? found.index : value.length);
  const comment = text.search(/[ \t]\(/);
  return from + (comment >= 0 ? text.slice(0, comment) : text).trimEnd().length;
}

/** Lists the parameters of a value in their order, with their places. Linear. */
export function readParameters(value: string): readonly RawParameter[] {
  const found: RawParameter[] = [];
  let index = skipToSemicolon(value, 0);
  while (index < value.length) {
    const start = skipCfws(value, index + 1);
    const nameEnd = readToken(value, start);
    const equals = skipCfws(value, nameEnd);
    if (nameEnd === start || value[equals] !== '=') {
      index = skipToSemicolon(value, Math.max(start, index + 1));
      continue;
    }
    const valueStart = skipCfws(value, equals + 1);
    const name = value.slice(start, nameEnd);
    if (value[valueStart] === '"') {
      const quoted = readQuoted(value, valueStart);
      found.push({ name, value: quoted.text, start, end: quoted.end });
      index = skipToSemicolon(value, quoted.end);
    } else {
      const end = readUnquoted(value, valueStart);
      found.push({ name, value: value.slice(valueStart, end), start, end });
      index = skipToSemicolon(value, end);
    }
  }
  return found;
}

/** The offset of the next `;` outside quotes and comments, or the length. */
function skipToSemicolon(value: string, from: number): number {
  let index = from;
  while (index < value.length) {
    const character = value[index];
    if (character === ';') return index;
    if (character === '"') index = readQuoted(value, index).end;
    else if (character === '(') index = Math.max(skipCfws(value, index), index + 1);
    else index += 1;
  }
  return value.length;
}

/** Reads the media type alone, in lower case, and skips the parameters, which may be many. @returns text/plain where unreadable */
export function parseMediaType(value: string): Pick<ContentType, 'type' | 'subtype'> {
  const start = skipCfws(value, 0);
  const end = readToken(value, start);
  const [type = '', subtype = ''] = value.slice(start, end).toLowerCase().split('/', 2);
  return type === '' ? { type: plainText.type, subtype: plainText.subtype } : { type, subtype };
}

/** Reads a Content-Type or Content-Disposition value (folds may still be in it). Never fails: an unreadable one is text/plain. */
export function parseContentType(value: string): ContentType {
  return { ...parseMediaType(value), parameters: joinParameters(value) };
}

function joinParameters(value: string): ReadonlyMap<string, string> {
  const plain = new Map<string, string>();
  if (!value.includes(';')) return plain;
  const pieces = new Map<string, Map<number, string>>();
  for (const parameter of readParameters(value)) {
    const [name = '', first, second] = parameter.name.toLowerCase().split('*', 3);
    if (first === undefined) {
      if (!plain.has(name)) plain.set(name, parameter.value);
      continue;
    }
    // RFC 2231 §3, §4: `name*=`, `name*0=`, `name*0*=`.
    const section = first === '' ? 0 : Number(first);
    if (!Number.isInteger(section)) continue;
    const encoded = first === '' || second !== undefined;
    const sections = pieces.get(name) ?? new Map<number, string>();
    if (!sections.has(section))
      sections.set(section, encoded ? percentDecoded(parameter.value, section) : parameter.value);
    pieces.set(name, sections);
  }
  for (const [name, sections] of pieces) {
    let joined = '';
    for (let section = 0; sections.has(section); section += 1) joined += sections.get(section) ?? '';
    if (!plain.has(name)) plain.set(name, joined);
  }
  return plain;
}

function percentDecoded(value: string, section: number): string {
  // RFC 2231 §4: charset'language' stands before the first section.
  const text = section === 0 ? value.slice(value.indexOf("'", value.indexOf("'") + 1) + 1) : value;
  return text.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}
