// Encodes large contents of a message handed over as parts. They are encoded in slices and put in after nodemailer has
// composed the rest, because nodemailer would copy them at every step and never pause (D21).

import { createHash } from 'node:crypto';
import { scanBody, type YieldNow } from '../mail/mime/body-scan.ts';
import { repairLineEndings } from '../mail/mime/line-endings.ts';
import { encodeSmaller } from '../mail/mime/transfer-encoding.ts';

/** What stands in the place of a large content while the message is composed. */
export interface StandIn {
  /** Given to nodemailer as the content. */
  readonly content: Buffer | string;
  /** The encoding that nodemailer must be told; absent where it keeps the content as it is. */
  readonly transferEncoding?: 'base64' | 'quoted-printable';
}

/** The large contents of one message. */
export interface LargeParts {
  /** Sets an attachment's octets aside, to be written as base64. */
  setFileAside(content: Buffer): StandIn;
  /** Sets an attached message aside, to be written as it is (RFC 2046 §5.2.1). */
  setMessageAside(content: Buffer): StandIn;
  /**
   * Sets a text aside, to be written in UTF-8 with CRLF: as it is, or encoded where it is not ASCII or has lines over 76
   * octets, as nodemailer does with short ones.
   */
  setTextAside(text: string): Promise<StandIn>;
  /** Replaces all stand-ins by their contents; each content is written once, directly into the octets that leave. */
  fillIn(composed: Buffer): Promise<Buffer>;
}

/** A content, and the text that marks its place in the composed octets. */
interface Placeholder {
  readonly written: string;
  readonly content: Buffer;
  readonly encode: boolean;
}

/** Content above this, in octets or characters, is set aside. */
export const largeOctets = 16_384;
const longestPlainLine = 76;
const CR = 0x0d;
const LF = 0x0a;
/** RFC 2045 §6.8: 57 octets make a line of 76 characters. */
const lineOctets = 57;
/** Octets encoded before other work may run. */
const sliceOctets = lineOctets * 1024;

/**
 * Makes the store of one message's large contents.
 * @param boundary a random id: it keeps the message's boundaries and stand-ins from occurring in any text
 * @param yieldNow called between two slices of a large content
 */
export function createLargeParts(boundary: string, yieldNow?: YieldNow): LargeParts {
  const placeholders: Placeholder[] = [];
  const nextDigest = (): Buffer => createHash('sha256').update(`${boundary} ${placeholders.length}`).digest();

  /** Gives a content without its last line end, which the stand-in keeps: nodemailer adds one where content has none. */
  function asText(content: Buffer): string {
    const written = nextDigest().toString('hex');
    const ended = content[content.length - 2] === CR && content[content.length - 1] === LF;
    placeholders.push({ written, content: ended ? content.subarray(0, -2) : content, encode: false });
    return ended ? `${written}\r\n` : written;
  }

  function asBase64(content: Buffer, encode: boolean): Buffer {
    const digest = nextDigest();
    placeholders.push({ written: digest.toString('base64'), content, encode });
    return digest;
  }

  return {
    setFileAside: (content) => ({ content: asBase64(content, true), transferEncoding: 'base64' }),
    setMessageAside: (content) => ({ content: asText(content) }),
    setTextAside: async (text) => {
      // A lone surrogate becomes U+FFFD. RFC 2046 §4.1.1: a line break of text is CRLF (D11).
      const content = await repairLineEndings(Buffer.from(text, 'utf8'), yieldNow);
      const { eightBit, nul, longestLine } = await scanBody(content, yieldNow);
      if (!eightBit && !nul && longestLine <= longestPlainLine) return { content: asText(content) };
      const { encoding, bytes } = await encodeSmaller(content, { text: true, yieldNow });
      if (encoding === 'base64') return { content: asBase64(bytes, false), transferEncoding: encoding };
      return { content: asText(bytes), transferEncoding: encoding };
    },
    fillIn: (composed) => fillIn(composed, placeholders, yieldNow),
  };
}

async function fillIn(composed: Buffer, placeholders: readonly Placeholder[], yieldNow?: YieldNow): Promise<Buffer> {
  if (placeholders.length === 0) return composed;
  const growth = placeholders.reduce((sum, placeholder) => sum + sizeOf(placeholder) - placeholder.written.length, 0);
  const whole = Buffer.allocUnsafeSlow(composed.length + growth);
  let from = 0;
  let to = 0;
  // nodemailer puts inline attachments before the others, whatever order they were given in.
  const places = placeholders.map((placeholder) => ({
    placeholder,
    at: composed.indexOf(placeholder.written, 0, 'latin1'),
  }));
  for (const { placeholder, at } of places.sort((one, other) => one.at - other.at)) {
    if (at < from) throw new Error('A large part has no place in the composed message');
    const { content, written, encode } = placeholder;
    to += composed.copy(whole, to, from, at);
    to = encode ? await writeBase64(whole, to, { content, yieldNow }) : to + content.copy(whole, to);
    from = at + written.length;
  }
  composed.copy(whole, to, from);
  return whole;
}

function sizeOf({ content: { length }, encode }: Placeholder): number {
  return encode ? Math.ceil(length / 3) * 4 + (Math.ceil(length / lineOctets) - 1) * 2 : length;
}

/** Writes base64 in lines of 76 characters; gives the index behind it. */
async function writeBase64(
  target: Buffer,
  at: number,
  { content, yieldNow }: { readonly content: Buffer; readonly yieldNow: YieldNow | undefined },
): Promise<number> {
  let end = at;
  for (let start = 0; start < content.length; start += sliceOctets) {
    if (start > 0) {
      await yieldNow?.();
      end = writeLineEnd(target, end);
    }
    end = writeLines(target, end, content.subarray(start, start + sliceOctets));
  }
  return end;
}

function writeLineEnd(target: Buffer, at: number): number {
  target[at] = CR;
  target[at + 1] = LF;
  return at + 2;
}

const characters = Buffer.from('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/', 'latin1');

/** Writes one slice octet by octet: a string of it would take as much memory again. */
function writeLines(target: Buffer, at: number, content: Buffer): number {
  const whole = content.length - (content.length % 3);
  let end = at;
  for (let from = 0; from < content.length; from += 3) {
    if (from > 0 && from % lineOctets === 0) end = writeLineEnd(target, end);
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
