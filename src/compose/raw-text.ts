// The text of a field from its octets, as the policy reads it too: unfolded, trimmed, 8-bit octets decoded (D13).

import { isUtf8 } from 'node:buffer';
import iconv from 'iconv-lite';
import { unfold } from '../mail/fold.ts';

/**
 * Reads a field body.
 * @param rawBytes behind the colon; folds may be in it
 * @param legacyCharset for octets that are no UTF-8
 * @returns one line; whatever of CR, LF and NUL is in it besides folds has become a blank
 */
export function readRaw(rawBytes: Buffer, legacyCharset: string): string {
  const text = isUtf8(rawBytes) ? rawBytes.toString('utf8') : iconv.decode(rawBytes, legacyCharset);
  return unfold(text)
    .replace(/[\r\n\0]/g, ' ')
    .replace(/^[ \t]+/, '')
    .replace(/[ \t]+$/, '');
}
