// Line ending repair: SMTP knows CRLF and nothing else (RFC 5321 §2.3.8; D11).

import { sliceSize, type YieldNow } from './body-scan.ts';

const CR = 13;
const LF = 10;
const lineEnd = /\r\n?|\n/g;
const crlf = Buffer.from('\r\n');

/**
 * Gives the body with every bare CR and bare LF turned into CRLF; all other octets stay.
 * @param yieldNow called between two slices of a large body
 */
export async function repairLineEndings(body: Buffer, yieldNow?: YieldNow): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let start = 0;
  while (start < body.length) {
    if (start > 0) await yieldNow?.();
    let end = Math.min(start + sliceSize, body.length);
    // A CRLF is never cut in two.
    if (body[end - 1] === CR && body[end] === LF) end += 1;
    pieces.push(Buffer.from(body.toString('latin1', start, end).replace(lineEnd, '\r\n'), 'latin1'));
    start = end;
  }
  return pieces.length === 1 ? (pieces[0] ?? body) : Buffer.concat(pieces);
}

/** Gives the body itself when it is empty or ends with CRLF, else a copy with CRLF behind it. */
export function endWithCrlf(body: Buffer): Buffer {
  const length = body.length;
  if (length === 0 || (body[length - 1] === LF && body[length - 2] === CR)) return body;
  return Buffer.concat([body, crlf]);
}
