// The text of header fields: read from octets (D13), written by the catalogue's syntax (D12, D13), or as given (D20).

import { isAscii } from 'node:buffer';
import { maximumLineLength } from '../../mail/header/fold.ts';
import { trimBlanks } from '../../mail/header/header-text.ts';
import { readRawText } from '../../mail/header/raw-text.ts';
import type { FieldKind } from '../../mail/write-field.ts';
import { findHeader, type ValueSyntax } from '../policy/header-catalogue.ts';

/** Writes a field as `writeField` does, on another thread; rejects where that throws, and where the thread fails. */
export type WriteLongField = (name: string, text: string, kind: FieldKind) => Promise<string>;

/** Texts with more characters are sent to the other thread: writing one takes some 10 ms, which would delay everything else. */
export const longFieldLength = 16_384;

const bySyntax = {
  text: 'text',
  'phrase-list': 'structured',
  addresses: 'addresses',
  'msg-ids': 'structured',
  date: 'structured',
  language: 'structured',
  identifier: 'identifier',
  uris: 'uris',
  token: 'structured',
  structured: 'structured',
} as const satisfies Record<ValueSyntax, FieldKind>;

/** The structured fields with a form of their own for text that is not ASCII. */
const byName: ReadonlyMap<string, FieldKind> = new Map<string, FieldKind>([
  ['content-type', 'parameters'],
  ['content-disposition', 'parameters'],
  ['content-location', 'location'],
  // Sender can occur in an embedded message; the catalogue has only what the message itself may have.
  ['sender', 'addresses'],
]);

/** Gives the kind of a field by its name, in any case; an unknown name is text. */
export function fieldKind(name: string): FieldKind {
  const lowerName = name.toLowerCase();
  const row = findHeader(lowerName);
  return byName.get(lowerName) ?? (row ? bySyntax[row.syntax] : 'text');
}

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

const lineBreaks = /[\r\n\0]/g;

/** Reads a field body behind the colon. @param legacyCharset where it is no UTF-8 @returns one line without CR, LF and NUL */
export function readRaw(rawBytes: Buffer, legacyCharset: string): string {
  const text = readRawText(rawBytes, { legacyCharset, folded: true, structured: true });
  return trimBlanks(text.replace(lineBreaks, ' '));
}
