// Makes a MIME tree acceptable to every hop: 7-bit, lines of at most 998 octets (D20). Leaves are re-encoded, containers
// declare 7bit, raw 8-bit header fields of parts become encoded-words; multipart/signed is never touched (RFC 1847 §2.1).

import { isAscii, isUtf8 } from 'node:buffer';
import { readParameters } from '../../mail/header/content-type.ts';
import { maximumLineLength } from '../../mail/header/fold.ts';
import { MAX_HEADER_FIELDS, MAX_HEADER_SECTION_BYTES } from '../../mail/header/header-reader.ts';
import { scanBody, sliceSize, type YieldToEventLoop } from '../../mail/mime/body-scan.ts';
import { fieldsOf } from '../../mail/mime/mime-header.ts';
import {
  type Closed,
  isIdentity,
  type MimePart,
  type MimeTree,
  maximumDepth,
  maximumParts,
  type TopLevel,
} from '../../mail/mime/mime-walk.ts';
import { encodeQuotedPrintable, encodeSmaller, rewrapBase64 } from '../../mail/mime/transfer-encoding.ts';
import { CR, LF } from '../../mail/octets.ts';
import type { Violation } from '../policy/rejections.ts';
import type { BodyPlanResult } from './compose.ts';
import { type HeaderChange, readRaw, rewriteHeader, type WriteLongField } from './field-text.ts';

const QUESTION_MARK = 63;

/** Writes `?` in place of each 8-bit octet of preamble or epilogue (RFC 2046 §5.1.1), and cuts lines over 998 octets (D20). */
async function cleanPadding(octets: Buffer, yieldToEventLoop?: YieldToEventLoop): Promise<Buffer> {
  const target = Buffer.allocUnsafe(octets.length + 2 * Math.floor(octets.length / maximumLineLength));
  let written = 0;
  let column = 0;
  for (let index = 0; index < octets.length; index += 1) {
    if (index > 0 && index % sliceSize === 0) await yieldToEventLoop?.();
    const octet = octets[index] ?? 0;
    if (octet === CR || octet === LF) column = 0;
    else if (column < maximumLineLength) column += 1;
    else {
      target[written] = CR;
      target[written + 1] = LF;
      written += 2;
      column = 1;
    }
    target[written] = octet < 128 ? octet : QUESTION_MARK;
    written += 1;
  }
  return target.subarray(0, written);
}

/** What the repair works with. */
export interface RepairInput {
  readonly tree: MimeTree;
  readonly top: TopLevel;
  readonly legacyCharset: string;
  /** The whole body already is 7-bit with short lines: only declarations may be wrong. */
  readonly clean: boolean;
  readonly yieldToEventLoop: YieldToEventLoop | undefined;
  readonly writeLong: WriteLongField | undefined;
}

interface Edit {
  readonly start: number;
  readonly end: number;
  readonly bytes: Buffer;
}

interface Repair extends RepairInput {
  readonly body: Buffer;
  readonly edits: Edit[];
  readonly violations: Violation[];
  /** The changes to the header section outside the body. */
  root: HeaderChange;
  /** Octets examined since other work last had a turn; each part counts as a thousand. */
  work: number;
}

/** Reasons that are reported; a body with more of them is not examined any further. */
const maximumReasons = 20;
const partWork = 1000;

/** Lets other work run once enough has been done: many small parts cost as much as a large one. */
async function work(repair: Repair, octets: number): Promise<void> {
  repair.work += partWork + octets;
  if (repair.work < sliceSize) return;
  repair.work = 0;
  await repair.yieldToEventLoop?.();
}

/** Repairs a body; gives the same Buffer where nothing had to change. */
export async function repairParts(body: Buffer, input: RepairInput): Promise<BodyPlanResult> {
  const repair: Repair = { ...input, body, edits: [], violations: [], root: {}, work: 0 };
  const { unwalkedFrom } = input.tree;
  if (unwalkedFrom !== undefined && (await isFaulty(repair, { start: unwalkedFrom, end: body.length }))) {
    refuse(repair, `The body has more than ${maximumParts.toLocaleString('en')} MIME parts and needs re-encoding`);
  }
  await repairPart(repair, input.tree.root, false);
  if (repair.violations.length > 0) return { ok: false, violations: repair.violations };
  const repaired = applyEdits(body, repair.edits);
  if (!input.clean && !containsSigned(input.tree.root) && !isAscii(repaired)) {
    refuse(repair, 'The MIME structure is malformed: its 8-bit octets cannot be re-encoded');
    return { ok: false, violations: repair.violations };
  }
  return { ok: true, plan: { body: repaired, ...repair.root } };
}

function containsSigned(part: MimePart): boolean {
  return part.signed || part.children.some(containsSigned);
}

function applyEdits(body: Buffer, edits: readonly Edit[]): Buffer {
  if (edits.length === 0) return body;
  const pieces: Buffer[] = [];
  let copied = 0;
  for (const edit of [...edits].sort((one, other) => one.start - other.start || one.end - other.end)) {
    pieces.push(body.subarray(copied, edit.start), edit.bytes);
    copied = edit.end;
  }
  pieces.push(body.subarray(copied));
  return Buffer.concat(pieces);
}

function refuse(repair: Repair, message: string): void {
  repair.violations.push({ code: 'E_VALIDATION_ERROR', message });
}

function named(part: MimePart): string {
  const { type, subtype } = part.contentType;
  return `${part.path === '' ? 'The body' : `Part ${part.path}`} (${`${type}/${subtype}`.slice(0, 60)})`;
}

async function faultsOf(repair: Repair, range: { readonly start: number; readonly end: number }) {
  if (repair.clean) return { eightBit: false, longLine: false };
  const octets = repair.body.subarray(range.start, range.end);
  await work(repair, octets.length);
  const { eightBit, longestLine } = await scanBody(octets, repair.yieldToEventLoop);
  return { eightBit, longLine: longestLine > maximumLineLength };
}

async function isFaulty(repair: Repair, range: { readonly start: number; readonly end: number }): Promise<boolean> {
  const { eightBit, longLine } = await faultsOf(repair, range);
  return eightBit || longLine;
}

async function repairPart(repair: Repair, part: MimePart, embedded: boolean): Promise<void> {
  if (repair.violations.length >= maximumReasons) return;
  const change = await repairContent(repair, part);
  if (part.path === '') {
    repair.root = change;
    return;
  }
  const encode = await isFaulty(repair, part.header);
  if (!encode && change.contentType === undefined && change.transferEncoding === undefined) return;
  const { header } = part;
  const { legacyCharset, yieldToEventLoop, writeLong } = repair;
  const rewrite = { ...change, encode, embedded, legacyCharset, yieldToEventLoop, writeLong };
  const bytes = await rewriteHeader(repair.body, part, rewrite);
  repair.edits.push({ start: header.start, end: header.end, bytes });
}

/** Repairs a part's content; gives the changes that this makes necessary in the part's header section. */
async function repairContent(repair: Repair, part: MimePart): Promise<HeaderChange> {
  if (part.signed) return repairSigned(repair, part);
  if (part.kind === 'leaf') return repairLeaf(repair, part);
  if (part.kind === 'message' && (await hasRawHeader(repair, part))) return reencode(repair, part, true);
  for (const child of part.children) await repairPart(repair, child, part.kind === 'message');
  for (const range of part.padding) await repairPadding(repair, range);
  const boundary = part.contentType.parameters.get('boundary') ?? '';
  if (!isAscii(Buffer.from(boundary, 'latin1')))
    refuse(repair, `${named(part)} has a boundary outside ASCII (RFC 2046 section 5.1.1)`);
  return declares8Bit(part) ? { transferEncoding: '7bit' } : {};
}

function declares8Bit({ transferEncoding }: MimePart): boolean {
  return transferEncoding === '8bit' || transferEncoding === 'binary';
}

/** Repairs a multipart/signed: nothing inside it may change, but its own declaration stands outside the signed octets (D20). */
async function repairSigned(repair: Repair, part: MimePart): Promise<HeaderChange> {
  if (!repair.clean && !isAscii(repair.body.subarray(part.start, part.end))) {
    const culprit = findEightBit(repair.body, part);
    refuse(
      repair,
      `${named(culprit)} inside multipart/signed holds 8-bit data, which cannot be re-encoded without breaking the ` +
        'signature: sign content that is quoted-printable or base64 (RFC 1847 section 2.1)',
    );
  }
  return declares8Bit(part) ? { transferEncoding: '7bit' } : {};
}

function findEightBit(body: Buffer, part: MimePart): MimePart {
  for (const child of part.children) {
    if (!isAscii(body.subarray(child.header.start, child.end))) return findEightBit(body, child);
  }
  return part;
}

/** RFC 6532 §3.7: a message/global may have raw UTF-8 fields and, unlike message/rfc822, may be encoded as a whole. */
async function hasRawHeader(repair: Repair, part: MimePart): Promise<boolean> {
  const [child] = part.children;
  if (part.contentType.subtype !== 'global' || !child) return false;
  return (await faultsOf(repair, child.header)).eightBit;
}

async function repairLeaf(repair: Repair, part: MimePart): Promise<HeaderChange> {
  const faults = await faultsOf(repair, part);
  const faulty = faults.eightBit || faults.longLine;
  const content = repair.body.subarray(part.start, part.end);
  if (part.transferEncoding === 'base64') {
    if (faulty) replaceContent(repair, part, await rewrapBase64(content, repair.yieldToEventLoop));
    return {};
  }
  if (part.transferEncoding === 'quoted-printable') {
    const mode = { text: true, repair: true, yieldToEventLoop: repair.yieldToEventLoop };
    if (faulty) replaceContent(repair, part, await encodeQuotedPrintable(content, mode));
    return {};
  }
  // Where only the label claims more than the content needs, only the label changes (D20).
  if (!faulty) return declares8Bit(part) ? { transferEncoding: '7bit' } : {};
  const reason = reasonAgainst(part);
  if (reason === undefined) return reencode(repair, part, faults.eightBit);
  refuse(repair, `${named(part)} holds ${faults.eightBit ? '8-bit data' : 'a line over 998 octets'} ${reason}`);
  return {};
}

const closedReasons = {
  boundary: 'but its boundary is missing, so that nothing in it can be re-encoded',
  depth: `but it is nested more than ${maximumDepth} levels deep, and nothing in it is re-encoded`,
  encoded: 'but a message that is encoded cannot be gone into',
  header: `but its header section is over ${MAX_HEADER_SECTION_BYTES} octets or ${MAX_HEADER_FIELDS} fields, and is not read`,
} as const satisfies Record<Closed, string>;

/** Says why a leaf may not be re-encoded (D20); undefined where it may. */
function reasonAgainst(part: MimePart): string | undefined {
  // Octets in an unknown encoding, once encoded again as quoted-printable, could be read by nobody.
  if (!isIdentity(part.transferEncoding)) {
    const shown = JSON.stringify(part.transferEncoding.slice(0, 40));
    return `and is encoded as ${shown}, which nobody knows: only quoted-printable and base64 can leave (RFC 2045 section 6)`;
  }
  if (part.closed !== undefined) return closedReasons[part.closed];
  const { type, subtype } = part.contentType;
  // RFC 6532 §3.5: message/global and its relatives may be encoded, every other message may not (RFC 2045 §6.4).
  if (type !== 'message' || subtype === 'global' || subtype.startsWith('global-')) return undefined;
  return 'and a part of type message may not be encoded (RFC 2045 section 6.4): encode what stands in it';
}

/** Encodes a part's content in the smaller encoding; gives the header changes that declare it (D20). */
async function reencode(repair: Repair, part: MimePart, eightBit: boolean): Promise<HeaderChange> {
  const { type } = part.contentType;
  const text = type === 'text' || type === 'message';
  let content = repair.body.subarray(part.start, part.end);
  // Content that is not text has no last line end of its own at the end of the message: SMTP added that one.
  if (!text && endsBody(repair, part)) content = content.subarray(0, Math.max(0, content.length - 2));
  const contentType = type === 'text' && eightBit ? withCharset(repair, part) : undefined;
  const { encoding, bytes } = await encodeSmaller(content, { text, yieldToEventLoop: repair.yieldToEventLoop });
  replaceContent(repair, part, bytes);
  return { transferEncoding: encoding, ...(contentType === undefined ? {} : { contentType }) };
}

function replaceContent(repair: Repair, part: MimePart, bytes: Buffer): void {
  const ended = endsBody(repair, part) && bytes.at(-1) !== LF ? Buffer.concat([bytes, Buffer.from('\r\n')]) : bytes;
  repair.edits.push({ start: part.start, end: part.end, bytes: ended });
}

/** Tells whether a part reaches to the body's end: no delimiter, and so no line end of a delimiter, follows it. */
function endsBody(repair: Repair, part: MimePart): boolean {
  return part.end === repair.body.length;
}

/** The Content-Type value for 8-bit text whose charset is missing or ASCII (D20); undefined where it declares another one. */
function withCharset(repair: Repair, part: MimePart): string | undefined {
  const declared = part.contentType.parameters.get('charset')?.toLowerCase() ?? '';
  if (declared !== '' && declared !== 'us-ascii' && declared !== 'ascii') return undefined;
  const content = repair.body.subarray(part.start, part.end);
  const charset = isUtf8(content) ? 'utf-8' : repair.legacyCharset;
  if (!part.typeDeclared || part.contentType.subtype === '') return `text/plain; charset=${charset}`;
  const value = withType(contentTypeValue(repair, part));
  const given = readParameters(value).find(({ name }) => /^charset(?:\*|$)/i.test(name));
  if (given) return `${value.slice(0, given.start)}charset=${charset}${value.slice(given.end)}`;
  return `${withoutEnd(value)}; charset=${charset}`;
}

function withoutEnd(value: string): string {
  let end = value.length;
  while (end > 0 && '; \t'.includes(value[end - 1] ?? '')) end -= 1;
  return value.slice(0, end);
}

/** Puts text/plain before a value without a type, which mailers with an empty setting write (RFC 2045 §5.2). */
function withType(value: string): string {
  if (/^[^;]*\//.test(value)) return value;
  return ['text/plain', ...readParameters(value).map(({ start, end }) => value.slice(start, end))].join('; ');
}

function contentTypeValue(repair: Repair, part: MimePart): string {
  if (part.path === '') return readRaw(Buffer.from(repair.top.contentType ?? '', 'latin1'), repair.legacyCharset);
  const field = fieldsOf(repair.body, part.header).find(({ name }) => name === 'content-type');
  return field ? readRaw(repair.body.subarray(field.valueStart, field.end), repair.legacyCharset) : '';
}

/** Cleans preamble and epilogue, which readers ignore but hops would reject. */
async function repairPadding(repair: Repair, range: { readonly start: number; readonly end: number }): Promise<void> {
  if (!(await isFaulty(repair, range))) return;
  const bytes = await cleanPadding(repair.body.subarray(range.start, range.end), repair.yieldToEventLoop);
  repair.edits.push({ start: range.start, end: range.end, bytes });
}
