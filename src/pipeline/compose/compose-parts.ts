// Composes the MIME tree of a message handed over as parts (D21): text and HTML as alternatives, inline attachments related
// to the HTML, attachments mixed. What is encoded is written once, directly into the octets that leave.

import type MimeNode from 'nodemailer/lib/mime-node';
import { parseMediaType } from '../../mail/header/content-type.ts';
import { maximumLineLength } from '../../mail/header/fold.ts';
import {
  endWithCrlf,
  repairLineEndings,
  scanBody,
  sliceSize,
  type YieldToEventLoop,
} from '../../mail/mime/body-scan.ts';
import type { TopLevel } from '../../mail/mime/mime-walk.ts';
import { base64Size, encodeSmaller, writeBase64 } from '../../mail/mime/transfer-encoding.ts';
import type { Violation } from '../policy/rejections.ts';
import type { Attachment, SubmissionBody } from '../policy/submission.ts';

/** The parts of a message. */
export type BodyParts = Extract<SubmissionBody, { readonly kind: 'parts' }>;

const token = /^[A-Za-z0-9!#$&^_.+-]{1,127}$/;
const printable = /^[ -~]*$/;

/** Says what is wrong with the attachments: an invalid media type or Content-ID, or content that cannot be attached. */
export function attachmentViolations(attachments: readonly Attachment[]): readonly Violation[] {
  const violations: Violation[] = [];
  attachments.forEach(({ content, contentType, contentId }, index) => {
    const pointer = `/attachments/${index}`;
    const { type, subtype } = parseMediaType(contentType);
    if (!printable.test(contentType) || !token.test(type) || !token.test(subtype)) {
      const message = `${JSON.stringify(contentType.slice(0, 100))} is no media type such as application/pdf`;
      violations.push({ code: 'E_VALIDATION_ERROR', message, pointer: `${pointer}/type` });
    } else if (type === 'multipart') {
      const message = `${type}/${subtype} cannot be attached: only a message has parts (RFC 2045 section 6.4)`;
      violations.push({ code: 'E_VALIDATION_ERROR', message, pointer: `${pointer}/type` });
    }
    if (type === 'message' && content.includes(0)) {
      // D11: a message is attached as it is, and no hop accepts NUL.
      const message = 'The attached message holds a NUL octet: encode binary data as base64';
      violations.push({ code: 'E_VALIDATION_ERROR', message, pointer: `${pointer}/content` });
    }
    if (contentId !== undefined && !/^[!-;=?-~]{1,900}$/.test(bareId(contentId))) {
      const message = `${JSON.stringify(contentId.slice(0, 100))} is no Content-ID such as logo@example.com`;
      violations.push({ code: 'E_VALIDATION_ERROR', message, pointer: `${pointer}/content_id` });
    }
  });
  return violations;
}

function bareId(contentId: string): string {
  return contentId.startsWith('<') && contentId.endsWith('>') ? contentId.slice(1, -1) : contentId;
}

/** Whether an attachment is a message, which is never encoded (RFC 2046 §5.2.1). For all other content base64 keeps each octet. */
function isMessage({ contentType }: Attachment): boolean {
  return /^message\//i.test(contentType);
}

/** Text of ASCII, octets that leave as they are, or octets that leave in base64. */
type Piece = string | Buffer | { readonly base64: Buffer };

interface Described {
  readonly top: Required<TopLevel>;
  /** Its header section, without the empty line. */
  readonly fields: string;
}

interface Leaf extends Described {
  readonly content: Buffer | { readonly base64: Buffer };
}

interface Branch {
  /** The media type, without the boundary. */
  readonly multipart: string;
  readonly parts: readonly (Leaf | Branch)[];
}

/**
 * Composes the parts. @param boundary random, so that no text has it @param yieldToEventLoop called between slices of a large part
 * @returns the body, which ends with CRLF, has CRLF throughout and is 7-bit, but for attached messages, which are as they were given;
 *   what its header section says of it; and whether nothing in it has to be repaired: no message is attached, and no line of a part's
 *   header section is too long
 */
export async function composeParts(parts: BodyParts, boundary: string, yieldToEventLoop?: YieldToEventLoop) {
  const pieces: Piece[] = [];
  const { top } = addPart(await treeOf(parts, boundary, yieldToEventLoop), pieces, { boundary, parts: 0 });
  const areShort = pieces.every((piece) => typeof piece !== 'string' || piece.length <= maximumLineLength);
  const [only] = pieces;
  const body = pieces.length === 1 && Buffer.isBuffer(only) ? only : await written(pieces, yieldToEventLoop);
  return { body: endWithCrlf(body), top, isClean: areShort && !parts.attachments.some(isMessage) };
}

/** Builds the tree. An inline attachment without a Content-ID gets one made from `boundary`. */
async function treeOf(parts: BodyParts, boundary: string, yieldToEventLoop?: YieldToEventLoop): Promise<Leaf | Branch> {
  const { text, html, attachments } = parts;
  const hasHtml = html !== undefined;
  const [related, mixed]: [Leaf[], Leaf[]] = [[], []];
  for (const [index, attachment] of attachments.entries()) {
    if (index > 0) await yieldToEventLoop?.();
    const isInline = attachment.disposition === 'inline';
    const id = attachment.contentId ?? (isInline && hasHtml ? `${index}.${boundary}` : undefined);
    (isInline && hasHtml ? related : mixed).push(await fileLeaf(attachment, id === undefined ? undefined : bareId(id)));
  }
  const alternatives: (Leaf | Branch)[] = text === undefined ? [] : [await textLeaf('plain', text, yieldToEventLoop)];
  if (hasHtml) {
    const leaf = await textLeaf('html', html, yieldToEventLoop);
    const inRelated = { multipart: 'multipart/related; type="text/html"', parts: [leaf, ...related] };
    alternatives.push(related.length === 0 ? leaf : inRelated);
  }
  const several = { multipart: 'multipart/alternative', parts: alternatives };
  const content = alternatives.length > 1 ? [several] : alternatives;
  if (mixed.length === 0) return content[0] ?? (await textLeaf('plain', ''));
  return { multipart: 'multipart/mixed', parts: [...content, ...mixed] };
}

const longestPlainLine = 76;

/** Makes the part of a text, in UTF-8 with CRLF: as it is, or encoded where it is not ASCII, has NUL or lines over 76 octets. */
async function textLeaf(subtype: 'plain' | 'html', text: string, yieldToEventLoop?: YieldToEventLoop): Promise<Leaf> {
  // While it is a string, the line ends of a short text are converted for less than octet by octet.
  const isShort = text.length <= sliceSize && !text.includes('\r');
  // A lone surrogate becomes U+FFFD.
  const given = Buffer.from(isShort ? text.replaceAll('\n', '\r\n') : text, 'utf8');
  const facts = await scanBody(given, yieldToEventLoop);
  // RFC 2046 §4.1.1: a line break of text is CRLF (D11).
  const content = facts.bareCr || facts.bareLf ? await repairLineEndings(given, yieldToEventLoop) : given;
  const contentType = `text/${subtype}; charset=utf-8`;
  if (!facts.eightBit && !facts.nul && facts.longestLine <= longestPlainLine) {
    return { ...described(contentType, '7bit'), content };
  }
  const { encoding, bytes } = await encodeSmaller(content, { text: true, yieldToEventLoop });
  return { ...described(contentType, encoding), content: bytes };
}

function described(contentType: string, transferEncoding: string): Described {
  const fields = `Content-Type: ${contentType}\r\nContent-Transfer-Encoding: ${transferEncoding}`;
  return { top: { contentType, transferEncoding }, fields };
}

const control = /[\x00-\x1f\x7f]/g;

/** nodemailer, which writes the fields of a file; loaded with the first file. */
let writer: { readonly Node: typeof MimeNode; readonly root: MimeNode } | undefined;

async function startWriter(): Promise<NonNullable<typeof writer>> {
  const { default: Node } = await import('nodemailer/lib/mime-node');
  return { Node, root: new Node('multipart/mixed') };
}

/** Makes the part of an attachment. @param id its Content-ID, without brackets */
async function fileLeaf(attachment: Attachment, id: string | undefined): Promise<Leaf> {
  const { content, contentType, disposition, filename } = attachment;
  const isEncoded = !isMessage(attachment);
  writer ??= await startWriter();
  const { Node, root } = writer;
  const name = filename?.toWellFormed().replace(control, ' ');
  // As a part of another it is given no fields of a message.
  const node = new Node(contentType, { rootNode: root, parentNode: root, ...(name ? { filename: name } : {}) });
  if (id !== undefined) node.setHeader('Content-ID', `<${id}>`);
  if (isEncoded) node.setHeader('Content-Transfer-Encoding', 'base64');
  node.setHeader('Content-Disposition', disposition);
  const top = { contentType, transferEncoding: isEncoded ? 'base64' : '7bit' };
  return { top, fields: node.buildHeaders(), content: isEncoded ? { base64: content } : content };
}

/** RFC 5322 §2.1.1: a field of fewer octets stands on one line. */
const foldedFrom = 76;

/** Adds the pieces of a part and of what is below it, in the order of the text; gives what the part says of itself. */
function addPart(part: Leaf | Branch, pieces: Piece[], count: { readonly boundary: string; parts: number }): Described {
  count.parts += 1;
  if ('content' in part) {
    pieces.push(part.content);
    return part;
  }
  const boundary = `--_NmP-${count.boundary}-Part_${count.parts}`;
  for (const [index, below] of part.parts.entries()) {
    const at = pieces.push('') - 1;
    const { fields } = addPart(below, pieces, count);
    pieces[at] = `${index === 0 ? '' : '\r\n'}--${boundary}\r\n${fields}\r\n\r\n`;
  }
  pieces.push(`\r\n--${boundary}--\r\n`);
  const [type, parameter] = [`${part.multipart};`, ` boundary="${boundary}"`];
  const fold = `Content-Type: ${type}${parameter}`.length < foldedFrom ? '' : '\r\n';
  const top = { contentType: `${type}${parameter}`, transferEncoding: '7bit' };
  return { top, fields: `Content-Type: ${type}${fold}${parameter}` };
}

async function written(pieces: readonly Piece[], yieldToEventLoop?: YieldToEventLoop): Promise<Buffer> {
  const sizes = pieces.map((piece) =>
    typeof piece === 'string' || Buffer.isBuffer(piece) ? piece.length : base64Size(piece.base64.length),
  );
  const whole = Buffer.allocUnsafe(sizes.reduce((sum, size) => sum + size, 0));
  let at = 0;
  for (const piece of pieces) {
    if (typeof piece === 'string') at += whole.write(piece, at, 'latin1');
    else if (Buffer.isBuffer(piece)) at += piece.copy(whole, at);
    else at = await writeBase64(whole, at, { content: piece.base64, yieldToEventLoop });
  }
  return whole;
}
