// Writes one header field as it leaves: non-ASCII text encoded by the kind of the field (D13), folded (D12).

import { asciiDomain, asciiUri, percentDecoded, percentEncode } from './address/domain.ts';
import { cutIntoLines, encodeAddresses } from './address/encode-addresses.ts';
import { charsetDecoder, decodeRaw } from './header/charset.ts';
import { type RawParameter, readParameters } from './header/content-type.ts';
import { encodeComments, encodedWords, encodeText, hasNonAscii } from './header/encoded-word.ts';
import { foldField, foldInsideBrackets, foldPieces, maximumLineLength } from './header/fold.ts';
import { decodeWords } from './header/header-text.ts';
import { skipComments } from './header/quoted-text.ts';

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
  const anew: Sectioned[] = [];
  for (const same of Map.groupBy(parameters, (parameter) => baseName(parameter).toLowerCase()).values()) {
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
    octets.push(percentDecoded(percentEncode(value.slice(quotes?.[0].length ?? 0).toWellFormed())));
  }
  finish();
  return text;
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

/** How a field's value is written; the header catalogue names the kind of each field. */
export type FieldKind =
  /** Free text (RFC 5322 §2.2.1). */
  | 'text'
  /** Addresses: From, To, Cc, Reply-To (RFC 5322 §3.4). */
  | 'addresses'
  /** Addresses of a message that goes without SMTPUTF8 (RFC 6531): written in ASCII only. */
  | 'ascii-addresses'
  /**
   * Any other structure: phrases (Keywords), msg-ids, dates, tokens (RFC 5322 §3.2, §3.6). Comments are encoded inside their
   * parentheses; a word that is not ASCII becomes an encoded-word.
   */
  | 'structured'
  /** A phrase and an identifier in angle brackets: List-Id (RFC 2919 §2). */
  | 'identifier'
  /** URIs in angle brackets, or one without: List-*, Archived-At (RFC 2369, RFC 5064). */
  | 'uris'
  /** A value with parameters: Content-Type, Content-Disposition (RFC 2045 §5.1). */
  | 'parameters'
  /** One bare URI: Content-Location (RFC 2557 §4.2). */
  | 'location';

/**
 * Writes a field.
 * @param name as it leaves
 * @param text the given text: unfolded, trimmed of SP and TAB, any Unicode, no CR, LF or NUL
 * @param kind how the value is built
 * @returns `Name: value CRLF` with its folds, no line over 998 octets. ASCII, but for local parts of addresses
 */
export function writeField(name: string, text: string, kind: FieldKind = 'text'): string {
  const short = name.length + 2 + text.length <= 76;
  if (short && !hasNonAscii(text)) return `${name}: ${text}\r\n`;
  const used = name.length + 2;
  const ascii = hasNonAscii(text) ? encoders[kind](text, used) : text;
  return foldField(name, ascii) ?? foldLong(name, ascii, kind);
}

/** A URI whose brackets were forgotten, without an encoded-word. A parenthesis in it is its own. */
const bareUri = /(?:[a-z][a-z0-9+.-]*:\/\/|mailto:)(?!\S*=\?)[^\s<>",]+/iy;

/** Writes URIs in their brackets, or one without them that has nothing beside it but comments. */
function encodeUris(text: string, used: number): string {
  const start = (bareUri.lastIndex = Math.max(0, skipComments(text, 0)));
  const [uri = ''] = bareUri.exec(text) ?? [];
  const end = start + uri.length;
  if (uri === '' || skipComments(text, end) < text.length)
    return encodeAddresses(text, { used, phrasesOnly: true, writeBrackets: asciiUri });
  return encodeComments(text.slice(0, start)) + asciiUri(uri) + encodeComments(text.slice(end));
}

const encoders = {
  text: (text, used) => encodeText(text, { place: 'text', used }),
  addresses: (text, used) => encodeAddresses(text, { used }),
  'ascii-addresses': (text, used) => encodeAddresses(text, { used, asciiOnly: true }),
  structured: (text, used) => encodeAddresses(text, { used, phrasesOnly: true }),
  identifier: (text, used) =>
    encodeAddresses(text, {
      used,
      phrasesOnly: true,
      onePhrase: true,
      writeBrackets: (id) => asciiDomain(id) ?? asciiUri(id),
    }),
  uris: encodeUris,
  parameters: (text) => encodeParameters(text),
  location: (text) => asciiUri(text),
} as const satisfies Record<FieldKind, (text: string, used: number) => string>;

/** A parameter with more characters is cut into sections where a line would be too long; boundaries are shorter. */
const longestParameter = 200;

/** A run of white space with more octets may not fit a line with the word behind it. */
const longestBlankRun = 900;

/** Shortens a run of blanks, in which a fold would leave a line of white space (RFC 5322 §3.2.2): one blank means the same. */
function shortenBlanks(text: string): string {
  return text.replace(/[ \t]+/g, (run) => (run.length > longestBlankRun ? ' ' : run));
}

/** A word that does not even fit behind one blank on a line of its own. */
const isTooLong = (word: string): boolean => word.length >= maximumLineLength;

/** Folds a field with a run of over 998 octets without white space, or of white space alone (D12). */
function foldLong(name: string, given: string, kind: FieldKind): string {
  const used = name.length + 2;
  if (kind !== 'text') {
    const text = shortenBlanks(given);
    const folded =
      kind === 'parameters' ? foldField(name, encodeParameters(text, longestParameter)) : foldList(name, text, kind);
    if (folded !== undefined) return folded;
  }
  const runs = foldField(name, encodeText(given, { place: 'text', used, needs: isTooLong }));
  const written = runs ?? foldField(name, encodedWords(decodeWords(given), { place: 'text', used }));
  if (written === undefined) throw new Error(`Field ${name} cannot be folded to ${maximumLineLength} octets a line`);
  return written;
}

/** Folds a structured value. Only where no line can hold it otherwise, white space is added. */
function foldList(name: string, text: string, kind: Exclude<FieldKind, 'text' | 'parameters'>): string | undefined {
  if (kind === 'uris' || kind === 'identifier' || kind === 'location') {
    const folded = foldInsideBrackets(name, text);
    if (folded !== undefined) return folded;
  }
  const encoded = encoders[kind](text, name.length + 2);
  const whole = foldField(name, encoded);
  if (whole !== undefined) return whole;
  const [first = '', ...more] = cutIntoLines(encoded, kind !== 'addresses' && kind !== 'ascii-addresses');
  return first === '' ? undefined : foldPieces([`${name}: ${first}`, ...more.map((line) => ` ${line.trimStart()}`)]);
}

/** Whether no address of a list is too long for any line, in one pass: a list of thousands costs nearly nothing. */
export function canFoldAddresses(text: string): boolean {
  if (text.length * 3 < maximumLineLength) return true;
  let start = 0;
  for (let index = 0; index <= text.length; index += 1) {
    if (index < text.length && !dividers.includes(text.charAt(index))) continue;
    if ((index - start) * 3 >= maximumLineLength && isLongAddress(text, start, index)) return false;
    start = index + 1;
  }
  return true;
}

/** What may stand around an address; white space may stand beside each. */
const dividers = ' \t,;<>()"';

/** Tells whether the run at [start, end) is an address, or a quoted local part, of more octets than a line holds. */
function isLongAddress(text: string, start: number, end: number): boolean {
  const run = text.slice(start, end);
  if (Buffer.byteLength(run) < maximumLineLength) return false;
  // What stands in quotation marks or before brackets is a display name, and can be encoded.
  return text[start - 1] === '"' ? text.startsWith('"@', end) : text[end] !== '<' && run.includes('@');
}
