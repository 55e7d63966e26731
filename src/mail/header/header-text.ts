// The text of a header field: unfolding (RFC 5322 §2.2.3), trimming (D11) and the encoded-words of RFC 2047.

import { type CharsetDecoder, charsetDecoder } from './charset.ts';

const fold = /\r\n(?=[ \t])/g;

/** Takes the folds out: each CRLF before a blank; the blank stays (RFC 5322 §2.2.3). Linear. */
export function unfold(text: string): string {
  return text.includes('\r\n') ? text.replace(fold, '') : text;
}

/** Whether a character code is that of SP or TAB. */
export function isBlank(code: number): boolean {
  return code === 0x20 || code === 0x09;
}

/** Cuts SP and TAB off both ends, and nothing else (D11: never String.trim). */
export function trimBlanks(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && isBlank(text.charCodeAt(start))) start += 1;
  while (end > start && isBlank(text.charCodeAt(end - 1))) end -= 1;
  return end - start === text.length ? text : text.slice(start, end);
}

/** One encoded-word of RFC 2047 §2 where it stands in a text. */
export interface EncodedWord {
  readonly decoder: CharsetDecoder;
  /** In lower case, without the language of RFC 2231 §5. */
  readonly charset: string;
  /** The text between its third question mark and its end, as written. */
  readonly encoded: string;
  /** The octets that it stands for. */
  readonly bytes: Buffer;
  /** Offset behind it. */
  readonly end: number;
}

const charsetToken = /^[A-Za-z0-9][A-Za-z0-9._:+-]*$/;
const nonAscii = /[^\x00-\x7f]/;

const hexValues = new Int8Array(256).fill(-1);
for (let value = 0; value < 16; value += 1) {
  const digit = value.toString(16);
  hexValues[digit.charCodeAt(0)] = value;
  hexValues[digit.toUpperCase().charCodeAt(0)] = value;
}

function decodeQ(text: string): Buffer {
  const bytes = Buffer.allocUnsafe(text.length);
  let length = 0;
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index);
    let byte = code === 0x5f ? 0x20 : code;
    if (code === 0x3d && index + 2 < text.length) {
      const high = hexValues[text.charCodeAt(index + 1)] ?? -1;
      const low = hexValues[text.charCodeAt(index + 2)] ?? -1;
      // `=` without two hex digits stays as text: mailers forget to encode "=".
      if (high >= 0 && low >= 0) {
        byte = (high << 4) | low;
        index += 2;
      }
    }
    bytes[length] = byte;
    length += 1;
  }
  return bytes.subarray(0, length);
}

/** Reads the encoded-word that begins at `start`, up to the third `?`, if its charset is known. @param text octets or characters */
export function readWord(text: string, start: number): EncodedWord | undefined {
  const charsetEnd = text.indexOf('?', start + 2);
  if (charsetEnd < 0 || text.charCodeAt(charsetEnd + 2) !== 0x3f) return undefined;
  const end = text.indexOf('?', charsetEnd + 3);
  if (end < 0 || text.charCodeAt(end + 1) !== 0x3d) return undefined;
  const named = text.slice(start + 2, charsetEnd).toLowerCase();
  const star = named.indexOf('*');
  const charset = star < 0 ? named : named.slice(0, star);
  const encoding = text.charCodeAt(charsetEnd + 1) | 0x20;
  const isB = encoding === 0x62;
  if ((!isB && encoding !== 0x71) || !charsetToken.test(charset)) return undefined;
  const decoder = charsetDecoder(charset);
  const encoded = text.slice(charsetEnd + 3, end);
  if (!decoder) return undefined;
  return { decoder, charset, encoded, bytes: isB ? Buffer.from(encoded, 'base64') : decodeQ(encoded), end: end + 2 };
}

/** Adjacent words of one charset: their octets are decoded together, since a character may be split between two (D13). */
interface Run {
  readonly decoder: CharsetDecoder;
  readonly charset: string;
  readonly parts: Buffer[];
}

function finish(run: Run | undefined): string {
  if (!run) return '';
  const [first, ...rest] = run.parts;
  return run.decoder(first && rest.length === 0 ? first : Buffer.concat(run.parts));
}

/**
 * Decodes the encoded-words of a text (RFC 2047 §6). White space between two of them is dropped; what is no encoded-word,
 * or has an unknown charset, stays as text. Words that the standard forbids but mailers write and readers show are decoded
 * too: inside other text, with blanks in them, over 75 characters. Linear.
 * @param text unfolded
 */
export function decodeWords(text: string): string {
  let at = text.indexOf('=?');
  if (at < 0) return text;
  let decoded = '';
  let copied = 0;
  let run: Run | undefined;
  while (at >= 0) {
    const word = readWord(text, at);
    // Non-ASCII text in a word no longer has its original octets (D13: `readRawText` decodes those).
    if (!word || nonAscii.test(word.encoded)) {
      at = text.indexOf('=?', at + 2);
      continue;
    }
    const between = text.slice(copied, at);
    const adjacent = run !== undefined && trimBlanks(between) === '';
    if (run && adjacent && run.charset === word.charset) {
      run.parts.push(word.bytes);
    } else {
      decoded += finish(run) + (adjacent ? '' : between);
      run = { decoder: word.decoder, charset: word.charset, parts: [word.bytes] };
    }
    copied = word.end;
    at = text.indexOf('=?', copied);
  }
  return decoded + finish(run) + text.slice(copied);
}
