// Writes encoded-words (RFC 2047) of UTF-8 in B or Q, the shorter; 72 octets at most (§2), and no character split between two.

import { decodeWords, isBlank } from './header-text.ts';
import { commentEnd, withoutQuotedPairs } from './quoted-text.ts';

/** RFC 2047 §2: the limit of lines with an encoded-word; one word may have 75 octets. */
export const encodedWordLine = 76;
/** A line also holds the blank before a word, the parentheses of a comment around it, and a comma. */
const longestWord = encodedWordLine - 4;
const opening = '=?utf-8?';
/** `=?utf-8?Q?` and `?=`. */
const overhead = opening.length + 4;

/** RFC 2047 §5 (3): all that Q may leave unencoded in a phrase; it is safe in text and comments too. */
const plainInPhrase = /^[A-Za-z0-9!*+\-/]$/;
/** RFC 2047 §4.2, §5 (1), (2): text allows other printable ASCII too; without `( ) "` comments are also safe. */
const plainInText = /^[A-Za-z0-9!*+\-/#$%&',.:;<>@[\\\]^`{|}~]$/;

const qTable = (plain: RegExp): readonly string[] =>
  Array.from({ length: 256 }, (_, octet) => {
    const character = String.fromCharCode(octet);
    if (octet === 32) return '_';
    return plain.test(character) ? character : `=${octet.toString(16).toUpperCase().padStart(2, '0')}`;
  });

const tables = { phrase: qTable(plainInPhrase), text: qTable(plainInText) } as const;

/** Where encoded-words stand: it decides which characters Q may leave as they are (RFC 2047 §5). */
export type EncodedWordContext = keyof typeof tables;

/**
 * Writes a text as encoded-words with one blank between two; readers drop that blank (RFC 2047 §6.2).
 * @param text any Unicode; a lone surrogate becomes U+FFFD
 * @param options `used`: octets already on the line, so that the first word may fit behind them
 * @returns ASCII; every word at most 72 octets
 */
export function encodedWords(
  text: string,
  options: { readonly place: EncodedWordContext; readonly used?: number },
): string {
  const table = tables[options.place];
  const characters = Array.from(text.toWellFormed(), (character) => characterForms(character, table));
  const octets = characters.reduce((sum, character) => sum + character.octets, 0);
  const qLength = characters.reduce((sum, character) => sum + character.q.length, 0);
  const useB = Math.ceil(octets / 3) * 4 < qLength;
  // RFC 2047 §2: a line with an encoded-word has at most 76 octets. A very short word in the rest of a line is not worth it.
  const rest = encodedWordLine - (options.used ?? 0);
  let room = (rest >= 24 ? Math.min(rest, longestWord) : longestWord) - overhead;
  const words: string[] = [];
  let from = 0;
  while (from < characters.length) {
    const to = take(characters, from, room, useB);
    words.push(wordOf(characters.slice(from, to), useB));
    from = to;
    room = longestWord - overhead;
  }
  return words.join(' ');
}

interface CharacterForms {
  readonly text: string;
  /** Octets of UTF-8. */
  readonly octets: number;
  readonly q: string;
}

function characterForms(text: string, table: readonly string[]): CharacterForms {
  const code = text.charCodeAt(0);
  if (code < 0x80) return { text, octets: 1, q: table[code] ?? '' };
  let q = '';
  const octets = Buffer.from(text, 'utf8');
  for (const octet of octets) q += table[octet] ?? '';
  return { text, octets: octets.length, q };
}

/** The index behind the last character that fits; takes at least one, since a character is at most 12 octets of Q. */
function take(characters: readonly CharacterForms[], from: number, room: number, useB: boolean): number {
  const most = useB ? Math.floor(room / 4) * 3 : room;
  let length = 0;
  let to = from;
  for (; to < characters.length; to += 1) {
    length += (useB ? characters[to]?.octets : characters[to]?.q.length) ?? 0;
    if (length > most && to > from) break;
  }
  return to;
}

function wordOf(characters: readonly CharacterForms[], useB: boolean): string {
  const text = characters.map((character) => (useB ? character.text : character.q)).join('');
  return `${opening}${useB ? `B?${Buffer.from(text, 'utf8').toString('base64')}` : `Q?${text}`}?=`;
}

const wholeWord = /^=\?[!->@-~]+\?[bq]\?[!->@-~]*\?=$/i;

/** Tells whether a word (no white space in it) is an ASCII encoded-word, which may leave as it is. */
export function isEncodedWord(word: string): boolean {
  return word.startsWith('=?') && wholeWord.test(word);
}

const anyWord = /=\?[^?\s]+\?[bq]\?[^?\s]*\?=/i;

/** Tells whether a line holds an encoded-word. Linear, because it first looks for `=?`. */
export function hasEncodedWord(line: string): boolean {
  const start = line.indexOf('=?');
  return start >= 0 && anyWord.test(line.slice(start));
}

const nonAscii = /[^\x00-\x7f]/;

/** Tells whether a text has a character outside ASCII. */
export function hasNonAscii(text: string): boolean {
  return nonAscii.test(text);
}

/** One word of a text or phrase, as `encodeRuns` takes it. */
export interface Word {
  /** White space before it. */
  readonly gap: string;
  /** As given; written so when the word is not encoded. */
  readonly raw: string;
  /** What it means: `raw`, or a quoted-string's content. */
  readonly text: string;
  /** The word has to be encoded. */
  readonly needs: boolean;
  /** The word already is an encoded-word: it stays, and no run that we encode includes it. */
  readonly encoded: boolean;
}

/**
 * Writes words. Each run from a word that needs encoding to the last one that does becomes encoded-words; all else stays
 * as given (D13). A blank between one of these and an encoded-word that was given is encoded too, since readers drop the
 * white space between two encoded-words (RFC 2047 §6.2). Linear.
 */
export function encodeRuns(
  words: readonly Word[],
  options: { readonly place: EncodedWordContext; readonly used: number },
): string {
  let written = '';
  let index = 0;
  for (let word = words[0]; word; word = words[index]) {
    const before = words[index - 1];
    if (!word.needs) {
      written += (before?.needs ? word.gap || ' ' : word.gap) + word.raw;
      index += 1;
      continue;
    }
    const last = runEnd(words, index);
    const next = words[last + 1];
    // One blank divides, from another encoded-word always; others would make lines too long, and go into the run.
    const gap = word.gap.charAt(0) || (before ? ' ' : '');
    let run = before?.encoded ? word.gap : word.gap.slice(1);
    for (let at = index; at <= last; at += 1)
      run += (at > index ? (words[at]?.gap ?? '') : '') + (words[at]?.text ?? '');
    if (next?.encoded) run += next.gap;
    const used = columnAfter(options.used + written.length + gap.length);
    // Readers decode an encoded-word that is glued to raw text (D13): kept as plain text it would be encoded twice.
    written += gap + encodedWords(decodeWords(run), { place: options.place, used });
    index = last + 1;
  }
  return written;
}

/** Octets on the last line, assuming that the lines before were folded at 76. */
function columnAfter(length: number): number {
  return length <= encodedWordLine ? length : length % encodedWordLine;
}

/** The last word of the run that begins at `from`: words between two that need encoding belong to the run. */
function runEnd(words: readonly Word[], from: number): number {
  let last = from;
  for (let index = from + 1; index < words.length && !words[index]?.encoded; index += 1) {
    if (words[index]?.needs) last = index;
  }
  return last;
}

/** Writes an unstructured text. @param options `needs`: which words are encoded, by default non-ASCII; `used`: octets before it */
export function encodeText(
  text: string,
  options: { readonly place: EncodedWordContext; readonly used: number; readonly needs?: (word: string) => boolean },
): string {
  const needs = options.needs ?? hasNonAscii;
  const words: Word[] = [];
  let gapStart = 0;
  for (let index = 0; index < text.length; ) {
    if (isBlank(text.charCodeAt(index))) {
      index += 1;
      continue;
    }
    const start = index;
    while (index < text.length && !isBlank(text.charCodeAt(index))) index += 1;
    const raw = text.slice(start, index);
    words.push({ gap: text.slice(gapStart, start), raw, text: raw, needs: needs(raw), encoded: isEncodedWord(raw) });
    gapStart = index;
  }
  return encodeRuns(words, options) + text.slice(gapStart);
}

/** A word or comment longer than this cannot stay in one piece (D12). */
export const longestPlainWord = 900;

function needsEncoding(text: string): boolean {
  return hasNonAscii(text) || text.length > longestPlainWord;
}

/** Writes one comment in ASCII, words inside its parentheses (RFC 2047 §5 (2)). @param closed whether the last one is there */
export function encodeComment(comment: string, closed = true): string {
  if (!needsEncoding(comment)) return comment;
  const content = comment.slice(1, closed ? -1 : undefined);
  // Encoded alone, a word with a parenthesis would leave the comment's nesting unbalanced: encode the whole comment.
  if (/[()\\]/.test(content)) return `(${encodedWords(decodeWords(withoutQuotedPairs(content)), { place: 'phrase' })})`;
  return `(${encodeText(content, { place: 'phrase', used: 60, needs: needsEncoding })})`;
}

/** Writes the comments of a text in ASCII, and leaves all else; the text holds no quoted-string. Linear. */
export function encodeComments(text: string): string {
  let written = '';
  let copied = 0;
  for (let open = text.indexOf('('); open >= 0; open = text.indexOf('(', copied)) {
    const end = commentEnd(text, open);
    if (end < 0) break;
    written += text.slice(copied, open) + encodeComment(text.slice(open, end));
    copied = end;
  }
  return written + text.slice(copied);
}
