// Composes the MIME tree of a message handed over as parts (D21): text and HTML as alternatives, inline attachments related
// to the HTML, attachments mixed. nodemailer composes the octets; Postern writes the message's own header fields.

import MailComposer from 'nodemailer/lib/mail-composer';
import type MimeNode from 'nodemailer/lib/mime-node';
import { parseMediaType } from '../mail/header/content-type.ts';
import { readMessage } from '../mail/header/header-reader.ts';
import type { YieldNow } from '../mail/mime/body-scan.ts';
import { endWithCrlf } from '../mail/mime/line-endings.ts';
import type { TopLevel } from '../mail/mime/mime-walk.ts';
import type { Attachment, SubmissionBody } from '../policy/submission.ts';
import type { Violation } from '../policy/violation.ts';
import { createLargeParts, type LargeParts, largeOctets, type StandIn } from './large-parts.ts';
import { readRaw } from './raw-text.ts';

/** The parts of a message. */
export type BodyParts = Extract<SubmissionBody, { readonly kind: 'parts' }>;

/** A composed body, and what its header section says of it. */
export interface ComposedParts {
  /** Ends with CRLF. CRLF throughout and 7-bit, but for attached messages, which are as they were given. */
  readonly body: Buffer;
  readonly top: Required<TopLevel>;
}

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

/**
 * Composes the parts.
 * @param boundary a random id: it keeps the message's boundaries from occurring in any text
 * @param yieldNow called between two slices of a large part
 */
export async function composeParts(parts: BodyParts, boundary: string, yieldNow?: YieldNow): Promise<ComposedParts> {
  const large = createLargeParts(boundary, yieldNow);
  const root = treeOf(await piecesOf(parts, large), boundary);
  const { fields, body } = readMessage(await large.fillIn(await root.build()));
  const value = (name: string): string => {
    const field = fields.find((field) => field.name.toLowerCase() === name);
    return field ? readRaw(field.rawBytes, 'utf-8') : '';
  };
  const transferEncoding = value('content-transfer-encoding') || '7bit';
  return { body: endWithCrlf(body), top: { contentType: value('content-type'), transferEncoding } };
}

/** The parts as nodemailer gets them: large contents are replaced by stand-ins. */
interface Pieces {
  readonly text: StandIn | undefined;
  readonly html: StandIn | undefined;
  readonly attachments: readonly (Attachment & { readonly standIn: StandIn })[];
}

async function piecesOf(parts: BodyParts, large: LargeParts): Promise<Pieces> {
  const { text, html, attachments } = parts;
  return {
    text: text === undefined ? undefined : await textPiece(text, large),
    html: html === undefined ? undefined : await textPiece(html, large),
    attachments: attachments.map((attachment) => ({ ...attachment, standIn: attachmentPiece(attachment, large) })),
  };
}

const lineEnd = /\r\n?|\n/g;

function textPiece(text: string, large: LargeParts): StandIn | Promise<StandIn> {
  if (text.length > largeOctets) return large.setTextAside(text);
  // RFC 2046 §4.1.1: a line break of text is CRLF; nodemailer would let a bare CR pass (D11).
  return { content: text.toWellFormed().replace(lineEnd, '\r\n') };
}

function attachmentPiece({ content, contentType }: Attachment, large: LargeParts): StandIn {
  // RFC 2046 §5.2.1: an attached message is never encoded. For all other content base64 keeps each octet.
  const isMessage = /^message\//i.test(contentType);
  if (content.length > largeOctets) return isMessage ? large.setMessageAside(content) : large.setFileAside(content);
  return isMessage ? { content } : { content, transferEncoding: 'base64' };
}

const control = /[\x00-\x1f\x7f]/g;

function part({ content, transferEncoding }: StandIn) {
  return { content, contentTransferEncoding: transferEncoding ?? (false as const) };
}

function alternative(subtype: 'plain' | 'html', standIn: StandIn | undefined) {
  return standIn ? [{ ...part(standIn), contentType: `text/${subtype}; charset=utf-8` }] : [];
}

/** Builds the tree. An inline attachment without a Content-ID gets one made from `boundary`. */
function treeOf({ text, html, attachments }: Pieces, boundary: string): MimeNode {
  const composer = new MailComposer({
    // nodemailer's `text` and `html` may not be empty; alternatives may.
    alternatives: [...alternative('plain', text), ...alternative('html', html)],
    attachments: attachments.map(({ contentType, disposition, contentId, filename, standIn }, index) => {
      const id = contentId ?? (disposition === 'inline' && html ? `${index}.${boundary}` : undefined);
      // nodemailer puts an attachment with a `cid` beside the HTML, as related to it.
      const idOf = (bare: string) =>
        disposition === 'inline' ? { cid: bare } : { headers: { 'Content-ID': `<${bare}>` } };
      return {
        ...part(standIn),
        contentType,
        contentDisposition: disposition,
        filename: filename?.toWellFormed().replace(control, ' ') || false,
        ...(id === undefined ? {} : idOf(bareId(id))),
      };
    }),
    baseBoundary: boundary,
    newline: 'win',
    // All content is in memory: no content may make nodemailer open a file or a URL.
    disableFileAccess: true,
    disableUrlAccess: true,
  });
  return composer.compile();
}
