// A client connection for relaying (RFC 5321). Where PIPELINING is offered, MAIL, RCPT and DATA are sent in one write, with the content of
// the message before (RFC 2920 §3.1), so that a message costs one round trip.

import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { errorMessage } from '../../base/errors.ts';
import type { SmtpReply } from '../../mail/smtp-reply.ts';
import { type OutgoingMail, type Session, sizeOf } from './envelope-commands.ts';
import { HandshakeFailure, type TlsFault } from './handshake-failure.ts';
import { handshake, type ReadySession } from './smtp-handshake.ts';
import { ReplyReader } from './smtp-reply-reader.ts';
import type { SmtpClientOptions } from './smtp-tls.ts';
import { SmtpTransaction, stageTimeouts, stuffedContent, type TransactionEnd } from './smtp-transaction.ts';

export type { OutgoingMail } from './envelope-commands.ts';
export type { TlsFault } from './handshake-failure.ts';
export type { SmtpClientOptions } from './smtp-tls.ts';
export type { RecipientResult, TransactionEnd } from './smtp-transaction.ts';

/** Content up to this size is sent in one buffer, which is cheaper than several writes. */
const oneWriteOctets = 64 * 1024;
/** How long a connection may take to close after QUIT, in milliseconds. */
const quitGrace = 2000;

type EndListener = (end: TransactionEnd) => void;

/** Why there is no connection, in the form of a reply. */
export interface HopRefusal {
  readonly refused: SmtpReply;
  /** What the hosts that were tried said themselves, each that answered. */
  readonly said: readonly SmtpReply[];
  /** TLS failed with every host, and nothing else. */
  readonly tlsFault?: TlsFault;
  /** It failed because the connection was lost, which says nothing of the next time. */
  readonly wasLost?: boolean;
}

interface Live {
  readonly transaction: SmtpTransaction;
  readonly onEnd: EndListener;
}

/** An open session with a next hop, for one transaction after another. */
export class SmtpConnection {
  /** Why the connection was closed; undefined where `quit` closed it. */
  closedBy: SmtpReply | undefined;
  /** How many transactions ended by the next hop's replies. */
  served = 0;
  readonly session: Session;
  /** When it takes no more messages, in milliseconds of `performance.now()`. */
  readonly lastsUntil: number;
  readonly localAddress: string;
  /** Called when the connection can take a transaction, which may be before the last one has ended. */
  onVacant: () => void = () => undefined;
  /** Called once, when the connection can take no more transactions. All that were begun have ended by then. */
  onClosed: () => void = () => undefined;

  readonly #socket: Socket;
  readonly #options: SmtpClientOptions;
  readonly #reader = new ReplyReader();
  #live: Live[] = [];
  #vacant = true;
  #resetFirst = false;
  #closed = false;
  #quitting = false;
  #socketError: unknown;
  #deadline = 0;
  #timer: NodeJS.Timeout | undefined;
  #timerAt = 0;

  /** Takes over a socket that is ready for MAIL. */
  constructor(ready: ReadySession, options: SmtpClientOptions) {
    this.session = ready;
    this.lastsUntil = performance.now() + (options.lastsMs ?? Number.POSITIVE_INFINITY);
    this.#socket = ready.socket;
    this.localAddress = ready.socket.localAddress ?? '';
    this.#options = options;
    this.#socket.on('data', (chunk: Buffer) => this.#receive(chunk));
    this.#socket.on('error', (error) => {
      this.#socketError = error;
    });
    this.#socket.on('close', () => this.#lost());
    this.#arm();
  }

  /** The server at the other end, for people: `host:port`, with its address where the name alone does not tell. */
  get peer(): string {
    const { host, address, port } = this.#options;
    return `${host}${address === undefined ? '' : `[${address}]`}:${port}`;
  }

  /** The connection can take a transaction now. */
  get isVacant(): boolean {
    return this.#vacant && !this.#closed;
  }

  /** No transaction is under way. */
  get isIdle(): boolean {
    return this.#live.length === 0;
  }

  /** Begins a transaction; only while vacant. @param onEnd called exactly once, possibly before this returns */
  begin(mail: OutgoingMail, onEnd: EndListener): void {
    const transaction = new SmtpTransaction(mail, this.session, performance.now());
    if (transaction.isRefused) {
      return onEnd(transaction.fail({ code: 451, enhanced: '4.3.0', text: 'Nothing could be sent' }, false));
    }
    this.#vacant = false;
    this.#live.push({ transaction, onEnd });
    this.#socket.write(transaction.begin(this.#resetFirst), 'utf8');
    this.#resetFirst = false;
    if (this.#live.length === 1) this.#arm();
  }

  /** Closes the connection with QUIT, once a transaction under way has ended. */
  quit(): void {
    if (this.#quitting || this.#closed) return;
    this.#quitting = true;
    this.#vacant = false;
    if (this.#live.length === 0) this.#sayGoodbye();
  }

  /** Closes the connection at once; a transaction under way is deferred with this reply. */
  destroy(reply: SmtpReply): void {
    this.#close(reply);
  }

  #sayGoodbye(): void {
    this.#socket.end('QUIT\r\n');
    setTimeout(() => this.#socket.destroy(), quitGrace).unref();
    this.#close({ code: 451, enhanced: '4.4.2', text: 'The connection is closed' }, true);
  }

  #receive(chunk: Buffer): void {
    this.#reader.push(chunk);
    while (!this.#closed) {
      const reply = this.#reader.next();
      if (!reply) break;
      this.#take(reply);
    }
    if (this.#closed) return;
    if (this.#reader.fault !== undefined) {
      return this.#close({ code: 451, enhanced: '4.5.0', text: this.#reader.fault });
    }
    this.#arm();
  }

  #take(reply: SmtpReply): void {
    const live = this.#live[0];
    if (!live) {
      // An unexpected reply: a goodbye (421), or a server out of step. Nothing more is sent over this connection.
      return this.#close(reply);
    }
    const step = live.transaction.take(reply);
    switch (step.kind) {
      case 'wait':
        return;
      case 'send':
        this.#socket.write(step.commands, 'utf8');
        return;
      case 'content': {
        // What is there already answers nothing that was sent.
        const early = this.#reader.next();
        return early ? this.#take(early) : this.#sendContent(live.transaction);
      }
      case 'end':
        return this.#end(live, step.end);
      case 'abandon':
        return this.#close(step.reply);
    }
  }

  #end(live: Live, end: TransactionEnd): void {
    this.#live.shift();
    this.served += 1;
    if (live.transaction.leavesOpen) this.#resetFirst = true;
    live.onEnd(end);
    if (this.#closed || this.#live.length > 0) return;
    if (this.#quitting) return this.#sayGoodbye();
    this.#becomeVacant();
  }

  #becomeVacant(): void {
    if (performance.now() >= this.lastsUntil) return this.quit();
    this.#vacant = true;
    this.onVacant();
  }

  #sendContent(transaction: SmtpTransaction): void {
    const { mail } = transaction;
    const parts = [...mail.head, mail.body];
    if (sizeOf(mail) <= oneWriteOctets) {
      this.#socket.cork();
      this.#socket.write(Buffer.concat([...stuffedContent(parts)]));
      this.#contentSent(transaction);
      return this.#socket.uncork();
    }
    const pieces = stuffedContent(parts);
    const pump = (): void => {
      for (;;) {
        if (this.#closed) return;
        const piece = pieces.next();
        if (piece.done) break;
        const flushed = this.#socket.write(piece.value);
        this.#arm();
        if (flushed) continue;
        this.#socket.once('drain', pump);
        return;
      }
      this.#contentSent(transaction);
      this.#arm();
    };
    pump();
  }

  #contentSent(transaction: SmtpTransaction): void {
    transaction.contentSent();
    // RFC 2920 §3.1: content may begin a group, with the next transaction's commands behind it.
    if (this.session.capabilities.pipelining && !this.#quitting) this.#becomeVacant();
  }

  /** Sets the time by which the next hop must have replied. */
  #arm(): void {
    const { timeouts } = this.#options;
    const transaction = this.#live[0]?.transaction;
    const now = performance.now();
    this.#deadline = transaction
      ? Math.min(now + timeouts[stageTimeouts[transaction.stage]], transaction.startedAt + timeouts.transaction)
      : now + timeouts.idle;
    // A timer that rings early enough is left running: setting one for each command costs more than the command.
    if (this.#timer && this.#timerAt <= this.#deadline) return;
    this.#startTimer(now);
  }

  #startTimer(now: number): void {
    clearTimeout(this.#timer);
    this.#timerAt = this.#deadline;
    this.#timer = setTimeout(() => this.#ring(), Math.max(1, Math.ceil(this.#deadline - now)));
  }

  #ring(): void {
    this.#timer = undefined;
    const now = performance.now();
    if (now < this.#deadline) return this.#startTimer(now);
    const stage = this.#live[0]?.transaction.stage;
    if (stage === undefined) return this.quit();
    const what = stage === 'content' ? 'the next hop to take the content' : `the reply to ${stage}`;
    this.#close({ code: 451, enhanced: '4.4.2', text: `Timed out waiting for ${what}` });
  }

  #lost(): void {
    const stage = this.#live[0]?.transaction.stage ?? 'MAIL';
    const why = this.#socketError === undefined ? '' : `: ${errorMessage(this.#socketError)}`;
    this.#close({ code: 451, enhanced: '4.4.2', text: `The connection was lost at ${stage}${why}` });
  }

  #close(reply: SmtpReply, polite = false): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#vacant = false;
    clearTimeout(this.#timer);
    if (!polite) {
      this.closedBy = reply;
      this.#socket.destroy();
    }
    const abandoned = this.#live;
    this.#live = [];
    for (const [index, { transaction, onEnd }] of abandoned.entries()) {
      onEnd(transaction.fail(reply, this.served + index > 0));
    }
    this.onClosed();
  }
}

/** One next hop: a smarthost route has one, a route by MX has one for each set of MX hosts. */
export interface NextHop {
  /** Names it: messages for hops of the same key share connections and budgets. */
  readonly key: string;
  /** For people: what the queue commands and metrics show, such as `default (mail.example:587)` or `mx (mx1.example, mx2.example)`. */
  readonly label: string;
  /** Opens a connection to the best host that takes one; resolves to the refusal if none does. Never rejects for a fault of the other side. */
  connect(request: { readonly domain: string; readonly signal: AbortSignal }): Promise<SmtpConnection | HopRefusal>;
}

/** Connects to a next hop. @param signal breaks it off @returns the ready connection, or in the form of a reply why there is none */
export async function connectSmtp(
  options: SmtpClientOptions,
  signal?: AbortSignal,
): Promise<{ readonly connection: SmtpConnection } | HopRefusal> {
  const { port, address: host = options.host, localAddress } = options;
  const from = localAddress === undefined ? {} : { localAddress, family: isIP(localAddress) };
  const socket = connectTcp({ host, port, noDelay: true, ...from });
  // Others wait for the socket and handle its errors; this listener keeps an error from ending the process meanwhile.
  socket.on('error', () => undefined);
  const breakOff = (): void => void socket.destroy();
  signal?.addEventListener('abort', breakOff);
  try {
    const ready = await handshake(socket, options);
    return { connection: new SmtpConnection(ready, options) };
  } catch (thrown) {
    socket.destroy();
    if (thrown instanceof HandshakeFailure) {
      const { reply: refused, tlsFault, wasLost } = thrown;
      const said = thrown.said ? [thrown.said] : [];
      return tlsFault === undefined ? { refused, said } : { refused, said, tlsFault, wasLost };
    }
    throw new Error(`Cannot speak to ${options.host}:${options.port}: ${errorMessage(thrown)}`, { cause: thrown });
  } finally {
    signal?.removeEventListener('abort', breakOff);
  }
}
