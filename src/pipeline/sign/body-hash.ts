// Computes the body hash of a DKIM signature: relaxed canonicalisation (RFC 6376 §3.4.4) and SHA-256. Octets that are
// canonical already are not copied, and no regular expressions are used.

import { createHash, hash } from 'node:crypto';
import type { YieldToEventLoop } from '../../mail/mime/body-scan.ts';

const CR = 13;
const LF = 10;
const SPACE = 32;
const TAB = 9;

/** Octets processed at a time; the scratch buffer for canonical octets has this size. */
const blockSize = 65_536;
const scratch = Buffer.allocUnsafe(blockSize);
const lineEnd = Buffer.from('\r\n');

/** A body over this many octets is hashed in slices, and other work may run between them. */
const sliceThreshold = 262_144;

/** The bh= of a body with CRLF throughout, in base64. @param yieldToEventLoop called between slices of one over 256 KiB */
export async function relaxedBodyHash(body: Buffer, yieldToEventLoop?: YieldToEventLoop): Promise<string> {
  let end = body.length;
  for (let from = end; end === from && from > 0; ) {
    if (from < body.length) await yieldToEventLoop?.();
    from = Math.max(0, from - blockSize);
    end = contentEnd(body, end, from);
  }
  // RFC 6376 §3.4.4: an empty body stays empty.
  if (end === 0) return hash('sha256', Buffer.alloc(0), 'base64');
  const endsPlainly = end === body.length - 2 && body[end] === CR && body[end + 1] === LF;
  if (endsPlainly && end <= blockSize && isCanonical(body.subarray(0, end))) return hash('sha256', body, 'base64');
  const digest = createHash('sha256');
  const canonical = createCanonicaliser();
  for (let start = 0; start < end; start += blockSize) {
    if (end > sliceThreshold && start > 0) await yieldToEventLoop?.();
    digest.update(canonical(body.subarray(start, Math.min(start + blockSize, end))));
  }
  return digest.update(lineEnd).digest('base64');
}

/**
 * Gives the end of the last line that is not empty, without its trailing white space: empty lines at the end do not count.
 * @param before offset behind the last octet that may be content
 * @param from nothing before this offset is examined; the result where only white space follows it
 */
function contentEnd(body: Buffer, before: number, from: number): number {
  let end = before;
  while (end > from) {
    const octet = body[end - 1];
    if (octet !== LF && octet !== CR && octet !== SPACE && octet !== TAB) break;
    end -= 1;
  }
  return end;
}

/** Tells whether a block has no white space that relaxed canonicalisation would change, and does not end with any. */
function isCanonical(block: Buffer): boolean {
  if (block.includes(TAB)) return false;
  // Base64 has no blanks, and the native search finds that out ten times faster than the loop.
  let index = block.indexOf(SPACE);
  if (index < 0) return true;
  const last = block.length - 1;
  if (block[last] === SPACE) return false;
  for (; index < last; index += 1) {
    if (block[index] !== SPACE) continue;
    index += 1;
    const next = block[index];
    if (next === SPACE || next === CR) return false;
  }
  return true;
}

/** Makes a canonicaliser for blocks cut anywhere. Its result is the block or in the shared buffer, until the next call. */
function createCanonicaliser(): (block: Buffer) => Buffer {
  /** White space was read and not yet written: it is dropped if it turns out to end a line. */
  let blankPending = false;
  return (block) => {
    if (!blankPending && isCanonical(block)) return block;
    let written = 0;
    let blank = blankPending;
    const length = block.length;
    // A pending blank adds one octet to the block's own, but only when the block does not begin with a blank.
    const target = length < blockSize ? scratch : Buffer.allocUnsafe(length + 1);
    for (let index = 0; index < length; index += 1) {
      const octet = block[index] ?? 0;
      if (octet === SPACE || octet === TAB) {
        blank = true;
        continue;
      }
      if (blank) {
        // RFC 6376 §3.4.4: white space at a line's end is dropped, any other run becomes one blank.
        if (octet !== CR) target[written++] = SPACE;
        blank = false;
      }
      target[written++] = octet;
    }
    blankPending = blank;
    return target.subarray(0, written);
  };
}
