// Writes one header field as it leaves: non-ASCII text encoded by the kind of the field (D13), folded (D12).

import { encodeAddresses, splitAtSeparators } from './address/encode-addresses.ts';
import { encodeParameters } from './header/content-type.ts';
import { encodedWords, encodeText, hasNonAscii } from './header/encoded-word.ts';
import { foldField, foldInsideBrackets, foldPieces, maximumLineLength } from './header/fold.ts';
import { decodeWords } from './header/header-text.ts';

/** How a field's value is written; the header catalogue names the kind of each field. */
export type FieldKind =
  /** Free text (RFC 5322 §2.2.1). */
  | 'text'
  /** Addresses: From, To, Cc, Reply-To (RFC 5322 §3.4). */
  | 'addresses'
  /** Addresses of a message that goes without SMTPUTF8 (RFC 6531): written in ASCII only. */
  | 'ascii-addresses'
  /** Phrases separated by commas: Keywords (RFC 5322 §3.6.5). */
  | 'phrases'
  /** URIs in angle brackets: List-*, Archived-At (RFC 2369, RFC 5064). */
  | 'uris'
  /** Msg-ids, dates, language tags: a value that is not ASCII becomes encoded-words as a whole (D13). */
  | 'whole'
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

const encoders = {
  text: (text, used) => encodeText(text, { place: 'text', used }),
  addresses: (text, used) => encodeAddresses(text, { used }),
  'ascii-addresses': (text, used) => encodeAddresses(text, { used, asciiOnly: true }),
  phrases: (text, used) => encodeAddresses(text, { used, phrasesOnly: true }),
  uris: encodeUris,
  // The policy judged the decoded form. Encoded-words are decoded first, since they would be encoded twice otherwise.
  whole: (text, used) => encodedWords(decodeWords(text), { place: 'text', used }),
  parameters: (text) => encodeParameters(text),
  location: (text) => percentEncode(text),
} as const satisfies Record<FieldKind, (text: string, used: number) => string>;

/** Percent-encodes what is not ASCII (RFC 3987 §3.1); a lone surrogate becomes U+FFFD. */
function percentEncode(text: string): string {
  return text.toWellFormed().replace(/[^\x00-\x7f]+/gu, (run) => encodeURIComponent(run));
}

/** Percent-encodes text inside angle brackets; text outside becomes encoded-words (D13). */
function encodeUris(text: string, used: number): string {
  const percent = text.replace(/<[^<>]*>/g, (uri) => (hasNonAscii(uri) ? percentEncode(uri) : uri));
  return hasNonAscii(percent) ? encodeAddresses(percent, { used, phrasesOnly: true }) : percent;
}

/** A parameter with more characters is cut into sections where a line would be too long; boundaries are shorter. */
const longestParameter = 200;

/** A run of white space with more octets may not fit a line with the word behind it. */
const longestBlankRun = 900;

/** A word that does not even fit behind one blank on a line of its own. */
function isTooLong(word: string): boolean {
  return word.length >= maximumLineLength;
}

/**
 * Shortens a run of blanks that cannot be folded: a fold inside it would leave a line of white space alone (RFC 5322
 * §3.2.2). Between the words of a structured value one blank means the same.
 */
function shortenBlanks(text: string): string {
  return text.replace(/[ \t]+/g, (run) => (run.length > longestBlankRun ? ' ' : run));
}

/** Folds a field with a run of over 998 octets without white space, or of white space alone (D12). */
function foldLong(name: string, given: string, kind: FieldKind): string {
  const used = name.length + 2;
  const text = kind === 'text' || kind === 'whole' ? given : shortenBlanks(given);
  let folded: string | undefined;
  if (kind === 'uris') folded = foldInsideBrackets(name, text);
  else if (kind === 'parameters') folded = foldField(name, encodeParameters(text, longestParameter));
  if (folded !== undefined) return folded;
  if (kind === 'addresses' || kind === 'ascii-addresses' || kind === 'phrases') {
    const encoded = encodeAddresses(text, { used, phrasesOnly: kind === 'phrases' });
    const whole = foldField(name, encoded);
    if (whole !== undefined) return whole;
    // No line can hold a list without white space: only here white space is added, behind commas.
    const [first = '', ...more] = splitAtSeparators(encoded);
    const listed = foldPieces([`${name}: ${first}`, ...more.map((piece) => ` ${piece.trimStart()}`)]);
    if (listed !== undefined) return listed;
  }
  const runs = foldField(name, encodeText(text, { place: 'text', used, needs: isTooLong }));
  const written = runs ?? foldField(name, encodedWords(decodeWords(text), { place: 'text', used }));
  if (written === undefined) throw new Error(`Field ${name} cannot be folded to ${maximumLineLength} octets a line`);
  return written;
}
