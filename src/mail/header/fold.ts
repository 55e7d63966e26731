// Folds header fields (RFC 5322 §2.2.3, RFC 2047 §2; D12), only at white space that is already there. Lines have at most
// 78 octets where the white space allows it, 76 with an encoded-word, and never more than 998.

import { hasEncodedWord, hasNonAscii } from './encoded-word.ts';
import { isBlank } from './header-text.ts';

/** RFC 5322 §2.1.1: lines SHOULD have no more than this many octets. */
const preferredLineLength = 78;
/** RFC 2047 §2: the limit of lines with an encoded-word. */
const encodedWordLineLength = 76;
/** RFC 5322 §2.1.1: lines MUST have no more than this many octets. */
export const maximumLineLength = 998;

/**
 * Folds a field.
 * @param name the field's name
 * @param text its value in one line, trimmed of SP and TAB, without CR and LF
 * @returns `Name: value CRLF`, folds included; taking the folds' CRLF out gives `Name: value` back. Undefined when a line
 *   would be over 998 octets
 */
export function foldField(name: string, text: string): string | undefined {
  const whole = `${name}: ${text}`;
  if (whole.length <= encodedWordLineLength && !hasNonAscii(whole)) return `${whole}\r\n`;
  return foldWhole(whole);
}

function foldWhole(whole: string): string | undefined {
  if (!hasNonAscii(whole)) return foldOctets(whole);
  // Limits count octets: fold the UTF-8 as latin1, which has one character for each octet.
  const folded = foldOctets(Buffer.from(whole, 'utf8').toString('latin1'));
  return folded === undefined ? undefined : Buffer.from(folded, 'latin1').toString('utf8');
}

function foldOctets(whole: string): string | undefined {
  let folded = '';
  let lineStart = 0;
  for (;;) {
    const lineEnd = chooseLineEnd(whole, lineStart);
    if (lineEnd - lineStart > maximumLineLength) return undefined;
    folded += `${whole.slice(lineStart, lineEnd)}\r\n`;
    if (lineEnd === whole.length) return folded;
    lineStart = lineEnd;
  }
}

/** Gives the end of the line that begins at `start`: an offset before white space, or the end of the text. */
function chooseLineEnd(whole: string, start: number): number {
  const end = lineEndWithin(whole, start, preferredLineLength);
  if (end - start <= encodedWordLineLength || !hasEncodedWord(whole.slice(start, end))) return end;
  return lineEndWithin(whole, start, encodedWordLineLength);
}

function lineEndWithin(whole: string, start: number, limit: number): number {
  if (whole.length - start <= limit) return whole.length;
  // RFC 5322 §3.2.2: no line of white space alone, so no fold inside the line's leading white space.
  let first = start;
  while (isBlank(whole.charCodeAt(first))) first += 1;
  for (let index = start + limit; index > first; index -= 1) {
    if (isBlank(whole.charCodeAt(index))) return startOfRun(whole, index, { first, limit });
  }
  for (let index = Math.max(start + limit, first) + 1; index < whole.length; index += 1) {
    if (isBlank(whole.charCodeAt(index))) return index;
  }
  return whole.length;
}

/** Folds before a run of white space rather than inside it, unless the next word would then not fit its line. */
function startOfRun(whole: string, index: number, line: { readonly first: number; readonly limit: number }): number {
  let runStart = index;
  while (runStart - 1 > line.first && isBlank(whole.charCodeAt(runStart - 1))) runStart -= 1;
  if (runStart === index) return index;
  let wordEnd = index;
  while (wordEnd < whole.length && isBlank(whole.charCodeAt(wordEnd))) wordEnd += 1;
  while (wordEnd < whole.length && !isBlank(whole.charCodeAt(wordEnd)) && wordEnd - runStart <= line.limit)
    wordEnd += 1;
  const limit = hasEncodedWord(whole.slice(index, wordEnd)) ? encodedWordLineLength : line.limit;
  return wordEnd - runStart <= limit ? runStart : index;
}

/** Octets between two folds inside a URI's brackets (D12). */
const uriPieceLength = 900;

/** Folds a field of long URIs, every 900 octets inside the brackets (RFC 2369 §2; D12). @returns undefined where that is not enough */
export function foldInsideBrackets(name: string, text: string): string | undefined {
  const pieces: string[] = [];
  let open = `${name}: `;
  for (const word of text.split(/([ \t])/)) {
    const [first = '', ...more] = word.length < maximumLineLength ? [word] : cutInsideBrackets(word);
    open += first;
    for (const piece of more) {
      pieces.push(open);
      open = ` ${piece}`;
    }
  }
  return foldPieces([...pieces, open]);
}

/** Cuts a word so that every cut lies inside angle brackets and 900 octets or more behind the one before. */
function cutInsideBrackets(word: string): readonly string[] {
  const pieces: string[] = [];
  let pieceStart = 0;
  let open = false;
  for (let index = 0; index < word.length; index += 1) {
    if (open && index - pieceStart >= uriPieceLength && word[index] !== '>') {
      pieces.push(word.slice(pieceStart, index));
      pieceStart = index;
    }
    if (word[index] === '<') open = true;
    else if (word[index] === '>') open = false;
  }
  pieces.push(word.slice(pieceStart));
  return pieces;
}

/** Folds a field also at given places. @param pieces of its one line, cut where a fold must be; all but the first begin with space */
export function foldPieces(pieces: readonly string[]): string | undefined {
  let folded = '';
  for (const piece of pieces) {
    const lines = foldWhole(piece);
    if (lines === undefined) return undefined;
    folded += lines;
  }
  return folded;
}
