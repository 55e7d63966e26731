// Makes preamble and epilogue of a multipart (RFC 2046 §5.1.1) 7-bit and short-lined: nobody reads them, but hops would
// reject them otherwise (D20).

import { maximumLineLength } from '../../mail/header/fold.ts';
import { sliceSize, type YieldToEventLoop } from '../../mail/mime/body-scan.ts';

const CR = 13;
const LF = 10;
const QUESTION_MARK = 63;

/**
 * Gives the octets with `?` in place of each that is 8-bit, and lines over 998 octets cut.
 * @param octets CRLF line ends
 * @param yieldToEventLoop called between two slices of many octets
 */
export async function cleanPadding(octets: Buffer, yieldToEventLoop?: YieldToEventLoop): Promise<Buffer> {
  const target = Buffer.allocUnsafe(octets.length + 2 * Math.floor(octets.length / maximumLineLength));
  let written = 0;
  let column = 0;
  for (let index = 0; index < octets.length; index += 1) {
    if (index > 0 && index % sliceSize === 0) await yieldToEventLoop?.();
    const octet = octets[index] ?? 0;
    if (octet === CR || octet === LF) column = 0;
    else if (column < maximumLineLength) column += 1;
    else {
      target[written] = CR;
      target[written + 1] = LF;
      written += 2;
      column = 1;
    }
    target[written] = octet < 128 ? octet : QUESTION_MARK;
    written += 1;
  }
  return target.subarray(0, written);
}
