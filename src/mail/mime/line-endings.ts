// Repairs line ends: SMTP knows only CRLF (RFC 5321 §2.3.8; D11).

import { CR, LF } from '../octets.ts';
import { sliceSize, type YieldToEventLoop } from './body-scan.ts';

const crlf = Buffer.from('\r\n');

/** Turns every bare CR and bare LF of a body into CRLF. @param yieldToEventLoop called between two slices of a large body */
export async function repairLineEndings(body: Buffer, yieldToEventLoop?: YieldToEventLoop): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let start = 0;
  while (start < body.length) {
    if (start > 0) await yieldToEventLoop?.();
    let end = Math.min(start + sliceSize, body.length);
    // A CRLF is never cut in two.
    if (body[end - 1] === CR && body[end] === LF) end += 1;
    pieces.push(repairSlice(body.subarray(start, end)));
    start = end;
  }
  return pieces.length === 1 ? (pieces[0] ?? body) : Buffer.concat(pieces);
}

/** Repairs a slice octet by octet: a string would cost ten times as much. Gives back the slice itself if it needs nothing. */
function repairSlice(slice: Buffer): Buffer {
  const missing = countMissing(slice);
  if (missing === 0) return slice;
  const target = Buffer.allocUnsafe(slice.length + missing);
  let written = 0;
  let last = 0;
  for (let index = 0; index < slice.length; index += 1) {
    const octet = slice[index] ?? 0;
    if (octet === LF && last !== CR) target[written++] = CR;
    target[written++] = octet;
    if (octet === CR && slice[index + 1] !== LF) target[written++] = LF;
    last = octet;
  }
  return target;
}

/** Counts bare CRs and bare LFs. */
function countMissing(slice: Buffer): number {
  let missing = 0;
  let last = 0;
  for (let index = 0; index < slice.length; index += 1) {
    const octet = slice[index] ?? 0;
    if (octet === LF ? last !== CR : octet === CR && slice[index + 1] !== LF) missing += 1;
    last = octet;
  }
  return missing;
}

/** Gives the body itself when it is empty or ends with CRLF, else a copy with CRLF behind it. */
export function endWithCrlf(body: Buffer): Buffer {
  const length = body.length;
  if (length === 0 || (body[length - 1] === LF && body[length - 2] === CR)) return body;
  return Buffer.concat([body, crlf]);
}
