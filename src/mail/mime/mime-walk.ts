// Builds the MIME tree over a body's octets without decoding or copying (RFC 2046 §5.1, RFC 2045 §5, §6). Each octet is searched once;
// depth, parts and their header sections are bounded, and the walk yields often enough to let other work run.

import { type ContentType, embeddedMessage, parseContentType, plainText } from '../header/content-type.ts';
import { CR, LF } from '../octets.ts';
import type { YieldToEventLoop } from './body-scan.ts';
import { Boundaries, type Delimiter } from './mime-delimiter.ts';
import { readPartHeader } from './mime-header.ts';

/**
 * Why the walk did not look inside a part. `boundary`: a multipart whose boundary is missing or never occurs in it.
 * `depth`: a multipart or message nested too deep. `encoded`: a message with a Content-Transfer-Encoding that changes its
 * octets or is unknown. `header`: a header section over the limits of the message's own; the part is then a leaf of
 * unknown type that includes its header section.
 */
export type Closed = 'boundary' | 'depth' | 'encoded' | 'header';

/** One node of the tree. The root is the message's body; its header section stands elsewhere. */
export interface MimePart {
  /** Numbers as IMAP counts them (RFC 9051 §6.4.5), `1.2`; '' is the root. */
  readonly path: string;
  /** `multipart` and `message` have children; everything else is a leaf. */
  readonly kind: 'leaf' | 'multipart' | 'message';
  readonly contentType: ContentType;
  /** There is a Content-Type field. */
  readonly typeDeclared: boolean;
  /** Lower case, without comments; '' where there is no such field. `7-bit` and similar spellings are corrected. */
  readonly transferEncoding: string;
  /** The part is a multipart/signed or lies inside one (RFC 1847 §2.1): none of its octets may change. */
  readonly signed: boolean;
  /** Why the walk did not look inside; absent where it did, and for parts that have nothing inside. */
  readonly closed?: Closed;
  /** The header section; `start` equals `end` for the root. The empty line is not in it. */
  readonly header: { readonly start: number; readonly end: number };
  /** There is an empty line between header section and content. */
  readonly separated: boolean;
  /** The content: for a multipart from preamble to epilogue. The line end before a delimiter belongs to the delimiter. */
  readonly start: number;
  readonly end: number;
  readonly children: readonly MimePart[];
  /** The octets before the first and behind the last delimiter line of a multipart; readers ignore them. */
  readonly padding: readonly { readonly start: number; readonly end: number }[];
}

/** A walked body. */
export interface MimeTree {
  readonly root: MimePart;
  /** There are more parts than the limit: the octets from here on were not looked at. */
  readonly unwalkedFrom: number | undefined;
}

/** The fields of the message's own header section that describe the body. */
export interface TopLevel {
  /** The field's body (folds may be in it), one character an octet; undefined without the field. */
  readonly contentType?: string;
  readonly transferEncoding?: string;
}

/** Levels of multipart and message that the walk looks into. */
export const maximumDepth = 50;
/** Parts that the walk looks at. */
export const maximumParts = 10_000;
/** RFC 2046 §5.1.1 allows 70 octets; longer boundaries are accepted as long as a line can hold them. */
const longestBoundary = 990;
/** Octets of header sections read before other work may run; each part counts as a hundred more. */
const headerOctetsInSlice = 65_536;

interface Walk {
  readonly body: Buffer;
  readonly boundaries: Boundaries;
  parts: number;
  headerOctets: number;
  unwalkedFrom: number | undefined;
}

interface Entity {
  readonly part: MimePart;
  /** The delimiter line that ended the part. */
  readonly delimiter: Delimiter;
}

/** A walk in steps: at each `yield` other work may run; nothing is passed back in. */
type Walking<T> = Generator<undefined, T>;

type Description = Pick<MimePart, 'contentType' | 'typeDeclared' | 'transferEncoding'>;

/** What is known of a part before its content is walked. */
interface Position extends Pick<MimePart, 'path' | 'signed' | 'header' | 'separated' | 'start'> {
  readonly depth: number;
  readonly described: Description;
}

/**
 * Walks a body step by step. Each step takes a few milliseconds at most, whatever the body holds.
 * @param body CRLF line ends (a bare LF ends a line too)
 * @param top the message's own Content-Type and Content-Transfer-Encoding
 * @returns a generator that yields between steps and returns the tree
 */
export function* walkSteps(body: Buffer, top: TopLevel): Walking<MimeTree> {
  const boundaries = new Boundaries(body);
  const walk: Walk = { body, boundaries, parts: 0, headerOctets: 0, unwalkedFrom: undefined };
  const { part } = yield* walkContent(walk, {
    path: '',
    depth: 0,
    signed: false,
    header: { start: 0, end: 0 },
    separated: true,
    start: 0,
    described: describe(top.contentType, top.transferEncoding, plainText),
  });
  return { root: part, unwalkedFrom: walk.unwalkedFrom };
}

/** Walks a body as `walkSteps` does. @param yieldToEventLoop called between two steps */
export async function walkMime(body: Buffer, top: TopLevel, yieldToEventLoop?: YieldToEventLoop): Promise<MimeTree> {
  const walking = walkSteps(body, top);
  for (;;) {
    const { done, value } = walking.next();
    if (done) return value;
    await yieldToEventLoop?.();
  }
}

/** Misspellings of the identity encodings that some mailers write; each can mean only one encoding. */
const spellings: ReadonlyMap<string, string> = new Map([
  ['7-bit', '7bit'],
  ['7bits', '7bit'],
  ['8-bit', '8bit'],
  ['8bits', '8bit'],
]);

const identities: ReadonlySet<string> = new Set(['', '7bit', '8bit', 'binary']);

/** Tells whether a Content-Transfer-Encoding is known to leave the octets as they are (RFC 2045 §6.2). */
export function isIdentity(transferEncoding: string): boolean {
  return identities.has(transferEncoding);
}

function describe(type: string | undefined, encoding: string | undefined, fallback: ContentType): Description {
  const token = encoding === undefined ? '' : tokenOf(encoding);
  return {
    // RFC 5322 §2.2.3: folds do not belong to a value: a boundary with one would never be found.
    contentType: type === undefined ? fallback : parseContentType(type.replace(/[\r\n]/g, '')),
    typeDeclared: type !== undefined,
    transferEncoding: spellings.get(token) ?? token,
  };
}

/** The first token of a Content-Transfer-Encoding, comments taken out (RFC 2045 §6.1). */
function tokenOf(value: string): string {
  const bare = value.includes('(') ? value.replace(/\([^()]*\)/g, ' ') : value;
  return (/[^\s;]+/.exec(bare)?.[0] ?? '').toLowerCase();
}

function* walkContent(walk: Walk, place: Position): Walking<Entity> {
  const { contentType, transferEncoding } = place.described;
  const isMultipart = contentType.type === 'multipart';
  if (!isMultipart && !isEmbedded(contentType)) return yield* walkLeaf(walk, place);
  const inside = { ...place, signed: place.signed || (isMultipart && contentType.subtype === 'signed') };
  if (place.depth >= maximumDepth) return yield* walkLeaf(walk, inside, 'depth');
  if (!isMultipart) {
    return yield* isIdentity(transferEncoding) ? walkEmbedded(walk, place) : walkLeaf(walk, place, 'encoded');
  }
  const boundary = contentType.parameters.get('boundary')?.replace(/[ \t]+$/, '') ?? '';
  if (boundary === '' || boundary.length > longestBoundary) return yield* walkLeaf(walk, inside, 'boundary');
  return yield* walkMultipart(walk, inside, boundary);
}

function isEmbedded(type: ContentType): boolean {
  return type.type === 'message' && (type.subtype === 'rfc822' || type.subtype === 'global');
}

function* walkLeaf(walk: Walk, place: Position, closed?: Closed): Walking<Entity> {
  const delimiter = yield* walk.boundaries.next(place.start);
  const leaf = { kind: 'leaf', children: [], padding: [], delimiter } as const;
  return entity(walk, place, closed === undefined ? leaf : { ...leaf, closed });
}

function* walkEmbedded(walk: Walk, place: Position): Walking<Entity> {
  const child = yield* walkEntity(walk, {
    start: place.start,
    path: place.path === '' ? '1' : `${place.path}.1`,
    depth: place.depth + 1,
    signed: place.signed,
    fallback: plainText,
  });
  return entity(walk, place, { kind: 'message', children: [child.part], padding: [], delimiter: child.delimiter });
}

function* walkMultipart(walk: Walk, place: Position, boundary: string): Walking<Entity> {
  const { boundaries } = walk;
  const level = boundaries.open(boundary);
  const children: MimePart[] = [];
  const fallback = place.described.contentType.subtype === 'digest' ? embeddedMessage : plainText;
  let delimiter = yield* boundaries.next(place.start);
  const padding = [{ start: place.start, end: contentEnd(walk.body, place.start, delimiter) }];
  const found = delimiter.level === level;
  while (delimiter.level === level && !delimiter.close) {
    if (walk.parts >= maximumParts) {
      walk.unwalkedFrom ??= delimiter.lineStart;
      delimiter = { level: -1, close: false, lineStart: walk.body.length, next: walk.body.length };
      break;
    }
    const child = yield* walkEntity(walk, {
      start: delimiter.next,
      path: place.path === '' ? `${children.length + 1}` : `${place.path}.${children.length + 1}`,
      depth: place.depth + 1,
      signed: place.signed,
      fallback,
    });
    children.push(child.part);
    delimiter = child.delimiter;
  }
  boundaries.close();
  if (delimiter.level === level) {
    const start = delimiter.next;
    delimiter = yield* boundaries.next(start);
    padding.push({ start, end: contentEnd(walk.body, start, delimiter) });
  }
  if (!found) return entity(walk, place, { kind: 'leaf', closed: 'boundary', children: [], padding: [], delimiter });
  return entity(walk, place, { kind: 'multipart', children, padding, delimiter });
}

function entity(
  walk: Walk,
  place: Position,
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
    // An empty last part may begin at the delimiter that ends it: the line end before that is then not the delimiter's.
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

/** Walks the part that begins at `start` with its header section. @param fallback the type of one that declares none */
function* walkEntity(
  walk: Walk,
  at: Pick<Position, 'start' | 'path' | 'depth' | 'signed'> & { readonly fallback: ContentType },
): Walking<Entity> {
  walk.parts += 1;
  const { start, path, depth, signed } = at;
  const header = readPartHeader(walk.body, start, (offset) => walk.boundaries.at(offset) !== undefined);
  walk.headerOctets += 100 + (header ? header.end - start : headerOctetsInSlice);
  if (walk.headerOctets >= headerOctetsInSlice) {
    walk.headerOctets = 0;
    yield;
  }
  const place = { path, depth, signed, header: { start, end: header?.end ?? start } };
  if (!header) {
    const described = describe(undefined, undefined, plainText);
    return yield* walkLeaf(walk, { ...place, separated: true, start, described }, 'header');
  }
  return yield* walkContent(walk, {
    ...place,
    separated: header.separated,
    start: header.contentStart,
    described: describe(header.contentType, header.transferEncoding, at.fallback),
  });
}
