// Base64 of a JSON string (RFC 4648 §4) decoded where it stands: a large attachment is in memory once, never as a string.

/** The octets, a view of the document's own, or what is wrong with the text. */
export type DecodedText = { readonly octets: Buffer } | { readonly fault: string };

const slash = 0x2f;
const backslash = 0x5c;
const pad = 0x3d;

const noDigit = 0x80;
/** The six bits of each character. */
const digits = new Uint8Array(256).fill(noDigit);
const alphabet = Buffer.from('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/', 'latin1');
for (const [value, character] of alphabet.entries()) digits[character] = value;

/** Takes escapes out of the text at [start, end); PHP writes every slash as `\/`. Gives the new end, or undefined. */
function unescapeInPlace(bytes: Buffer, start: number, end: number): number | undefined {
  let write = start;
  for (let read = start; read < end; read += 1) {
    let byte = bytes[read] ?? 0;
    if (byte === backslash) {
      read += 1;
      byte = bytes[read] ?? 0;
      if (byte !== slash) return undefined;
    }
    bytes[write] = byte;
    write += 1;
  }
  return write;
}

function faultAt(bytes: Buffer, at: number, start: number): DecodedText {
  const byte = bytes[at] ?? 0;
  const what = byte > 0x20 && byte < 0x7f ? JSON.stringify(String.fromCharCode(byte)) : `octet 0x${byte.toString(16)}`;
  return { fault: `is not base64: ${what} at character ${at - start}` };
}

/**
 * Decodes the text of a JSON string; its place in `bytes` is written over. Linear. What has another escape than `\/` is
 * no base64: no encoder writes one.
 * @param text where it stands, its quotation marks not included
 */
export function decodeInPlace(
  bytes: Buffer,
  text: { readonly start: number; readonly end: number; readonly escaped: boolean },
): DecodedText {
  const { start } = text;
  const end = text.escaped ? unescapeInPlace(bytes, start, text.end) : text.end;
  if (end === undefined) return { fault: 'is not base64: it has an escape' };
  let last = end;
  while (last > start && last > end - 2 && bytes[last - 1] === pad) last -= 1;
  let write = start;
  let at = start;
  // Without texts in between: the heap would hold as much again.
  for (; at + 4 <= last; at += 4) {
    const first = digits[bytes[at] ?? 0] ?? noDigit;
    const second = digits[bytes[at + 1] ?? 0] ?? noDigit;
    const third = digits[bytes[at + 2] ?? 0] ?? noDigit;
    const fourth = digits[bytes[at + 3] ?? 0] ?? noDigit;
    if ((first | second | third | fourth) & noDigit) break;
    bytes[write] = (first << 2) | (second >> 4);
    bytes[write + 1] = (second << 4) | (third >> 2);
    bytes[write + 2] = (third << 6) | fourth;
    write += 3;
  }
  for (let rest = at; rest < last; rest += 1) {
    if (digits[bytes[rest] ?? 0] === noDigit) return faultAt(bytes, rest, start);
  }
  if ((end - start) % 4 !== 0) return { fault: `is not base64: ${end - start} characters are no multiple of 4` };
  if (last - at > 1) write += bytes.write(bytes.toString('latin1', at, last), write, 'base64');
  return { octets: bytes.subarray(start, write) };
}
