// Reads SMTP replies from the octets of a connection (RFC 5321 §4.2, RFC 2034, RFC 3463).

import { ownText } from '../../base/net/own-text.ts';
import type { SmtpReply } from '../../mail/smtp-reply.ts';

/** A next hop that sends a longer line does not speak SMTP. RFC 5321 §4.5.3.1.5 allows 512. */
const maxLineOctets = 4096;
/** The octets of all lines of one reply, at most. */
const maxReplyOctets = 64 * 1024;
/** The characters of a reply's text that are kept. */
const maxTextLength = 1000;

const enhancedStatus = /^([245]\.\d{1,3}\.\d{1,3})(?: |$)/;

/** The character `0`. */
const zero = 0x30;

function codeOf(line: string): number {
  const [hundreds, tens, ones] = [line.charCodeAt(0) - zero, line.charCodeAt(1) - zero, line.charCodeAt(2) - zero];
  const isCode = hundreds >= 2 && hundreds <= 5 && tens >= 0 && tens <= 9 && ones >= 0 && ones <= 9;
  return isCode ? hundreds * 100 + tens * 10 + ones : 0;
}

/** Control characters in a next hop's text could change the terminal that shows the queue or the log. */
const controls = /[\0-\x08\x0b-\x1f\x7f-\x9f]/g;

/** The text of a reply as it is kept, without control characters; it must not keep in memory all that was read with it. */
function wordsOf(lines: readonly string[]): string {
  return ownText(decoded(lines.join('\n')).replace(controls, '?').slice(0, maxTextLength));
}

/** Decodes text beyond ASCII as UTF-8 where it is valid (RFC 6531 §3.7.4.2). */
function decoded(latin1: string): string {
  for (let index = 0; index < latin1.length; index += 1) {
    if (latin1.charCodeAt(index) > 0x7f) return Buffer.from(latin1, 'latin1').toString('utf8');
  }
  return latin1;
}

/** Makes a reply of what stands behind `250 ` or `250-` in its lines, without the enhanced status that each repeats. */
function replyOf(code: number, lines: readonly string[]): SmtpReply {
  const enhanced = enhancedStatus.exec(lines[0] ?? '')?.[1];
  // RFC 2034 §4: the class repeats the code's first digit; otherwise it is ordinary text.
  if (enhanced === undefined || enhanced.charCodeAt(0) - zero !== Math.floor(code / 100)) {
    return { code, text: wordsOf(lines) };
  }
  const words = lines.map((line) =>
    line.startsWith(enhanced) && (line.length === enhanced.length || line[enhanced.length] === ' ')
      ? line.slice(enhanced.length + 1)
      : line,
  );
  return { code, enhanced, text: wordsOf(words) };
}

/** Collects octets and gives replies from them. */
export class ReplyReader {
  /** What is wrong with the octets; undefined while nothing is. After a fault there are no more replies. */
  fault: string | undefined;
  #text = '';
  #offset = 0;
  #code = 0;
  #lines: string[] = [];
  #octets = 0;

  /** Takes octets as they arrive, in pieces of any size. */
  push(chunk: Buffer): void {
    const text = chunk.toString('latin1');
    this.#text = this.#offset < this.#text.length ? this.#text.slice(this.#offset) + text : text;
    this.#offset = 0;
  }

  /** Octets that no reply has used yet. After the reply to STARTTLS there must be none. */
  get pending(): number {
    return this.#text.length - this.#offset + this.#octets;
  }

  /** The next whole reply, or undefined until more octets come. */
  next(): SmtpReply | undefined {
    while (this.fault === undefined) {
      const end = this.#text.indexOf('\n', this.#offset);
      if (end < 0) {
        if (this.#text.length - this.#offset > maxLineOctets) this.fault = 'A line of the reply is too long';
        return undefined;
      }
      const line = this.#text.slice(this.#offset, this.#text.charCodeAt(end - 1) === 13 ? end - 1 : end);
      this.#octets += end + 1 - this.#offset;
      this.#offset = end + 1;
      const reply = this.#takeLine(line);
      if (reply) return reply;
    }
    return undefined;
  }

  #takeLine(line: string): SmtpReply | undefined {
    const code = codeOf(line);
    const mark = line[3] ?? ' ';
    if (code === 0 || (mark !== ' ' && mark !== '-') || (this.#lines.length > 0 && code !== this.#code)) {
      this.fault = `Not a reply: "${wordsOf([line.slice(0, 100)])}"`;
      return undefined;
    }
    if (this.#octets > maxReplyOctets || line.length > maxLineOctets) {
      this.fault = 'The reply is too long';
      return undefined;
    }
    this.#code = code;
    this.#lines.push(line.slice(4));
    if (mark === '-') return undefined;
    const lines = this.#lines;
    this.#lines = [];
    this.#octets = 0;
    return replyOf(code, lines);
  }
}
