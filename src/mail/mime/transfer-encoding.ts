// Encodes content for transfer: quoted-printable and base64 (RFC 2045 §6.7, §6.8), whichever is smaller (D20). What is encoded
// is 7-bit, with lines of at most 76 octets, CRLF between lines and none behind the last.

import { CR, EQUALS, LF, SPACE, TAB } from '../octets.ts';
import { sliceSize, type YieldToEventLoop } from './body-scan.ts';

/** Octets of a base64 line before encoding: 57 give 76 characters (RFC 2045 §6.8). */
const base64LineOctets = 57;
/** RFC 2045 §6.7 (5): 76 characters a line, one of them the `=` of a soft line break. */
const qpLineRoom = 75;

const hexDigits = Buffer.from('0123456789ABCDEF');

/** How quoted-printable treats each octet. 0: as it is; 1: escaped; 2: blank or TAB; 3: CR. */
const qpClass = Uint8Array.from({ length: 256 }, (_, octet) => {
  if (octet === SPACE || octet === TAB) return 2;
  if (octet === CR) return 3;
  return octet > SPACE && octet < 127 && octet !== EQUALS ? 0 : 1;
});

/** Octets that `length` octets take in base64 with its line ends. */
export function base64Size(length: number): number {
  const lines = Math.max(1, Math.ceil(length / base64LineOctets));
  return Math.ceil(length / 3) * 4 + (lines - 1) * 2;
}

/** Octets encoded before other work may run, whole lines. */
const base64Slice = base64LineOctets * Math.floor(sliceSize / base64LineOctets);

/** Writes base64 into octets with room for it (`base64Size`). @param yieldToEventLoop between slices @returns the index behind it */
export async function writeBase64(
  target: Buffer,
  at: number,
  { content, yieldToEventLoop }: { readonly content: Buffer; readonly yieldToEventLoop?: YieldToEventLoop | undefined },
): Promise<number> {
  let end = at;
  for (let start = 0; start < content.length; start += base64Slice) {
    if (start > 0) {
      await yieldToEventLoop?.();
      end = writeLineEnd(target, end);
    }
    end = writeBase64Lines(target, end, content.subarray(start, start + base64Slice));
  }
  return end;
}

function writeLineEnd(target: Buffer, at: number): number {
  target[at] = CR;
  target[at + 1] = LF;
  return at + 2;
}

/** Octets that the engine encodes at once: whole lines, and short enough that their text stays in the processor's cache. */
const base64Block = 256 * base64LineOctets;
/** The text of a block, without line ends. */
const blockText = Buffer.alloc((base64Block / 3) * 4);
const blockView = new DataView(blockText.buffer, blockText.byteOffset, blockText.length);

/** Writes one slice. The engine encodes, and its text is spread over the lines by four octets: less than half of a loop's time. */
function writeBase64Lines(target: Buffer, at: number, content: Buffer): number {
  const view = new DataView(target.buffer, target.byteOffset, target.length);
  let end = at;
  for (let start = 0; start < content.length; start += base64Block) {
    const text = content.toString('base64', start, Math.min(start + base64Block, content.length));
    const length = blockText.write(text, 'latin1');
    for (let read = 0; read < length; read += 4) {
      if (read % 76 === 0 && start + read > 0) end = writeLineEnd(target, end);
      view.setUint32(end, blockView.getUint32(read));
      end += 4;
    }
  }
  return end;
}

/** Encodes a content as base64. @param yieldToEventLoop called between two slices of a large content */
export async function encodeBase64(content: Buffer, yieldToEventLoop?: YieldToEventLoop): Promise<Buffer> {
  const target = Buffer.allocUnsafe(base64Size(content.length));
  await writeBase64(target, 0, { content, yieldToEventLoop });
  return target;
}

function wrapBase64(text: string): string {
  if (text.length <= 76) return text;
  const lines: string[] = [];
  for (let start = 0; start < text.length; start += 76) lines.push(text.slice(start, start + 76));
  return lines.join('\r\n');
}

/** How content is encoded as quoted-printable. */
export interface QuotedPrintableMode {
  /** CRLF stays a line break; otherwise it is escaped like any other octet (RFC 2045 §6.7 (4)). */
  readonly text: boolean;
  /** The content already is quoted-printable, only not 7-bit or with too long lines: its escapes stay as they are. */
  readonly repair?: boolean;
}

/** Encodes a content as quoted-printable, giving up once it would take more than `limit` octets. @returns undefined when it would */
async function quotedPrintableWithin(
  content: Buffer,
  mode: QuotedPrintableMode & { readonly limit: number; readonly yieldToEventLoop?: YieldToEventLoop | undefined },
): Promise<Buffer | undefined> {
  const length = content.length;
  const target = Buffer.allocUnsafe(mode.limit + 8);
  const state = { read: 0, written: 0, column: 0 };
  while (state.read < length) {
    if (state.read > 0) await mode.yieldToEventLoop?.();
    encodeSlice(content, target, { ...mode, state, end: Math.min(state.read + sliceSize, length) });
    if (state.written > mode.limit) return undefined;
  }
  return target.subarray(0, state.written);
}

interface SliceWork extends QuotedPrintableMode {
  readonly state: { read: number; written: number; column: number };
  readonly end: number;
  readonly limit: number;
}

function encodeSlice(content: Buffer, target: Buffer, work: SliceWork): void {
  let { read, written, column } = work.state;
  while (read < work.end && written <= work.limit) {
    const octet = content[read] ?? 0;
    const kind = qpClass[octet] ?? 1;
    if (kind === 3 && work.text && content[read + 1] === LF) {
      target[written++] = CR;
      target[written++] = LF;
      read += 2;
      column = 0;
      continue;
    }
    const next = work.repair ? softBreakEnd(content, read) : 0;
    if (next > 0) {
      target[written++] = EQUALS;
      target[written++] = CR;
      target[written++] = LF;
      read = next;
      column = 0;
      continue;
    }
    const width = work.repair ? repairWidth(content, read) : 0;
    const literal = width > 0 || kind === 0 || (kind === 2 && !endsLine(content, read + 1, work));
    const room = width > 0 ? width : literal ? 1 : 3;
    if (column + room > qpLineRoom) {
      target[written++] = EQUALS;
      target[written++] = CR;
      target[written++] = LF;
      column = 0;
    }
    column += room;
    if (literal) {
      for (let index = 0; index < room; index += 1) target[written++] = content[read + index] ?? 0;
      read += room;
    } else {
      target[written++] = EQUALS;
      target[written++] = hexDigits[octet >> 4] ?? 0;
      target[written++] = hexDigits[octet & 15] ?? 0;
      read += 1;
    }
  }
  work.state.read = read;
  work.state.written = written;
  work.state.column = column;
}

/** RFC 2045 §6.7 (3): a blank at the end of a line is escaped. In content to repair it means nothing and stays. */
function endsLine(content: Buffer, index: number, mode: QuotedPrintableMode): boolean {
  if (mode.repair) return false;
  return index >= content.length || (mode.text && content[index] === CR && content[index + 1] === LF);
}

/** The offset behind a soft line break at `index` with the blanks before its line end (RFC 2045 §6.7); 0 if there is none. */
function softBreakEnd(content: Buffer, index: number): number {
  if (content[index] !== EQUALS) return 0;
  let end = index + 1;
  while (content[end] === SPACE || content[end] === TAB) end += 1;
  return content[end] === CR && content[end + 1] === LF ? end + 2 : 0;
}

/** The octets of an escape (3) or of a stray `=` (1) at `index` in quoted-printable; 0 for anything else. */
function repairWidth(content: Buffer, index: number): number {
  if (content[index] !== EQUALS) return 0;
  return isHex(content[index + 1]) && isHex(content[index + 2]) ? 3 : 1;
}

function isHex(octet: number | undefined): boolean {
  if (octet === undefined) return false;
  return (octet >= 48 && octet <= 57) || (octet >= 65 && octet <= 70) || (octet >= 97 && octet <= 102);
}

/** Encodes a content as quoted-printable whatever its size. @param mode `text` when its CRLFs are line breaks */
export async function encodeQuotedPrintable(
  content: Buffer,
  mode: QuotedPrintableMode & { readonly yieldToEventLoop?: YieldToEventLoop | undefined },
): Promise<Buffer> {
  // An octet takes three at most, and every 25 of them three more for a soft line break.
  const limit = content.length * 3 + Math.ceil(content.length / 8) + 8;
  const encoded = await quotedPrintableWithin(content, { ...mode, limit });
  if (!encoded) throw new Error('Quoted-printable outgrew its bound');
  return encoded;
}

/** Encodes as quoted-printable, or as base64 where that is smaller (D20). @param options `text`: its CRLFs are line breaks */
export async function encodeSmaller(
  content: Buffer,
  options: { readonly text: boolean; readonly yieldToEventLoop?: YieldToEventLoop | undefined },
): Promise<{ readonly encoding: 'quoted-printable' | 'base64'; readonly bytes: Buffer }> {
  const limit = base64Size(content.length);
  const bytes = await quotedPrintableWithin(content, { ...options, limit });
  if (bytes) return { encoding: 'quoted-printable', bytes };
  return { encoding: 'base64', bytes: await encodeBase64(content, options.yieldToEventLoop) };
}

const notBase64 = /[^A-Za-z0-9+/=]+/g;

/** Wraps base64 that was not 7-bit or had too long lines in lines of 76, dropping other characters (RFC 2045 §6.8). */
export async function rewrapBase64(content: Buffer, yieldToEventLoop?: YieldToEventLoop): Promise<Buffer> {
  const lines: string[] = [];
  let rest = '';
  for (let start = 0; start < content.length; start += sliceSize) {
    if (start > 0) await yieldToEventLoop?.();
    const text =
      rest + content.toString('latin1', start, Math.min(start + sliceSize, content.length)).replace(notBase64, '');
    const whole = text.length - (text.length % 76);
    if (whole > 0) lines.push(wrapBase64(text.slice(0, whole)));
    rest = text.slice(whole);
  }
  if (rest) lines.push(rest);
  return Buffer.from(lines.join('\r\n'), 'latin1');
}
