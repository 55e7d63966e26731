// Reads strings of JSON (RFC 8259 §7) in slices. Base64 (RFC 4648 §4) is decoded in place, and never becomes a string.

/** Octets that are worked on before other requests get a turn; they take a millisecond or two at most. */
export const jsonSliceOctets = 65_536;

/** Work in slices: its caller may do something else at each `yield`. */
export type InSlices<Result> = Generator<void, Result, void>;

/** Where the text of a string stands, without its quotation marks. */
export interface JsonStringSpan {
  readonly start: number;
  readonly end: number;
  readonly escaped: boolean;
  /** Offsets at which the text can be taken apart: between two characters, and never inside an escape. */
  readonly cuts: readonly number[];
}

const quotationMark = 0x22;
const backslash = 0x5c;
const letterU = 0x75;

const control = /[\x00-\x1f]/;

/** Finds the end of a short string by the engine's search; undefined where a backslash or a control may say otherwise. */
function findShortString(bytes: Buffer, start: number): JsonStringSpan | undefined {
  const ahead = bytes.subarray(start, start + jsonSliceOctets);
  const length = ahead.indexOf(quotationMark);
  if (length < 0 || ahead[length - 1] === backslash) return undefined;
  const text = ahead.toString('latin1', 0, length);
  if (control.test(text)) return undefined;
  return { start, end: start + length, escaped: text.includes('\\'), cuts: [] };
}

/** Moves an offset behind the escape, or the character of several octets, that it is in. */
function cutBehind(bytes: Buffer, at: number, lastEscape: number): number {
  let cut = Math.max(at, lastEscape + (bytes[lastEscape + 1] === letterU ? 6 : 2));
  for (let byte = bytes[cut]; byte !== undefined && (byte & 0xc0) === 0x80; byte = bytes[cut]) cut += 1;
  return cut;
}

/** Finds the end of a string that is to hold base64, and looks at nothing else in it; undefined for what `findString` reads. */
export function findPlainString(bytes: Buffer, start: number): JsonStringSpan | undefined {
  const end = bytes.indexOf(quotationMark, start);
  if (end < 0 || bytes.subarray(start, end).includes(backslash)) return undefined;
  return { start, end, escaped: false, cuts: [] };
}

/** Finds the end of a string. @param start behind its quotation mark @returns its place, or the offset at which it breaks */
export function* findString(bytes: Buffer, start: number): InSlices<JsonStringSpan | number> {
  const short = findShortString(bytes, start);
  if (short) return short;
  const cuts: number[] = [];
  let escaped = false;
  let lastEscape = -6;
  let at = start;
  for (;;) {
    const stop = Math.min(at + jsonSliceOctets, bytes.length);
    for (; at < stop; at += 1) {
      const byte = bytes[at] ?? 0;
      if (byte === quotationMark) {
        const { length } = cuts;
        // A malformed escape may reach over the end of the string.
        if (length > 0 && (cuts[length - 1] ?? 0) >= at) cuts.pop();
        return { start, end: at, escaped, cuts };
      }
      if (byte === backslash) {
        escaped = true;
        lastEscape = at;
        at += 1;
      } else if (byte < 0x20) return at;
    }
    if (at >= bytes.length) return bytes.length;
    cuts.push(cutBehind(bytes, at, lastEscape));
    yield;
  }
}

function decode(bytes: Buffer, start: number, end: number): string | undefined {
  try {
    return String(JSON.parse(`"${bytes.toString('utf8', start, end)}"`));
  } catch {
    return undefined; // an escape is malformed; everything else was judged before
  }
}

/** Hands on the text of a string in pieces. @returns whether it is whole: no escape is malformed */
function* readPieces(
  bytes: Buffer,
  { start, end, escaped, cuts }: JsonStringSpan,
  take: (piece: string) => void,
): InSlices<boolean> {
  let from = start;
  for (const to of [...cuts, end]) {
    if (from > start) yield;
    const piece = escaped ? decode(bytes, from, to) : bytes.toString('utf8', from, to);
    if (piece === undefined) return false;
    take(piece);
    from = to;
  }
  return true;
}

/** Gives the text of a string; undefined where an escape is malformed. */
export function* readString(bytes: Buffer, span: JsonStringSpan): InSlices<string | undefined> {
  const { start, end, escaped, cuts } = span;
  if (cuts.length === 0) return escaped ? decode(bytes, start, end) : bytes.toString('utf8', start, end);
  const pieces: string[] = [];
  return (yield* readPieces(bytes, span, (piece) => pieces.push(piece))) ? pieces.join('') : undefined;
}

/** The decoded octets as a view into the document's own, or what is wrong with the text. */
export type DecodedText =
  | { readonly octets: Buffer }
  | { readonly fault: string /** How many characters before it are base64. */; readonly at: number };

const pad = 0x3d;

/** Which characters are digits of base64, by their code. */
const isDigit = Array.from({ length: 256 }, (_, code) => /[A-Za-z0-9+/]/.test(String.fromCharCode(code)));

/** Writes a string without its escapes over its place: PHP writes `\/`, others `\u002B`. Gives the new end; undefined as above. */
function* unescapeInPlace(bytes: Buffer, span: JsonStringSpan): InSlices<number | undefined> {
  let write = span.start;
  const isWhole = yield* readPieces(bytes, span, (piece) => {
    // A character beyond ASCII is no base64, so any octet beyond ASCII can stand for it.
    write += bytes.write(piece.replace(/[^\0-\x7f]/g, '\xff'), write, 'latin1');
  });
  return isWhole ? write : undefined;
}

function faultAt(bytes: Buffer, at: number, start: number): DecodedText {
  const byte = bytes[at] ?? 0;
  const what =
    byte > 0x20 && byte < 0x7f
      ? JSON.stringify(String.fromCharCode(byte))
      : byte < 0x80
        ? `octet 0x${byte.toString(16).padStart(2, '0')}`
        : 'a character beyond ASCII';
  return { fault: `is not base64: ${what} at character ${at - start}`, at: at - start };
}

/** Decodes whole groups of four digits by the engine, eight times as fast as a loop. Gives where reading and writing stopped. */
function* decodeGroups(
  bytes: Buffer,
  start: number,
  last: number,
): InSlices<{ readonly at: number; readonly write: number }> {
  const end = last - ((last - start) % 4);
  let write = start;
  for (let at = start; at < end; at += jsonSliceOctets) {
    if (at > start) yield;
    // A short-lived string of one slice; of all the text it would take as much memory again.
    const text = bytes.toString('latin1', at, Math.min(at + jsonSliceOctets, end));
    const octets = (text.length / 4) * 3;
    // The engine passes over what is no digit, and then writes less. It also takes the digits of base64url (RFC 4648 §5).
    const isUrl = text.includes('-') || text.includes('_');
    if (isUrl || bytes.write(text, write, octets, 'base64') < octets) {
      bytes.write(text, at, 'latin1');
      return { at, write };
    }
    write += octets;
  }
  return { at: end, write };
}

/** Decodes a JSON string over its place, linear and in slices. @returns undefined where an escape is malformed (RFC 8259 §7) */
export function* decodeInPlace(bytes: Buffer, text: JsonStringSpan): InSlices<DecodedText | undefined> {
  const { start } = text;
  const end = text.escaped ? yield* unescapeInPlace(bytes, text) : text.end;
  if (end === undefined) return undefined;
  let last = end;
  while (last > start && last > end - 2 && bytes[last - 1] === pad) last -= 1;
  const { at, write } = yield* decodeGroups(bytes, start, last);
  // What is left are at most three digits, or a slice with another character in it.
  for (let rest = at; rest < last; rest += 1) {
    if (!isDigit[bytes[rest] ?? 0]) return faultAt(bytes, rest, start);
  }
  if ((end - start) % 4 !== 0)
    return { fault: `is not base64: ${end - start} characters are no multiple of 4`, at: end - start };
  const written = last - at > 1 ? bytes.write(bytes.toString('latin1', at, last), write, 'base64') : 0;
  return { octets: bytes.subarray(start, write + written) };
}
