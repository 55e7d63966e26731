// The MIME tree of a message handed over as parts (D21): text and HTML as alternatives, inline attachments related to the
// HTML, attachments mixed. nodemailer composes the octets; the message's own header fields are ours.

import { createHash } from 'node:crypto';
import MimeNode from 'nodemailer/lib/mime-node';
import { parseContentType } from '../mail/content-type.ts';
import { readMessage } from '../mail/header-reader.ts';
import { endWithCrlf } from '../mail/line-endings.ts';
import type { TopLevel } from '../mail/mime-walk.ts';
import type { Attachment, SubmissionBody } from '../policy/submission.ts';
import type { Violation } from '../policy/violation.ts';
import { readRaw } from './raw-text.ts';

/** The parts of a message. */
export type BodyParts = Extract<SubmissionBody, { readonly kind: 'parts' }>;

/** A composed body with what its header section says of it. */
export interface ComposedParts {
  /** Ends with CRLF. CRLF throughout and 7-bit, but for attached messages, which are as they were given. */
  readonly body: Buffer;
  readonly top: Required<TopLevel>;
}

const token = /^[A-Za-z0-9!#$&^_.+-]{1,127}$/;
const printable = /^[ -~]*$/;

/** What is wrong with the attachments: a media type or a Content-ID that is none, or what cannot be attached. */
export function attachmentViolations(attachments: readonly Attachment[]): readonly Violation[] {
  const violations: Violation[] = [];
  attachments.forEach(({ content, contentType, contentId }, index) => {
    const pointer = `/attachments/${index}`;
    const { type, subtype } = parseContentType(contentType);
    if (!printable.test(contentType) || !token.test(type) || !token.test(subtype)) {
      const message = `${JSON.stringify(contentType.slice(0, 100))} is no media type such as application/pdf`;
      violations.push({ code: 'E_VALIDATION_ERROR', message, pointer: `${pointer}/type` });
    } else if (type === 'multipart') {
      const message = `${type}/${subtype} cannot be attached: only a message has parts (RFC 2045 section 6.4)`;
      violations.push({ code: 'E_VALIDATION_ERROR', message, pointer: `${pointer}/type` });
    }
    if (type === 'message' && content.includes(0)) {
      // D11: a message is attached as it is, and no hop takes NUL.
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

/**
 * Composes the parts.
 * @param boundary what makes the boundaries of this message unlike any text in it: a random id
 */
export async function composeParts(parts: BodyParts, boundary: string): Promise<ComposedParts> {
  const large: Placeholder[] = [];
  const root = treeOf(
    { ...parts, attachments: setAside(parts.attachments, boundary, large) },
    {
      baseBoundary: boundary,
      newline: 'win',
      // The content is in memory, always: no content may make nodemailer open a file or a URL.
      disableFileAccess: true,
      disableUrlAccess: true,
    },
  );
  const { fields, body } = readMessage(fillIn(await root.build(), large));
  const value = (name: string): string => {
    const field = fields.find((field) => field.name.toLowerCase() === name);
    return field ? readRaw(field.rawBytes, 'utf-8') : '';
  };
  const transferEncoding = value('content-transfer-encoding') || '7bit';
  return { body: endWithCrlf(body), top: { contentType: value('content-type'), transferEncoding } };
}

/** A large attachment and the text that stands in its place while nodemailer composes. */
interface Placeholder {
  /** As it is in the composed octets: one line of base64. */
  readonly written: string;
  readonly content: Buffer;
}

/** Content above this is filled in afterwards: nodemailer would copy it at every step of its encoding. */
const largeOctets = 65_536;
const CR = 0x0d;
const LF = 0x0a;
/** RFC 2045 §6.8: 57 octets make a line of 76 characters. */
const lineOctets = 57;

function encodedLength({ length }: Buffer): number {
  return Math.ceil(length / 3) * 4 + (Math.ceil(length / lineOctets) - 1) * 2;
}

const characters = Buffer.from('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/', 'latin1');

/** Writes base64 in lines; gives the index behind it. No text is made of it: the heap would hold as much again. */
function writeBase64(target: Buffer, at: number, content: Buffer): number {
  const whole = content.length - (content.length % 3);
  let end = at;
  for (let from = 0; from < content.length; from += 3) {
    if (from > 0 && from % lineOctets === 0) {
      target[end] = CR;
      target[end + 1] = LF;
      end += 2;
    }
    if (from === whole) return end + target.write(content.toString('base64', whole), end, 'latin1');
    const bits = ((content[from] ?? 0) << 16) | ((content[from + 1] ?? 0) << 8) | (content[from + 2] ?? 0);
    target[end] = characters[bits >> 18] ?? 0;
    target[end + 1] = characters[(bits >> 12) & 63] ?? 0;
    target[end + 2] = characters[(bits >> 6) & 63] ?? 0;
    target[end + 3] = characters[bits & 63] ?? 0;
    end += 4;
  }
  return end;
}

/** Replaces large contents by their placeholders. The boundary is unlike any text, and so are these. */
function setAside(attachments: readonly Attachment[], boundary: string, large: Placeholder[]): readonly Attachment[] {
  return attachments.map((attachment, index) => {
    // A message is not encoded (RFC 2046 §5.2.1).
    if (attachment.content.length <= largeOctets || /^message\//i.test(attachment.contentType)) return attachment;
    const content = createHash('sha256').update(`${boundary} ${index}`).digest();
    large.push({ written: content.toString('base64'), content: attachment.content });
    return { ...attachment, content };
  });
}

/** Puts large attachments where they belong; each is written once, into the octets that leave. */
function fillIn(composed: Buffer, large: readonly Placeholder[]): Buffer {
  if (large.length === 0) return composed;
  const growth = large.reduce((sum, { content, written }) => sum + encodedLength(content) - written.length, 0);
  const whole = Buffer.allocUnsafeSlow(composed.length + growth);
  let from = 0;
  let to = 0;
  // Inline ones stand before the others, whatever order they were given in.
  const places = large.map(({ content, written }) => ({
    content,
    written,
    at: composed.indexOf(written, 0, 'latin1'),
  }));
  for (const { content, written, at } of places.sort((one, other) => one.at - other.at)) {
    if (at < from) throw new Error('A large attachment has no place in the composed message');
    to += composed.copy(whole, to, from, at);
    to = writeBase64(whole, to, content);
    from = at + written.length;
  }
  composed.copy(whole, to, from);
  return whole;
}

/** Adds a node to a parent, or makes it the root. */
type Place = (contentType: string) => MimeNode;

function treeOf(parts: BodyParts, options: NonNullable<ConstructorParameters<typeof MimeNode>[1]>): MimeNode {
  const { text, html } = parts;
  const related = html === undefined ? [] : parts.attachments.filter(({ disposition }) => disposition === 'inline');
  const mixed = parts.attachments.filter((attachment) => !related.includes(attachment));
  const atRoot: Place = (contentType) => new MimeNode(contentType, options);
  const alternatives = (place: Place): MimeNode => {
    if (text === undefined || html === undefined) return contentOf(place);
    const node = place('multipart/alternative');
    addText(under(node), { type: 'plain', text });
    addHtml(under(node), html, related);
    return node;
  };
  const contentOf = (place: Place): MimeNode =>
    html === undefined ? addText(place, { type: 'plain', text: text ?? '' }) : addHtml(place, html, related);
  if (mixed.length === 0) return alternatives(atRoot);
  const root = atRoot('multipart/mixed');
  alternatives(under(root));
  for (const attachment of mixed) addAttachment(root, attachment);
  return root;
}

function under(parent: MimeNode): Place {
  return (contentType) => parent.createChild(contentType);
}

const lineEnd = /\r\n?|\n/g;

function addText(place: Place, content: { readonly type: 'plain' | 'html'; readonly text: string }): MimeNode {
  // RFC 2046 §4.1.1: a line break of text is CRLF; nodemailer would let a bare CR pass (D11).
  const text = content.text.toWellFormed().replace(lineEnd, '\r\n');
  return place(`text/${content.type}; charset=utf-8`).setContent(text);
}

function addHtml(place: Place, html: string, related: readonly Attachment[]): MimeNode {
  if (related.length === 0) return addText(place, { type: 'html', text: html });
  const node = place('multipart/related; type="text/html"');
  addText(under(node), { type: 'html', text: html });
  for (const attachment of related) addAttachment(node, attachment);
  return node;
}

const control = /[\x00-\x1f\x7f]/g;

function addAttachment(parent: MimeNode, attachment: Attachment): void {
  const { content, contentType, disposition, contentId } = attachment;
  const filename = attachment.filename?.toWellFormed().replace(control, ' ');
  const node = parent.createChild(contentType, filename === undefined ? {} : { filename });
  node.setHeader('Content-Disposition', disposition);
  if (contentId !== undefined) node.setHeader('Content-ID', `<${bareId(contentId)}>`);
  // RFC 2046 §5.2.1: a message is never encoded itself. Of everything else base64 keeps each octet.
  if (!/^message\//i.test(contentType)) node.setHeader('Content-Transfer-Encoding', 'base64');
  node.setContent(content);
}
