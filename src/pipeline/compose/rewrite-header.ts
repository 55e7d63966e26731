// Writes the header section of a MIME part anew where something has to change; every other field stays as it is (D20).

import { isAscii } from 'node:buffer';
import { hasNonAscii } from '../../mail/header/encoded-word.ts';
import { maximumLineLength } from '../../mail/header/fold.ts';
import type { YieldToEventLoop } from '../../mail/mime/body-scan.ts';
import { fieldsOf, type MimeField } from '../../mail/mime/mime-header.ts';
import type { MimePart } from '../../mail/mime/mime-walk.ts';
import { type FieldKind, writeField } from '../../mail/write-field.ts';
import { fieldKind, longFieldLength, readRaw, type WriteLongField } from './field-text.ts';

/** New values of a part's fields; absent ones stay. */
export interface HeaderChange {
  readonly contentType?: string;
  readonly transferEncoding?: string;
}

/** How a header section is written anew. */
export interface HeaderRewrite extends HeaderChange {
  /** Encode and fold fields that are not ASCII or have lines over 998 octets. */
  readonly encode: boolean;
  /** It is the header section of a message inside a message: MIME fields there need MIME-Version (RFC 2045 §4). */
  readonly embedded: boolean;
  readonly legacyCharset: string;
  /** Called between two fields when many octets have been written anew. */
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
