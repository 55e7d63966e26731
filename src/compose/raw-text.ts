// The text of a field from its octets, as the policy reads it too: unfolded, trimmed, 8-bit octets decoded (D13).

import { trimBlanks } from '../mail/header/header-text.ts';
import { readRawText } from '../mail/header/raw-text.ts';

const lineBreaks = /[\r\n\0]/g;

/**
 * Reads a field body.
 * @param rawBytes behind the colon; folds may be in it
 * @param legacyCharset for octets that are no UTF-8
 * @returns one line: a CR, LF or NUL that is no fold's has become a blank
 */
export function readRaw(rawBytes: Buffer, legacyCharset: string): string {
  const text = readRawText(rawBytes, { legacyCharset, folded: true, structured: true });
  return trimBlanks(text.replace(lineBreaks, ' '));
}
