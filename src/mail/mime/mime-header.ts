// Reads the header section of a MIME part (RFC 2045 §3, RFC 5322 §2.2) within the limits of the message's own.

import { MAX_HEADER_FIELDS, MAX_HEADER_SECTION_BYTES } from '../header/header-reader.ts';
import { COLON, CR, LF, SPACE, TAB } from '../octets.ts';

/** One header field of a part, as offsets into the body. */
export interface MimeField {
  /** Lower case. */
  readonly name: string;
  /** First octet of the name. */
  readonly start: number;
  /** First octet behind the colon. */
  readonly valueStart: number;
  /** First octet behind the field, its line end included. */
  readonly end: number;
}

/** Octets of a Content-Type or Content-Transfer-Encoding that are read at most. */
const longestFieldRead = 65_536;
const longestNameRead = 100;

/**
 * Reads the header section that begins at `start`.
 * @param isDelimiter tells whether a delimiter line stands at an offset: such a line ends the section too
 * @returns its end, behind the last field; where the content starts, behind the empty line if the two are separated by one; the first
 *   values of Content-Type and Content-Transfer-Encoding, folds included, one character an octet. Undefined where the section is over
 *   the limits of the message's own (`MAX_HEADER_SECTION_BYTES`, `MAX_HEADER_FIELDS`); nothing behind the limit is read
 */
export function readPartHeader(body: Buffer, start: number, isDelimiter: (offset: number) => boolean) {
  const limit = start + MAX_HEADER_SECTION_BYTES;
  let contentType: string | undefined;
  let transferEncoding: string | undefined;
  let position = start;
  let blank = 0;
  for (let fields = 0; position < body.length; fields += 1) {
    blank = emptyLineLength(body, position);
    if (blank > 0) break;
    const field = isDelimiter(position) ? undefined : fieldAt(body, position, limit);
    if (!field) break;
    if (field.end > limit || fields >= MAX_HEADER_FIELDS) return undefined;
    if (field.name === 'content-type') contentType ??= valueOf(body, field);
    else if (field.name === 'content-transfer-encoding') transferEncoding ??= valueOf(body, field);
    position = field.end;
  }
  return { end: position, contentStart: position + blank, separated: blank > 0, contentType, transferEncoding };
}

/** Lists the fields of a header section that `readPartHeader` has read, in their order. */
export function fieldsOf(body: Buffer, header: { readonly start: number; readonly end: number }): readonly MimeField[] {
  const fields: MimeField[] = [];
  let position = header.start;
  while (position < header.end) {
    const field = fieldAt(body, position, header.end);
    if (!field) break;
    fields.push(field);
    position = field.end;
  }
  return fields;
}

function valueOf(body: Buffer, field: MimeField): string {
  return body.toString('latin1', field.valueStart, Math.min(field.end, field.valueStart + longestFieldRead));
}

/** Octets of the empty line at `position`, 0 when the line is not empty. */
function emptyLineLength(body: Buffer, position: number): number {
  if (body[position] === LF) return 1;
  return body[position] === CR && body[position + 1] === LF ? 2 : 0;
}

/** Reads the field that begins at `position`; undefined where none begins. Folds behind `limit` are not read. */
function fieldAt(body: Buffer, position: number, limit: number): MimeField | undefined {
  let lineEnd = lineEndAt(body, position);
  const colon = body.subarray(position, lineEnd).indexOf(COLON);
  if (colon <= 0) return undefined;
  const name = body.toString('latin1', position, position + Math.min(colon, longestNameRead)).replace(/[ \t]+$/, '');
  // RFC 5322 §3.6.8: a name has no blank in it. Such a line is the content of a part without a header section.
  if (!/^[!-9;-~]+$/.test(name)) return undefined;
  while (lineEnd <= limit && (body[lineEnd] === SPACE || body[lineEnd] === TAB)) lineEnd = lineEndAt(body, lineEnd);
  return { name: name.toLowerCase(), start: position, valueStart: position + colon + 1, end: lineEnd };
}

function lineEndAt(body: Buffer, from: number): number {
  const newline = body.indexOf(LF, from);
  return newline < 0 ? body.length : newline + 1;
}
