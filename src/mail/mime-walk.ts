// The MIME tree over a body's octets, nothing decoded or copied: where each part's header section and content lie
// (RFC 2046 §5.1, RFC 2045 §5, §6). Linear: each octet is searched once, whatever the boundaries are.

import { type ContentType, embeddedMessage, parseContentType, plainText } from './content-type.ts';

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

/** One node of the tree. The root is the message's body; its header section stands elsewhere. */
export interface MimePart {
  /** Numbers as IMAP counts them (RFC 9051 §6.4.5), `1.2`; '' is the root. */
  readonly path: string;
  /** `multipart` and `message` have children; everything else is a leaf. */
  readonly kind: 'leaf' | 'multipart' | 'message';
  readonly contentType: ContentType;
  /** There is a Content-Type field. */
  readonly typeDeclared: boolean;
  /** Lower case, without comments; '' where no field is. */
  readonly transferEncoding: string;
  /** Somewhere inside a multipart/signed, or one itself (RFC 1847 §2.1): not an octet of it may change. */
  readonly signed: boolean;
  /** A multipart or message type that was not gone into: no boundary, encoded, or over the limits. */
  readonly closed: boolean;
  /** The header section; `start` equals `end` for the root. The empty line is not in it. */
  readonly header: { readonly start: number; readonly end: number };
  /** There is an empty line between header section and content. */
  readonly separated: boolean;
  /** The content: for a multipart from preamble to epilogue. The line end before a delimiter belongs to the delimiter. */
  readonly start: number;
  readonly end: number;
  readonly children: readonly MimePart[];
  /** What stands before the first, and behind the last delimiter line of a multipart; no part of the mail. */
  readonly padding: readonly { readonly start: number; readonly end: number }[];
}

/** A walked body. */
export interface MimeTree {
  readonly root: MimePart;
  /** More parts than are walked: the octets from here on were not looked at. */
  readonly unwalkedFrom?: number;
}

/** What the header section outside the body says about it. */
export interface TopLevel {
  /** The field's body (folds may be in it), one character an octet; absent where the field is. */
  readonly contentType?: string;
  readonly transferEncoding?: string;
}

/** Levels of multipart and message that are gone into. */
export const maximumDepth = 50;
/** Parts that are looked at. */
export const maximumParts = 10_000;
/** A Content-Type or Content-Transfer-Encoding is read no further than this, in octets. */
const longestFieldRead = 65_536;
/** RFC 2046 §5.1.1 allows 70 octets; more are let pass as long as a line can hold them. */
const longestBoundary = 990;

const CR = 13;
const LF = 10;
const SPACE = 32;
const TAB = 9;
const HYPHEN = 45;
const COLON = 58;

/** A delimiter line that ends a part, or the end of the body. */
interface Delimiter {
  /** Depth in the stack of open boundaries; -1 at the end of the body. */
  readonly level: number;
  readonly close: boolean;
  /** First octet of the line. */
  readonly lineStart: number;
  /** First octet behind the line. */
  readonly next: number;
}

interface Walk {
  readonly body: Buffer;
  /** Open boundaries without their hyphens, the innermost last. */
  readonly open: Buffer[];
  parts: number;
  unwalkedFrom: number | undefined;
}

interface Entity {
  readonly part: MimePart;
  /** What ended it. */
  readonly delimiter: Delimiter;
}

interface Description {
  readonly contentType: ContentType;
  readonly typeDeclared: boolean;
  readonly transferEncoding: string;
}

interface Place {
  readonly path: string;
  readonly depth: number;
  readonly signed: boolean;
  readonly header: { readonly start: number; readonly end: number };
  readonly separated: boolean;
  readonly start: number;
  readonly described: Description;
}

/**
 * Walks a body.
 * @param body CRLF line ends (a bare LF ends a line too)
 * @param top the message's own Content-Type and Content-Transfer-Encoding
 */
export function walkMime(body: Buffer, top: TopLevel): MimeTree {
  const walk: Walk = { body, open: [], parts: 0, unwalkedFrom: undefined };
  const { part } = walkContent(walk, {
    path: '',
    depth: 0,
    signed: false,
    header: { start: 0, end: 0 },
    separated: true,
    start: 0,
    described: describe(top.contentType, top.transferEncoding, plainText),
  });
  return { root: part, ...(walk.unwalkedFrom === undefined ? {} : { unwalkedFrom: walk.unwalkedFrom }) };
}

/** Tells whether a part may be gone into at all: identity encodings keep the tree readable (RFC 2045 §6.4). */
function isIdentity(transferEncoding: string): boolean {
  return transferEncoding !== 'base64' && transferEncoding !== 'quoted-printable';
}

function describe(type: string | undefined, encoding: string | undefined, fallback: ContentType): Description {
  return {
    // RFC 5322 §2.2.3: folds are no part of a value, least of all of a boundary.
    contentType: type === undefined ? fallback : parseContentType(type.replace(/[\r\n]/g, '')),
    typeDeclared: type !== undefined,
    transferEncoding: encoding === undefined ? '' : tokenOf(encoding),
  };
}

/** The first token of a Content-Transfer-Encoding, comments taken out (RFC 2045 §6.1). */
function tokenOf(value: string): string {
  const bare = value.includes('(') ? value.replace(/\([^()]*\)/g, ' ') : value;
  return bare.trim().replace(/;$/, '').toLowerCase();
}

function walkContent(walk: Walk, place: Place): Entity {
  const { contentType, transferEncoding } = place.described;
  const container = contentType.type === 'multipart' || isEmbedded(contentType);
  if (!container) return walkLeaf(walk, place, false);
  const signed = place.signed || (contentType.type === 'multipart' && contentType.subtype === 'signed');
  if (place.depth >= maximumDepth) return walkLeaf(walk, { ...place, signed }, true);
  if (contentType.type === 'message') {
    return isIdentity(transferEncoding) ? walkEmbedded(walk, place) : walkLeaf(walk, place, true);
  }
  const boundary = contentType.parameters.get('boundary')?.replace(/[ \t]+$/, '') ?? '';
  if (boundary === '' || boundary.length > longestBoundary) return walkLeaf(walk, { ...place, signed }, true);
  return walkMultipart(walk, { ...place, signed }, boundary);
}

function isEmbedded(type: ContentType): boolean {
  return type.type === 'message' && (type.subtype === 'rfc822' || type.subtype === 'global');
}

function walkLeaf(walk: Walk, place: Place, closed: boolean): Entity {
  const delimiter = nextDelimiter(walk, place.start);
  return entity(walk, place, { kind: 'leaf', closed, children: [], padding: [], delimiter });
}

function walkEmbedded(walk: Walk, place: Place): Entity {
  const child = walkEntity(walk, {
    start: place.start,
    path: place.path === '' ? '1' : `${place.path}.1`,
    depth: place.depth + 1,
    signed: place.signed,
    fallback: plainText,
  });
  return entity(walk, place, {
    kind: 'message',
    closed: false,
    children: [child.part],
    padding: [],
    delimiter: child.delimiter,
  });
}

function walkMultipart(walk: Walk, place: Place, boundary: string): Entity {
  const level = walk.open.push(Buffer.from(boundary, 'latin1')) - 1;
  const children: MimePart[] = [];
  const fallback = place.described.contentType.subtype === 'digest' ? embeddedMessage : plainText;
  let delimiter = nextDelimiter(walk, place.start);
  const padding = [{ start: place.start, end: contentEnd(walk.body, place.start, delimiter) }];
  const found = delimiter.level === level;
  while (delimiter.level === level && !delimiter.close) {
    if (walk.parts >= maximumParts) {
      walk.unwalkedFrom ??= delimiter.lineStart;
      delimiter = { level: -1, close: false, lineStart: walk.body.length, next: walk.body.length };
      break;
    }
    const child = walkEntity(walk, {
      start: delimiter.next,
      path: place.path === '' ? `${children.length + 1}` : `${place.path}.${children.length + 1}`,
      depth: place.depth + 1,
      signed: place.signed,
      fallback,
    });
    children.push(child.part);
    delimiter = child.delimiter;
  }
  walk.open.pop();
  if (delimiter.level === level) {
    const start = delimiter.next;
    delimiter = nextDelimiter(walk, start);
    padding.push({ start, end: contentEnd(walk.body, start, delimiter) });
  }
  if (!found) return entity(walk, place, { kind: 'leaf', closed: true, children: [], padding: [], delimiter });
  return entity(walk, place, { kind: 'multipart', closed: false, children, padding, delimiter });
}

function entity(
  walk: Walk,
  place: Place,
  found: Pick<MimePart, 'kind' | 'closed' | 'children' | 'padding'> & { readonly delimiter: Delimiter },
): Entity {
  const { delimiter, ...rest } = found;
  const part: MimePart = {
    path: place.path,
    ...place.described,
    signed: place.signed,
    header: place.header,
    separated: place.separated,
    start: place.start,
    // An empty last part may begin where the delimiter that ends it does: then the line end before that is no longer free.
    end: Math.max(
      contentEnd(walk.body, place.start, delimiter),
      rest.children.at(-1)?.end ?? 0,
      rest.padding.at(-1)?.end ?? 0,
    ),
    ...rest,
  };
  return { part, delimiter };
}

/** RFC 2046 §5.1.1: the line end before a delimiter line belongs to the delimiter. */
function contentEnd(body: Buffer, start: number, delimiter: Delimiter): number {
  if (delimiter.level < 0) return Math.max(start, delimiter.lineStart);
  let end = delimiter.lineStart;
  if (end > start && body[end - 1] === LF) end -= 1;
  if (end > start && body[end] === LF && body[end - 1] === CR) end -= 1;
  return Math.max(start, end);
}

/** Finds the next line that delimits an open boundary, at or behind `from`, which is the start of a line. */
function nextDelimiter(walk: Walk, from: number): Delimiter {
  const { body } = walk;
  const atEnd: Delimiter = { level: -1, close: false, lineStart: body.length, next: body.length };
  if (walk.open.length === 0) return atEnd;
  let lineStart = from;
  if (body[from] !== HYPHEN || body[from + 1] !== HYPHEN) lineStart = nextCandidate(body, from);
  while (lineStart >= 0) {
    const match = delimiterAt(walk, lineStart);
    if (match) return { ...match, lineStart };
    lineStart = nextCandidate(body, lineStart + 2);
  }
  return atEnd;
}

/** Octets looked at here before the native search is asked, whose call costs as much. */
const nearby = 64;

/** The next line start at or behind `from`, but not `from` itself, where two hyphens stand; -1 where none is. */
function nextCandidate(body: Buffer, from: number): number {
  const far = Math.min(from + nearby, body.length);
  // The attack: a body of nothing but lines of hyphens, each of them a candidate.
  for (let index = from; index < far; index += 1) {
    if (body[index] === LF && body[index + 1] === HYPHEN && body[index + 2] === HYPHEN) return index + 1;
  }
  const found = body.indexOf('\n--', far, 'latin1');
  return found < 0 ? -1 : found + 1;
}

/** Tells which open boundary the line at `start`, which begins with two hyphens, delimits; the innermost if several. */
function delimiterAt(walk: Walk, start: number): Omit<Delimiter, 'lineStart'> | undefined {
  const { body, open } = walk;
  for (let level = open.length - 1; level >= 0; level -= 1) {
    const boundary = open[level];
    if (!boundary || !standsAt(body, boundary, start + 2)) continue;
    const behind = start + 2 + boundary.length;
    // A boundary that is a prefix of another is another boundary: nothing but white space may follow.
    const next = lineEndBehindBlanks(body, behind);
    if (next > 0) return { level, close: false, next };
    if (body[behind] !== HYPHEN || body[behind + 1] !== HYPHEN) continue;
    const nextBehindClose = lineEndBehindBlanks(body, behind + 2);
    if (nextBehindClose > 0) return { level, close: true, next: nextBehindClose };
  }
  return undefined;
}

function standsAt(body: Buffer, octets: Buffer, offset: number): boolean {
  for (let index = 0; index < octets.length; index += 1) {
    if (body[offset + index] !== octets[index]) return false;
  }
  return true;
}

/** The first octet behind the line when only white space is left of it (RFC 2046 §5.1.1: transport-padding); else 0. */
function lineEndBehindBlanks(body: Buffer, from: number): number {
  let index = from;
  while (body[index] === SPACE || body[index] === TAB || body[index] === CR) index += 1;
  if (index >= body.length) return body.length;
  return body[index] === LF ? index + 1 : 0;
}

interface EntityStart {
  readonly start: number;
  readonly path: string;
  readonly depth: number;
  readonly signed: boolean;
  readonly fallback: ContentType;
}

function walkEntity(walk: Walk, at: EntityStart): Entity {
  const { body } = walk;
  walk.parts += 1;
  let type: string | undefined;
  let encoding: string | undefined;
  let position = at.start;
  let separated = false;
  while (position < body.length) {
    const lineLength = emptyLineLength(body, position);
    if (lineLength > 0) {
      separated = true;
      break;
    }
    const field = fieldAt(walk, position);
    if (!field) break;
    if (field.name === 'content-type') type ??= valueOf(body, field);
    else if (field.name === 'content-transfer-encoding') encoding ??= valueOf(body, field);
    position = field.end;
  }
  return walkContent(walk, {
    path: at.path,
    depth: at.depth,
    signed: at.signed,
    header: { start: at.start, end: position },
    separated,
    start: separated ? position + emptyLineLength(body, position) : position,
    described: describe(type, encoding, at.fallback),
  });
}

function valueOf(body: Buffer, field: MimeField): string {
  return body.toString('latin1', field.valueStart, Math.min(field.end, field.valueStart + longestFieldRead));
}

/** Octets of the empty line at `position`, 0 when the line is not empty. */
function emptyLineLength(body: Buffer, position: number): number {
  if (body[position] === LF) return 1;
  return body[position] === CR && body[position + 1] === LF ? 2 : 0;
}

/** Reads the field that begins at `position`; undefined where none does: a delimiter, or a line that is content already. */
function fieldAt(walk: Walk, position: number): MimeField | undefined {
  const { body } = walk;
  let lineEnd = lineEndAt(body, position);
  if (body[position] === HYPHEN && body[position + 1] === HYPHEN && delimiterAt(walk, position)) {
    return undefined;
  }
  const colon = body.subarray(position, lineEnd).indexOf(COLON);
  if (colon <= 0) return undefined;
  const name = body.toString('latin1', position, position + Math.min(colon, 100)).replace(/[ \t]+$/, '');
  // RFC 5322 §3.6.8: a name has no blank in it; such a line is the content of a part without a header section.
  if (!/^[!-9;-~]+$/.test(name)) return undefined;
  while (body[lineEnd] === SPACE || body[lineEnd] === TAB) lineEnd = lineEndAt(body, lineEnd);
  return { name: name.toLowerCase(), start: position, valueStart: position + colon + 1, end: lineEnd };
}

function lineEndAt(body: Buffer, from: number): number {
  const newline = body.indexOf(LF, from);
  return newline < 0 ? body.length : newline + 1;
}

/** Lists the fields of a part's header section in their order; none for the root. */
export function fieldsOf(body: Buffer, part: MimePart): readonly MimeField[] {
  const fields: MimeField[] = [];
  const walk: Walk = { body, open: [], parts: 0, unwalkedFrom: undefined };
  let position = part.header.start;
  while (position < part.header.end) {
    const field = fieldAt(walk, position);
    if (!field) break;
    fields.push(field);
    position = field.end;
  }
  return fields;
}
