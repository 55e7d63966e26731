// Writes comments (RFC 5322 §3.2.2) in ASCII: encoded-words stand inside the parentheses (RFC 2047 §5 (2)).

import { encodedWords, encodeText, hasNonAscii } from './encoded-word.ts';
import { decodeWords } from './header-text.ts';
import { commentEnd, withoutQuotedPairs } from './quoted-text.ts';

/** A word or comment longer than this cannot stay in one piece (D12). */
export const longestWord = 900;

function needsEncoding(text: string): boolean {
  return hasNonAscii(text) || text.length > longestWord;
}

/**
 * Writes one comment.
 * @param comment with its parentheses
 * @param closed whether the last parenthesis is there; it is added where it is not and something had to be encoded
 */
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
