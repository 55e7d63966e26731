// Address lists (RFC 5322 §3.4) whose text is not ASCII, writing side: phrases, quoted-strings and comments become
// encoded-words (RFC 2047 §5), domains A-labels; a local part stays raw UTF-8 and makes the message SMTPUTF8 (RFC 6532).

import { encodedWords, encodeRuns, encodeText, hasNonAscii, isEncodedWord, type Word } from '../header/encoded-word.ts';
import { decodeWords } from '../header/header-text.ts';
import { closingEnd, commentEnd } from '../header/quoted-text.ts';
import { asciiDomain } from './domain.ts';

type TokenKind = 'atom' | 'quoted' | 'comment' | 'angle' | 'separator';

interface Token {
  readonly kind: TokenKind;
  /** White space before it. */
  readonly gap: string;
  readonly raw: string;
}

/** A phrase token longer than this cannot stay in one piece (D12). */
const longestToken = 900;

/** How a list is written. */
export interface ListOptions {
  /** Octets before it on its line. */
  readonly used: number;
  /** A list of phrases, no addresses (Keywords). */
  readonly phrasesOnly?: boolean;
  /** For a message that needs no SMTPUTF8: an address that ASCII cannot write becomes text. */
  readonly asciiOnly?: boolean;
}

/**
 * Writes an address list or a list of phrases in ASCII where RFC 2047 allows it.
 * @param text as given: unfolded, trimmed
 * @returns the text itself when nothing has to change
 */
export function encodeAddresses(text: string, options: ListOptions): string {
  let written = '';
  let segment: Token[] = [];
  let inGroup = false;
  const finish = (separator: string): void => {
    // RFC 5322 §3.4: what stands before a colon is a group's display-name.
    const phrase = options.phrasesOnly === true || separator === ':';
    const used = options.used + written.length;
    const element = writeSegment(segment, { phrase, used });
    written += options.asciiOnly && hasNonAscii(element) ? writeAsText(segment, { inGroup, used }) : element;
    segment = [];
  };
  for (const token of tokenize(text)) {
    if (token.kind !== 'separator') {
      segment.push(token);
      continue;
    }
    finish(token.raw);
    written += token.gap + token.raw;
    if (token.raw !== ',') inGroup = token.raw === ':';
  }
  finish('');
  return written;
}

/**
 * Writes an element whose address ASCII has no form for, so that it is still read, though not written to: as the name of
 * an empty group (RFC 6857 §3.1), inside of a group as a comment, since groups do not nest.
 */
function writeAsText(segment: readonly Token[], options: { readonly inGroup: boolean; readonly used: number }): string {
  const gap = segment[0]?.gap ?? '';
  const text = decodeWords(segment.map((token, index) => (index === 0 ? '' : token.gap) + token.raw).join(''));
  const words = encodedWords(text, { place: 'phrase', used: options.used + gap.length });
  return options.inGroup ? `${gap}(${words})` : `${gap}${words}:;`;
}

/** Cuts an address list behind its separators, for lists without white space that no line can hold (D12). */
export function splitAtSeparators(text: string): readonly string[] {
  const pieces: string[] = [];
  let piece = '';
  for (const token of tokenize(text)) {
    piece += token.gap + token.raw;
    if (token.kind === 'separator' && token.raw === ',') {
      pieces.push(piece);
      piece = '';
    }
  }
  if (piece) pieces.push(piece);
  return pieces;
}

function writeSegment(segment: readonly Token[], options: { readonly phrase: boolean; readonly used: number }): string {
  const angle = segment.findIndex((token) => token.kind === 'angle');
  const phraseEnd = options.phrase ? segment.length : Math.max(angle, 0);
  let written = '';
  let words: Word[] = [];
  const flush = (): void => {
    written += encodeRuns(words, { place: 'phrase', used: options.used + written.length });
    words = [];
  };
  segment.forEach((token, index) => {
    const inPhrase = index < phraseEnd;
    // In a list of phrases brackets mean nothing: no address stands in them whose local part had to stay (D13).
    const isWord = token.kind === 'angle' ? hasNonAscii(token.raw) : token.kind === 'atom' || token.kind === 'quoted';
    if (inPhrase && isWord) {
      words.push(phraseWord(token));
      return;
    }
    flush();
    written += token.gap + writeToken(token);
  });
  flush();
  return written;
}

function phraseWord(token: Token): Word {
  const { gap, raw } = token;
  const text = token.kind === 'quoted' ? unquote(raw) : raw;
  const encoded = isEncodedWord(raw) || isEncodedWord(text);
  return { gap, raw, text, needs: !encoded && needsEncoding(raw), encoded };
}

/** Takes quotes and backslashes off a quoted-string. */
function unquote(raw: string): string {
  return raw.slice(1, raw.length > 1 && raw.endsWith('"') ? -1 : undefined).replace(/\\([\s\S])/g, '$1');
}

function writeToken(token: Token): string {
  const { kind, raw } = token;
  if (kind === 'comment') return needsEncoding(raw) ? encodeComment(raw) : raw;
  if (!hasNonAscii(raw)) return raw;
  if (kind === 'angle') return `<${withAsciiDomain(raw.slice(1, -1))}>`;
  return kind === 'atom' ? withAsciiDomain(raw) : raw;
}

function needsEncoding(raw: string): boolean {
  return hasNonAscii(raw) || raw.length > longestToken;
}

function encodeComment(raw: string): string {
  const content = raw.slice(1, -1);
  // A word that holds a parenthesis would take it out of the comment's nesting: such a comment is encoded whole.
  if (/[()\\]/.test(content)) return `(${encodedWords(content.replace(/\\([\s\S])/g, '$1'), { place: 'phrase' })})`;
  return `(${encodeText(content, { place: 'phrase', used: 60, needs: needsEncoding })})`;
}

function withAsciiDomain(address: string): string {
  const at = address.lastIndexOf('@');
  if (at < 0) return address;
  const domain = asciiDomain(address.slice(at + 1).trim());
  return domain === undefined ? address : `${address.slice(0, at + 1)}${domain}`;
}

const closers: Readonly<Record<string, TokenKind>> = { '"': 'quoted', '(': 'comment', '<': 'angle' };

/** Cuts a list into tokens; joined with their gaps they are the list again, but for white space at the end. Linear. */
function tokenize(text: string): readonly Token[] {
  const tokens: Token[] = [];
  let index = 0;
  while (index < text.length) {
    const gapStart = index;
    while (index < text.length && isBlank(text.charCodeAt(index))) index += 1;
    if (index === text.length) break;
    const gap = text.slice(gapStart, index);
    const start = index;
    const first = text[index] ?? '';
    const kind = closers[first];
    if (kind === 'quoted') index = orAll(closingEnd(text, start, '"'), text);
    else if (kind === 'comment') index = orAll(commentEnd(text, start), text);
    else if (kind === 'angle') index = angleEnd(text, start);
    else if (first === ',' || first === ';' || first === ':') index = start + 1;
    else index = atomEnd(text, start);
    const separator = first === ',' || first === ';' || first === ':';
    tokens.push({ kind: separator ? 'separator' : (kind ?? 'atom'), gap, raw: text.slice(start, index) });
  }
  return tokens;
}

function isBlank(code: number): boolean {
  return code === 32 || code === 9;
}

/** Where a quoted-string or comment ends; with the text where it is never closed. */
function orAll(end: number, text: string): number {
  return end < 0 ? text.length : end;
}

function angleEnd(text: string, start: number): number {
  for (let index = start + 1; index < text.length; index += 1) {
    if (text[index] === '"') index = orAll(closingEnd(text, index, '"'), text) - 1;
    else if (text[index] === '>') return index + 1;
  }
  return text.length;
}

/** An atom runs to white space or a special; `"x y"@z` and `[IPv6:::1]` stay in one with what is around them. */
function atomEnd(text: string, start: number): number {
  let index = start;
  while (index < text.length) {
    const character = text[index] ?? '';
    if (character === '[') {
      const close = text.indexOf(']', index);
      index = close < 0 ? text.length : close + 1;
    } else if (isBlank(text.charCodeAt(index)) || ',;:<("'.includes(character)) break;
    else index += 1;
  }
  return index;
}
