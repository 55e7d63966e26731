// Writes a field as it was given, folds included (D20), where these are legal (RFC 5322 §2.1.1, §2.2.3).

import { isAscii } from 'node:buffer';
import { maximumLineLength } from '../../mail/header/fold.ts';

/**
 * Writes a field with the value's octets as they are.
 * @param rawBytes the octets behind the colon, folds included, without the last line end
 * @returns undefined when the octets may not leave as they are: non-ASCII, a bare CR or LF, NUL, a CRLF that is no fold, a
 *   line of white space alone or one over 998 octets
 */
export function verbatimField(name: string, rawBytes: Buffer): string | undefined {
  if (!isAscii(rawBytes) || rawBytes.includes(0)) return undefined;
  const whole = `${name}:${rawBytes.toString('latin1')}`;
  if (!whole.includes('\n') && !whole.includes('\r')) {
    return whole.length <= maximumLineLength ? `${whole}\r\n` : undefined;
  }
  const legal = whole.split('\r\n').every((line, index) => {
    if (line.length > maximumLineLength || line.includes('\r') || line.includes('\n')) return false;
    return index === 0 || /^[ \t]+[^ \t]/.test(line);
  });
  return legal ? `${whole}\r\n` : undefined;
}
