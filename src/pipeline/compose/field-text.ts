// The text of header fields: read from octets (D13), written by the catalogue's syntax (D12, D13), or as given (D20).

import { isAscii } from 'node:buffer';
import { hasNonAscii } from '../../mail/header/encoded-word.ts';
import { maximumLineLength } from '../../mail/header/fold.ts';
import { trimBlanks } from '../../mail/header/header-text.ts';
import { readRawText } from '../../mail/header/raw-text.ts';
import type { YieldToEventLoop } from '../../mail/mime/body-scan.ts';
import { fieldsOf, type MimeField } from '../../mail/mime/mime-header.ts';
import type { MimePart } from '../../mail/mime/mime-walk.ts';
import { type FieldKind, writeField } from '../../mail/write-field.ts';
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

/** New values of a part's fields; absent ones stay. */
export interface HeaderChange {
  readonly contentType?: string;
  readonly transferEncoding?: string;
}

interface HeaderRewrite extends HeaderChange {
  /** Encode and fold fields that are not ASCII or have lines over 998 octets. */
  readonly encode: boolean;
  /** It is the header section of a message inside a message: MIME fields there need MIME-Version (RFC 2045 §4). */
  readonly embedded: boolean;
  readonly legacyCharset: string;
  readonly yieldToEventLoop?: YieldToEventLoop | undefined;
  /** Writes long fields on another thread; absent: they are written on this one. */
  readonly writeLong?: WriteLongField | undefined;
}

/** Octets of fields written before other work may run: writing a field costs more for each octet than anything else here. */
const octetsInSlice = 8192;

/** Writes a part's header section. @returns the fields, and the empty line too where the part had none */
export async function rewriteHeader(body: Buffer, part: MimePart, rewrite: HeaderRewrite): Promise<Buffer> {
  const fields = fieldsOf(body, part.header);
  const added = new Map<string, string>();
  if (rewrite.contentType !== undefined) added.set('content-type', rewrite.contentType);
  if (rewrite.transferEncoding !== undefined) added.set('content-transfer-encoding', rewrite.transferEncoding);
  const changed = added.size > 0;
  const pieces: Buffer[] = [];
  let turn = 0;
  for (const field of fields) {
    // Every field costs a little, even one that stays.
    turn += 100 + (rewrite.encode ? field.end - field.start : 0);
    if (turn >= octetsInSlice) {
      turn = 0;
      await rewrite.yieldToEventLoop?.();
    }
    const value = added.get(field.name);
    if (value === undefined) pieces.push(await keepField(body, field, rewrite));
    else {
      pieces.push(Buffer.from(await write(rewrite, field.name, { as: nameOf(body, field), text: value })));
      added.delete(field.name);
    }
  }
  if (rewrite.embedded && changed && !fields.some(({ name }) => name === 'mime-version')) {
    pieces.push(Buffer.from('MIME-Version: 1.0\r\n'));
  }
  for (const [lowerName, value] of added) {
    const name = lowerName === 'content-type' ? 'Content-Type' : 'Content-Transfer-Encoding';
    pieces.push(Buffer.from(writeField(name, value, fieldKind(name))));
  }
  if (!part.separated) pieces.push(Buffer.from('\r\n'));
  return Buffer.concat(pieces);
}

function nameOf(body: Buffer, field: MimeField): string {
  return body.toString('latin1', field.start, field.valueStart - 1).trimEnd();
}

/** Writes a field, on another thread where it takes long. */
async function write(
  { writeLong }: HeaderRewrite,
  name: string,
  field: { readonly as: string; readonly text: string; readonly kind?: FieldKind },
): Promise<string> {
  const { as, text, kind = fieldKind(name) } = field;
  return writeLong && text.length > longFieldLength ? writeLong(as, text, kind) : writeField(as, text, kind);
}

async function keepField(body: Buffer, field: MimeField, rewrite: HeaderRewrite): Promise<Buffer> {
  const octets = body.subarray(field.start, field.end);
  if (!rewrite.encode || (isAscii(octets) && longestLine(octets) <= maximumLineLength)) return octets;
  const name = nameOf(body, field).slice(0, 100);
  const text = readRaw(body.subarray(field.valueStart, field.end), rewrite.legacyCharset);
  const line = await write(rewrite, name, { as: name, text });
  // A non-ASCII local part in an embedded message becomes text too: that message cannot ask a next hop for SMTPUTF8.
  return Buffer.from(hasNonAscii(line) ? await write(rewrite, name, { as: name, text, kind: 'text' }) : line);
}

function longestLine(octets: Buffer): number {
  let longest = 0;
  let start = 0;
  while (start < octets.length) {
    const found = octets.indexOf('\r\n', start, 'latin1');
    const end = found < 0 ? octets.length : found;
    longest = Math.max(longest, end - start);
    start = end + 2;
  }
  return longest;
}
