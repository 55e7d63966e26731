// Reads strings of JSON (RFC 8259 §7) of any length in slices; between two slices other requests get their turn.

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

/**
 * Finds the end of a short string, as nearly all are, by the engine's own search: at its first quotation mark, unless a backslash before
 * it may make that a part of the text. Undefined for others, and where a control character breaks it.
 */
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

/**
 * Finds the end of a string that is to hold base64, and looks at none of its other characters: nothing but base64 gets through the
 * decoder. Undefined where it has an escape or does not end within the document: `findString` reads these.
 */
export function findPlainString(bytes: Buffer, start: number): JsonStringSpan | undefined {
  const end = bytes.indexOf(quotationMark, start);
  if (end < 0 || bytes.subarray(start, end).includes(backslash)) return undefined;
  return { start, end, escaped: false, cuts: [] };
}

/**
 * Finds the end of a string. Its escapes are not judged yet.
 * @param start the offset behind the opening quotation mark
 * @returns the string's place, or the offset at which it breaks: at a control character or the end of the document
 */
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

/** Gives the text of a string; undefined where an escape is malformed. */
export function* readString(
  bytes: Buffer,
  { start, end, escaped, cuts }: JsonStringSpan,
): InSlices<string | undefined> {
  const pieces: string[] = [];
  let from = start;
  for (const to of [...cuts, end]) {
    const piece = escaped ? decode(bytes, from, to) : bytes.toString('utf8', from, to);
    if (piece === undefined) return undefined;
    if (to === end) return pieces.length === 0 ? piece : [...pieces, piece].join('');
    pieces.push(piece);
    from = to;
    yield;
  }
  return undefined;
}
