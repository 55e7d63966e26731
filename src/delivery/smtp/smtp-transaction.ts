// One transaction as the client sees it: which reply belongs to which command, and the result for each recipient (RFC 5321
// §3.3, RFC 2920). It holds no socket: it is given replies and says what to send next.

import type { SmtpReply } from '../../mail/smtp-reply.ts';
import { type EnvelopeCommands, envelopeCommands, type OutgoingMail, type Session } from './envelope-commands.ts';

/** The result of a transaction for one recipient. */
export interface RecipientResult {
  readonly kind: 'delivered' | 'deferred' | 'failed';
  readonly reply: SmtpReply;
  /** Of a delivery: `final` into our own mailbox, `passed-on` to a hop that offers DSN; absent: to one that sends no reports. */
  readonly handover?: 'final' | 'passed-on';
}

/** How a transaction ended. */
export interface TransactionEnd {
  /** One for each recipient, in order. */
  readonly results: readonly RecipientResult[];
  /** The next hop answered nothing, on a connection that had served before: another connection may try at once. */
  readonly untouched: boolean;
}

/** What the connection has to do next. */
type NextStep =
  /** Wait for the next reply. */
  | { readonly kind: 'wait' }
  | { readonly kind: 'send'; readonly commands: string }
  /** Send the content and the end of data. */
  | { readonly kind: 'content' }
  | { readonly kind: 'end'; readonly end: TransactionEnd }
  /** The next hop broke the protocol, or is about to close (421). */
  | { readonly kind: 'abandon'; readonly reply: SmtpReply };

/** The reply that a transaction waits for; it decides the timeout, and the text for a lost connection. */
type Stage = 'RSET' | 'MAIL' | 'RCPT' | 'DATA' | 'content' | 'end of data';

/** RFC 5321 §4.3.2: the first digit decides. */
function resultOf(reply: SmtpReply): RecipientResult {
  if (reply.code < 300) return { kind: 'delivered', reply };
  return { kind: reply.code < 500 ? 'deferred' : 'failed', reply };
}

const wait: NextStep = { kind: 'wait' };

/** A transaction from MAIL to the reply to its content. */
export class SmtpTransaction {
  readonly mail: OutgoingMail;
  /** performance.now() at its start. */
  readonly startedAt: number;
  stage: Stage = 'MAIL';
  readonly #commands: Exclude<EnvelopeCommands, { refused: SmtpReply }> | undefined;
  readonly #pipelining: boolean;
  readonly #passesOn: boolean;
  readonly #results: (RecipientResult | undefined)[];
  /** Indexes of the recipients whose RCPT is sent, in order. */
  readonly #asked: number[] = [];
  #answered = 0;
  #accepted: number[] = [];
  #mailAccepted = false;
  #touched = false;

  constructor(mail: OutgoingMail, session: Session, startedAt: number) {
    this.mail = mail;
    this.startedAt = startedAt;
    this.#pipelining = session.capabilities.pipelining;
    this.#passesOn = session.capabilities.dsn;
    this.#results = mail.recipients.map(() => undefined);
    const commands = envelopeCommands(mail, session);
    if ('refused' in commands) {
      this.#fillUnfinished(resultOf(commands.refused));
      return;
    }
    this.#commands = commands;
    for (const [index, recipient] of commands.recipients.entries()) {
      if ('refused' in recipient) this.#results[index] = resultOf(recipient.refused);
      else this.#asked.push(index);
    }
  }

  /** The next hop cannot carry the message, so nothing may be sent; `fail` ends the transaction. */
  get isRefused(): boolean {
    return this.#commands === undefined || this.#asked.length === 0;
  }

  /** The next hop still has an open transaction: RSET must come before the next MAIL. */
  get leavesOpen(): boolean {
    return this.#mailAccepted && this.stage !== 'end of data';
  }

  /** Starts the transaction; gives what to send first. */
  begin(resetFirst: boolean): string {
    const reset = resetFirst ? 'RSET\r\n' : '';
    this.stage = resetFirst ? 'RSET' : 'MAIL';
    const mail = this.#commands?.mail ?? '';
    if (!this.#pipelining) return reset || mail;
    let text = reset + mail;
    for (const index of this.#asked) text += this.#rcpt(index);
    // RFC 2920 §3.1: DATA comes last in its group.
    return `${text}DATA\r\n`;
  }

  contentSent(): void {
    this.stage = 'end of data';
  }

  take(reply: SmtpReply): NextStep {
    // RFC 5321 §3.8: 421 may answer any command, and the next hop then closes the connection.
    if (reply.code === 421) return { kind: 'abandon', reply };
    switch (this.stage) {
      case 'RSET':
        this.stage = 'MAIL';
        return this.#pipelining ? wait : { kind: 'send', commands: this.#commands?.mail ?? '' };
      case 'MAIL':
        return this.#takeMail(reply);
      case 'RCPT':
        return this.#takeRcpt(reply);
      case 'DATA':
        return this.#takeData(reply);
      case 'content':
        return this.#takeEarly(reply);
      case 'end of data':
        return this.#takeFinal(reply);
    }
    return wait;
  }

  /** Ends the transaction with this result for all unfinished recipients; earlier refusals of the next hop stay. */
  fail(reply: SmtpReply, connectionServedBefore: boolean): TransactionEnd {
    this.#fillUnfinished({ kind: 'deferred', reply });
    return this.#end(connectionServedBefore && !this.#touched && !this.isRefused);
  }

  #takeMail(reply: SmtpReply): NextStep {
    this.#touched = true;
    if (reply.code >= 300 && reply.code < 400) return unexpected('MAIL', reply);
    this.#mailAccepted = reply.code < 300;
    // Some servers say of the sender what others say of a recipient who is not there; the words keep them apart (D51).
    const told = reply.code < 500 ? reply : { ...reply, text: `MAIL FROM is refused: ${reply.text}` };
    if (!this.#mailAccepted) this.#fillUnfinished(resultOf(told));
    if (this.#pipelining) {
      this.stage = 'RCPT';
      return wait;
    }
    if (!this.#mailAccepted) return { kind: 'end', end: this.#end(false) };
    this.stage = 'RCPT';
    return { kind: 'send', commands: this.#rcpt(this.#asked[0] ?? 0) };
  }

  #takeRcpt(reply: SmtpReply): NextStep {
    if (reply.code >= 300 && reply.code < 400) return unexpected('RCPT', reply);
    const index = this.#asked[this.#answered] ?? 0;
    this.#answered += 1;
    if (this.#mailAccepted) {
      if (reply.code < 300) this.#accepted.push(index);
      else this.#results[index] = rcptResult(reply);
    }
    const following = this.#asked[this.#answered];
    if (following !== undefined) return this.#pipelining ? wait : { kind: 'send', commands: this.#rcpt(following) };
    if (!this.#pipelining && this.#accepted.length === 0) return { kind: 'end', end: this.#end(false) };
    this.stage = 'DATA';
    return this.#pipelining ? wait : { kind: 'send', commands: 'DATA\r\n' };
  }

  #takeData(reply: SmtpReply): NextStep {
    if (reply.code < 300) return unexpected('DATA', reply);
    if (reply.code < 400) {
      if (this.#accepted.length > 0) {
        this.stage = 'content';
        return { kind: 'content' };
      }
      // RFC 2920 §3.1: 354 came although no recipient was accepted. A lone dot ends the data, whatever the answer is.
      this.stage = 'end of data';
      return { kind: 'send', commands: '.\r\n' };
    }
    this.#finishAccepted(reply);
    return { kind: 'end', end: this.#end(false) };
  }

  /** Gives those who were accepted the result of a reply about all of them. */
  #finishAccepted(reply: SmtpReply): void {
    const { length } = this.#accepted;
    // Of several it is not known whom a refusal is about; the words keep them from being taken for unknown (D51).
    const isForSeveral = reply.code >= 500 && length > 1;
    const told = isForSeveral ? { ...reply, text: `Refused for ${length} recipients at once: ${reply.text}` } : reply;
    const result = resultOf(told);
    for (const index of this.#accepted) {
      const passedOn = result.kind === 'delivered' && this.#passesOn && this.#asksFor(index);
      this.#results[index] = passedOn ? { ...result, handover: 'passed-on' } : result;
    }
  }

  /** Takes a reply while the content is being sent: it can only be a refusal, and the connection is then out of step. */
  #takeEarly(reply: SmtpReply): NextStep {
    if (reply.code < 400) return unexpected('content', reply);
    this.#finishAccepted(reply);
    return { kind: 'abandon', reply };
  }

  #takeFinal(reply: SmtpReply): NextStep {
    if (reply.code >= 300 && reply.code < 400) return unexpected('the end of data', reply);
    this.#finishAccepted(reply);
    return { kind: 'end', end: this.#end(false) };
  }

  /** The sender said NOTIFY for a recipient. */
  #asksFor(index: number): boolean {
    const { dsn, recipients } = this.mail;
    return dsn?.recipients?.get(recipients[index] ?? '')?.notify !== undefined;
  }

  #rcpt(index: number): string {
    const recipient = this.#commands?.recipients[index];
    return recipient && 'command' in recipient ? recipient.command : '';
  }

  #fillUnfinished(result: RecipientResult): void {
    for (const [index, known] of this.#results.entries()) this.#results[index] = known ?? result;
  }

  #end(untouched: boolean): TransactionEnd {
    return { results: this.#results.filter((result) => result !== undefined), untouched };
  }
}

/** The result of a reply to RCPT. 552 is temporary (RFC 5321 §4.5.3.1.10) unless its enhanced status says otherwise. */
function rcptResult(reply: SmtpReply): RecipientResult {
  const tooMany = reply.code === 552 && (reply.enhanced === undefined || reply.enhanced.endsWith('.5.3'));
  return tooMany ? { kind: 'deferred', reply } : resultOf(reply);
}

function unexpected(command: string, reply: SmtpReply): NextStep {
  const text = `Unexpected reply to ${command}: ${reply.code} ${reply.text}`;
  return { kind: 'abandon', reply: { code: 451, enhanced: '4.5.0', text } };
}

const dot = 0x2e;
const lineFeed = 0x0a;
const carriageReturn = 0x0d;
const lineFeedDot = Buffer.from('\n.');
const endAfterLine = Buffer.from('.\r\n');
const endAfterText = Buffer.from('\r\n.\r\n');

/** Content is given in pieces of about this many octets, so that a large body is never in memory twice. */
const pieceOctets = 256 * 1024;

/** Copies a piece with its dots doubled; `hits` are the offsets of the dots, ascending. */
function doubled(piece: Buffer, hits: readonly number[]): Buffer {
  const stuffed = Buffer.allocUnsafe(piece.length + hits.length);
  let from = 0;
  let to = 0;
  for (const hit of hits) {
    piece.copy(stuffed, to, from, hit);
    to += hit - from;
    stuffed[to] = dot;
    to += 1;
    from = hit;
  }
  piece.copy(stuffed, to, from);
  return stuffed;
}

function stuffPiece(piece: Buffer, atLineStart: boolean): Buffer {
  const hits: number[] = atLineStart && piece[0] === dot ? [0] : [];
  for (let at = piece.indexOf(lineFeedDot); at >= 0; at = piece.indexOf(lineFeedDot, at + 2)) hits.push(at + 1);
  return hits.length === 0 ? piece : doubled(piece, hits);
}

/**
 * Gives a message's content in pieces, dots doubled, then the end of data (RFC 5321 §4.5.2). A piece with no dot at the
 * beginning of a line is not copied. A message that does not end with CRLF gets
 * one, because the end of data requires it.
 * @param parts the message's octets, CRLF throughout, cut anywhere
 */
export function* stuffedContent(parts: readonly Buffer[]): Generator<Buffer, void, undefined> {
  let last = lineFeed;
  let beforeLast = carriageReturn;
  for (const part of parts) {
    for (let start = 0; start < part.length; start += pieceOctets) {
      const piece = part.subarray(start, start + pieceOctets);
      yield stuffPiece(piece, last === lineFeed);
      beforeLast = piece.length > 1 ? (piece[piece.length - 2] ?? 0) : last;
      last = piece[piece.length - 1] ?? 0;
    }
  }
  // A lone LF is no line end: the dot behind it would not be the end of data.
  yield last === lineFeed && beforeLast === carriageReturn ? endAfterLine : endAfterText;
}

/** Waiting times, in milliseconds. */
export type SmtpTimeouts = Readonly<typeof defaultTimeouts>;

const minute = 60_000;

/** The waiting times of RFC 5321 §4.5.3.2. */
export const defaultTimeouts = {
  connect: minute / 2,
  /** RFC 5321 §4.5.3.2.1. */
  greeting: 5 * minute,
  /** For EHLO, for STARTTLS with its TLS handshake, and for AUTH: each. */
  handshake: 5 * minute,
  /** RFC 5321 §4.5.3.2.2. */
  mail: 5 * minute,
  /** RFC 5321 §4.5.3.2.3. */
  rcpt: 5 * minute,
  /** RFC 5321 §4.5.3.2.4. */
  data: 2 * minute,
  /** How long none of the content may go out; RFC 5321 §4.5.3.2.5. */
  dataBlock: 3 * minute,
  /** RFC 5321 §4.5.3.2.6. */
  endOfData: 10 * minute,
  /** A whole transaction; it must be shorter than the spool's lease, or another process could send the message too. */
  transaction: 45 * minute,
  /** How long a connection without work stays open. */
  idle: minute / 4,
};

/** The timeout of each stage. */
export const stageTimeouts = {
  RSET: 'mail',
  MAIL: 'mail',
  RCPT: 'rcpt',
  DATA: 'data',
  content: 'dataBlock',
  'end of data': 'endOfData',
} as const satisfies Record<Stage, keyof SmtpTimeouts>;
