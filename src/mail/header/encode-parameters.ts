// Writes the parameters of Content-Type and Content-Disposition in ASCII (RFC 2231).

import { charsetDecoder, decodeRaw } from './charset.ts';
import { type RawParameter, readParameters } from './content-type.ts';
import { encodeComments, hasNonAscii } from './encoded-word.ts';
import { decodeWords } from './header-text.ts';

/**
 * Makes a value ASCII: parameters that are not ASCII take the form of RFC 2231, comments get encoded-words inside their
 * parentheses, any other such character becomes `?`.
 * @param value Unicode, unfolded
 * @param longest parameters with more characters take the form of RFC 2231 too, in sections that can be folded
 */
export function encodeParameters(value: string, longest = Number.POSITIVE_INFINITY): string {
  const needs = (parameter: RawParameter): boolean => hasNonAscii(parameter.value) || parameter.value.length > longest;
  let written = '';
  let copied = 0;
  for (const { parameter, sections } of writtenAnew(readParameters(value), needs)) {
    // RFC 2231 §3: sections belong together, so one that changes changes all. They are written where the first one stands.
    if (parameter === sections[0]) {
      written += encodeComments(value.slice(copied, parameter.start));
      written += extendedParameter(baseName(parameter), textOf(sections)).join('; ');
    }
    copied = parameter.end;
  }
  return (written + encodeComments(value.slice(copied))).replace(/[^\x00-\x7f]/gu, '?');
}

/** A parameter's name without the marks of RFC 2231. */
function baseName({ name }: RawParameter): string {
  return name.split('*', 1)[0] ?? '';
}

/** A parameter, and all that make one value with it in the order of the text: itself, or every one of a name in sections. */
interface Sectioned {
  readonly parameter: RawParameter;
  readonly sections: readonly RawParameter[];
}

/** Lists the parameters that have to be written anew, in their order. Linear. */
function writtenAnew(parameters: readonly RawParameter[], needs: (one: RawParameter) => boolean): readonly Sectioned[] {
  if (!parameters.some(needs)) return [];
  const byName = new Map<string, RawParameter[]>();
  for (const parameter of parameters) {
    const name = baseName(parameter).toLowerCase();
    const same = byName.get(name);
    if (same) same.push(parameter);
    else byName.set(name, [parameter]);
  }
  const anew: Sectioned[] = [];
  for (const same of byName.values()) {
    const inSections = same.some(({ name }) => name.includes('*'));
    if (inSections && !same.some(needs)) continue;
    for (const parameter of same) {
      if (inSections) anew.push({ parameter, sections: same });
      else if (needs(parameter)) anew.push({ parameter, sections: [parameter] });
    }
  }
  return anew.sort((one, other) => one.parameter.start - other.parameter.start);
}

/** Joins the sections of one value in their order and decodes them (RFC 2231 §4.1); of a plain parameter, its encoded-words. */
function textOf(sections: readonly RawParameter[]): string {
  const [only] = sections;
  if (only && !only.name.includes('*')) return decodeWords(only.value);
  const ordered = sections
    .map(({ name, value }) => ({ marks: name.split('*', 3).slice(1), value }))
    .filter(({ marks }) => marks.length > 0)
    .sort((one, other) => Number(one.marks[0]) - Number(other.marks[0]));
  let text = '';
  let next = 0;
  let charset = '';
  let octets: Buffer[] = [];
  const finish = (): void => {
    text += decodeOctets(Buffer.concat(octets), charset);
    octets = [];
  };
  for (const { marks, value } of ordered) {
    const [number = '', isExtended] = marks;
    // Readers take the first of equal numbers and stop where one is missing.
    if (Number(number) < next) continue;
    if (Number(number) !== next) break;
    next += 1;
    if (number !== '' && isExtended === undefined) {
      finish();
      text += value;
      continue;
    }
    const quotes = next === 1 ? /^([^']*)'[^']*'/.exec(value) : null;
    charset = quotes?.[1] ?? charset;
    octets.push(percentDecoded(value.slice(quotes?.[0].length ?? 0)));
  }
  finish();
  return text;
}

function percentDecoded(text: string): Buffer {
  const ascii = text.toWellFormed().replace(/[^\x00-\x7f]+/gu, (run) => encodeURIComponent(run));
  const octets = ascii.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  return Buffer.from(octets, 'latin1');
}

function decodeOctets(octets: Buffer, charset: string): string {
  if (charset === '' || /^utf-?8$/i.test(charset)) return decodeRaw(octets, 'utf-8');
  return charsetDecoder(charset)?.(octets) ?? octets.toString('utf8');
}

const attributeCharacter = /^[A-Za-z0-9!#$&+\-.^_`{|}~]$/;

function percentEncoded(character: string): string {
  if (attributeCharacter.test(character)) return character;
  let text = '';
  for (const octet of Buffer.from(character, 'utf8')) text += `%${octet.toString(16).toUpperCase().padStart(2, '0')}`;
  return text;
}

/**
 * Writes a parameter in the form of RFC 2231 §4 (`filename*=utf-8''na%C3%AFve.txt`), in sections of at most 60 characters
 * (§3) when it is long. No character is cut by two sections, because some readers decode each by itself.
 * @returns the parameters, to be joined with `;` and white space
 */
function extendedParameter(name: string, value: string): readonly string[] {
  const units = Array.from(value.toWellFormed(), percentEncoded);
  const whole = units.join('');
  if (whole.length <= 60) return [`${name}*=utf-8''${whole}`];
  const sections: string[] = [];
  let section = '';
  for (const unit of units) {
    if (section.length + unit.length > 50) {
      sections.push(section);
      section = '';
    }
    section += unit;
  }
  sections.push(section);
  return sections.map((text, index) => `${name}*${index}*=${index === 0 ? "utf-8''" : ''}${text}`);
}
