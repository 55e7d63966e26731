// Reads the text of a field from its octets as the policy does: unfolded, trimmed, 8-bit octets decoded (D13).

import { trimBlanks } from '../../mail/header/header-text.ts';
import { readRawText } from '../../mail/header/raw-text.ts';

const lineBreaks = /[\r\n\0]/g;

/**
 * Reads a field body.
 * @param rawBytes the octets behind the colon; folds may be in them
 * @param legacyCharset for octets that are no UTF-8
 * @returns one line: each CR, LF or NUL outside of a fold has become a blank
 */
export function readRaw(rawBytes: Buffer, legacyCharset: string): string {
  const text = readRawText(rawBytes, { legacyCharset, folded: true, structured: true });
  return trimBlanks(text.replace(lineBreaks, ' '));
}
