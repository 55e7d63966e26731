// Writes address lists (RFC 5322 §3.4) in ASCII: phrases, quoted-strings and comments as encoded-words, domains as A-labels; a local part
// stays raw UTF-8 (RFC 6532). What is no address list is taken too: only From is refused for its syntax (D14).

import {
  encodeComment,
  encodedWordLine,
  encodedWords,
  encodeRuns,
  hasNonAscii,
  isEncodedWord,
  longestPlainWord,
  type Word,
} from '../header/encoded-word.ts';
import { maximumLineLength } from '../header/fold.ts';
import { decodeWords } from '../header/header-text.ts';
import { type AddressToken, contentOf, isSpecial, Scanner } from './address-scanner.ts';
import { asciiDomain } from './domain.ts';

interface ListToken extends AddressToken {
  /** White space before it. */
  readonly gap: string;
  /** The token is the whole domain: an `@` stands before it, perhaps with comments between, and no word behind it. */
  readonly isDomain: boolean;
}

/** Tokens that belong together: a word without white space, a comment, an address in brackets, or one `,` `;` `:`. */
interface Piece {
  readonly kind: 'word' | 'comment' | 'angle' | 'separator';
  /** White space before it. */
  readonly gap: string;
  readonly raw: string;
  /** At least one. */
  readonly tokens: readonly ListToken[];
}

/** How a list is written. */
export interface ListOptions {
  /** Octets before it on its line. */
  readonly used: number;
  /** The list holds phrases and no addresses, as Keywords does; brackets in it hold URIs or msg-ids. */
  readonly phrasesOnly?: boolean;
  /** All of it is one phrase before brackets, its commas too: where anything of it is encoded, the whole phrase is (List-Id). */
  readonly onePhrase?: boolean;
  /** Writes in ASCII what stands in brackets; without it that becomes part of a phrase. */
  readonly writeBrackets?: (content: string) => string;
  /** For a message that needs no SMTPUTF8: an address that ASCII cannot write becomes text. */
  readonly asciiOnly?: boolean;
}

/** Writes a list of addresses or phrases in ASCII where RFC 2047 allows it. Linear, never throws. @param text unfolded, trimmed */
export function encodeAddresses(text: string, options: ListOptions): string {
  let written = '';
  let element: Piece[] = [];
  let inGroup = false;
  let tail = '';
  const append = (more: string): void => {
    written += more;
    tail = endOf(tail + more);
  };
  const finish = (separator: string): void => {
    // RFC 5322 §3.4: what stands before a colon is a group's display-name.
    const phrase = options.phrasesOnly === true || separator === ':';
    const used = options.used + written.length;
    const encoded = writeElement(element, { phrase, used, whole: options.onePhrase === true, before: tail });
    const text = options.asciiOnly && hasNonAscii(encoded) ? writeAsText(element, { inGroup, used }) : encoded;
    append(text !== encoded && isOverfull(tail, text) ? ` ${text}` : text);
    element = [];
  };
  for (const piece of cutPieces(text, options.phrasesOnly === true)) {
    if (piece.kind !== 'separator' || options.onePhrase) {
      element.push(options.phrasesOnly ? withHosts(piece, options) : piece);
      continue;
    }
    finish(piece.raw);
    append(piece.gap + piece.raw);
    if (piece.raw !== ',') inGroup = piece.raw === ':';
  }
  finish('');
  return written;
}

/** Writes the URI in brackets and the mailbox of a phrase's word in ASCII, where that is all they need. */
function withHosts(piece: Piece, { writeBrackets }: ListOptions): Piece {
  const { gap, kind, raw, tokens } = piece;
  if (!hasNonAscii(raw)) return piece;
  let text: string | undefined;
  if (kind === 'angle' && raw.endsWith('>')) text = writeBrackets && `<${writeBrackets(raw.slice(1, -1))}>`;
  else if (kind === 'word' && tokens.some(({ isDomain }) => isDomain)) text = writePiece(piece);
  if (text === undefined || hasNonAscii(text)) return piece;
  return { kind, gap, raw: text, tokens: [{ kind: 'atom', start: 0, end: text.length, text, gap, isDomain: false }] };
}

/**
 * Cuts a structured value without white space into lines: behind commas and semicolons, and wherever else a line would be
 * over 998 octets between two words, comments or brackets, where RFC 5322 §3.2.2 lets white space stand (D12).
 * @param hasUris brackets hold URIs or msg-ids, not addresses
 * @returns the lines; one word, comment or address may still be too long for its line
 */
export function cutIntoLines(text: string, hasUris: boolean): readonly string[] {
  const lines: string[] = [];
  let line = '';
  let octets = 0;
  for (const { kind, gap, raw } of cutPieces(text, hasUris)) {
    const length = Buffer.byteLength(raw);
    if (octets > 0 && octets + gap.length + length >= maximumLineLength) {
      lines.push(line);
      line = '';
      octets = 0;
    }
    line += gap + raw;
    octets += gap.length + length;
    if (kind === 'separator' && raw !== ':') {
      lines.push(line);
      line = '';
      octets = 0;
    }
  }
  return line ? [...lines, line] : lines;
}

/** Writes an address without a form in ASCII for people to read: as an empty group (RFC 6857 §3.1), or a comment in a group. */
function writeAsText(element: readonly Piece[], options: { readonly inGroup: boolean; readonly used: number }): string {
  const gap = element[0]?.gap ?? '';
  const text = decodeWords(element.map((piece, index) => (index === 0 ? '' : piece.gap) + piece.raw).join(''));
  const words = encodedWords(text, { place: 'phrase', used: options.used + gap.length });
  return options.inGroup ? `${gap}(${words})` : `${gap}${words}:;`;
}

/** As much of a text's end as a line with an encoded-word has. */
function endOf(text: string): string {
  return text.slice(-encodedWordLine);
}

/** Whether what is between two blanks would be too long for a line with an encoded-word if two texts touched (RFC 2047 §2). */
function isOverfull(before: string, behind: string): boolean {
  const run = `${before.slice(before.lastIndexOf(' ') + 1)}${/^[^ ]*/.exec(behind.slice(0, encodedWordLine))?.[0] ?? ''}`;
  // A blank stands before it, and perhaps a comma behind it.
  return run.length > encodedWordLine - 2 && run.includes('=?');
}

/** @param options.before the end of what stands before the element; empty where it is the first */
function writeElement(
  element: readonly Piece[],
  options: { readonly phrase: boolean; readonly used: number; readonly whole: boolean; readonly before: string },
): string {
  const angle = element.findIndex(({ kind }) => kind === 'angle');
  const wholly = options.whole && element.some((piece) => isInPhrase(piece) && needsEncoding(piece.raw));
  let written = '';
  let words: Word[] = [];
  let before: Word | undefined;
  // RFC 2047 §5 (3): white space separates an encoded-word of a phrase from all around it.
  const isGlued = ({ gap }: Piece, index: number): boolean => gap === '' && !(options.before === '' && index === 0);
  let tail = options.before;
  const append = (more: string): void => {
    written += more;
    tail = endOf(tail + more);
  };
  const flush = (): void => {
    append(encodeRuns(words, { place: 'phrase', used: options.used + written.length }));
    words = [];
  };
  element.forEach((piece, index) => {
    if (options.phrase ? isInPhrase(piece) : angle >= 0 && isAroundAngle(piece, index < angle)) {
      const given = phraseWord(piece);
      const needs = wholly ? !given.encoded : given.needs;
      const isApart = words.length === 0 && isGlued(piece, index) && (needs || isOverfull(tail, given.raw));
      const word = { ...given, needs, gap: isApart ? ' ' : given.gap };
      if (words.length === 0 && before) words = [...behindComment(word, before)];
      else words.push(word);
      before = word;
      return;
    }
    flush();
    const text = writePiece(piece);
    const gap = isGlued(piece, index) && (before?.needs || isOverfull(tail, text)) ? ' ' : piece.gap;
    if (piece.kind !== 'comment') before = undefined;
    append(gap + text);
  });
  flush();
  return written;
}

/** In a list of phrases brackets mean nothing, and hold no address (D13). A separator is an element's where all is one phrase. */
function isInPhrase({ kind, raw }: Piece): boolean {
  return kind === 'word' || kind === 'separator' || (kind === 'angle' && hasNonAscii(raw));
}

/** Before the brackets stands a display name; behind them what a mailer put there, or an address without its comma. */
function isAroundAngle({ kind, tokens }: Piece, isBefore: boolean): boolean {
  return kind === 'word' && (isBefore || !tokens.some((token) => isSpecial(token, '@')));
}

function phraseWord({ gap, raw, tokens }: Piece): Word {
  const text = tokens
    .map((token, index) => (areTwoWords(tokens[index - 1], token) ? ' ' : '') + contentOf(token))
    .join('');
  const encoded = isEncodedWord(raw) || isEncodedWord(text);
  return { gap, raw, text, needs: !encoded && needsEncoding(raw), encoded };
}

/** The words behind a comment, which readers take out with the blank between two encoded-words (RFC 2047 §6.2): it is encoded. */
function behindComment(word: Word, before: Word): readonly Word[] {
  if (word.needs) return [before.needs || before.encoded ? { ...word, text: ` ${word.text}` } : word];
  if (!word.encoded || !before.needs) return [word];
  // The given word stays as it is: an encoded-word that holds only the blank goes before it.
  return [
    { gap: word.gap, raw: '', text: '', needs: true, encoded: false },
    { ...word, gap: ' ' },
  ];
}

/** RFC 5322 §3.2.5: `"Jo"Zoë` is two words of a phrase; readers show a blank between them. */
function areTwoWords(before: ListToken | undefined, token: ListToken): boolean {
  if (!before || before.kind === 'special' || token.kind === 'special') return false;
  return before.kind === 'quoted' || token.kind === 'quoted';
}

function writePiece({ raw, tokens }: Piece): string {
  if (!needsEncoding(raw)) return raw;
  return tokens.map((token, index) => (index === 0 ? '' : token.gap) + writeToken(token)).join('');
}

function writeToken(token: ListToken): string {
  const { kind, text, isDomain } = token;
  if (isComment(token)) return encodeComment(text, kind === 'comment');
  return kind === 'atom' && isDomain && hasNonAscii(text) ? (asciiDomain(text) ?? text) : text;
}

function needsEncoding(raw: string): boolean {
  return hasNonAscii(raw) || raw.length > longestPlainWord;
}

/** Lists all tokens. Brackets that hold URIs are one token: quotation marks and parentheses mean nothing inside them. */
function scanTokens(text: string, hasUris: boolean): readonly ListToken[] {
  const scanner = new Scanner(text);
  const tokens: ListToken[] = [];
  let end = 0;
  let isBehindAt = false;
  for (let next = scanner.peek(); next.kind !== 'end'; next = scanner.peek()) {
    const token = hasUris && isSpecial(next, '<') ? scanner.takeBrackets() : scanner.take();
    tokens.push({
      ...token,
      gap: text.slice(end, token.start),
      isDomain: isBehindAt && scanner.peek().kind !== 'atom',
    });
    if (token.kind !== 'comment') isBehindAt = isSpecial(token, '@');
    end = token.end;
  }
  return tokens;
}

/** Cuts a list into pieces. Joined with their gaps they give the list again, without white space at its end. Linear. */
function cutPieces(text: string, hasUris: boolean): readonly Piece[] {
  const tokens = scanTokens(text, hasUris);
  const pieces: Piece[] = [];
  for (let index = 0; index < tokens.length; ) {
    const [kind, end] = pieceAt(tokens, index);
    const taken = tokens.slice(index, end);
    const [first, last] = [taken[0], taken.at(-1)];
    pieces.push({ kind, gap: first?.gap ?? '', raw: text.slice(first?.start, last?.end), tokens: taken });
    index = end;
  }
  return pieces;
}

/** Gives the kind of the piece that begins at a token, and the index behind the piece's last token. */
function pieceAt(tokens: readonly ListToken[], index: number): readonly [Piece['kind'], number] {
  const first = tokens[index];
  if (!first || isSeparator(first)) return ['separator', index + 1];
  if (isComment(first)) return ['comment', index + 1];
  if (isBracket(first)) {
    const end = first.kind === 'special' ? angleEnd(tokens, index) : index + 1;
    return end < 0 ? ['word', index + 1] : ['angle', end];
  }
  // RFC 2047 §5 (3): an encoded-word is separated from words, so tokens without white space between are encoded together.
  let end = index + 1;
  for (let next = tokens[end]; next?.gap === '' && isOfWord(next); next = tokens[end]) end += 1;
  return ['word', end];
}

/** The index behind an address in brackets, or before the next separator. -1 where another `<` opens it, as in `5 < 6 <a@b>`. */
function angleEnd(tokens: readonly ListToken[], open: number): number {
  let separator = -1;
  for (let index = open + 1; index < tokens.length; index += 1) {
    const token = tokens[index];
    if (!token || isSpecial(token, '>')) return index + 1;
    if (isSpecial(token, '<')) return separator;
    if (separator < 0 && (isSpecial(token, ',') || isSpecial(token, ';'))) separator = index;
  }
  return separator < 0 ? tokens.length : separator;
}

function isSeparator({ kind, text }: ListToken): boolean {
  return kind === 'special' && (text === ',' || text === ';' || text === ':');
}

/** Tells whether a token is a comment, also one that is never closed: readers take it to the end of the field. */
function isComment({ kind, text }: ListToken): boolean {
  return kind === 'comment' || (kind === 'open' && text.startsWith('('));
}

/** Tells whether a token is `<`, or the brackets of a URI. */
function isBracket({ kind, text }: ListToken): boolean {
  return kind === 'brackets' || ((kind === 'special' || kind === 'open') && text.startsWith('<'));
}

function isOfWord(token: ListToken): boolean {
  return !isSeparator(token) && !isComment(token) && !isBracket(token);
}
