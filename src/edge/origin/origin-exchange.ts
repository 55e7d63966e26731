// One request to an origin and its reply (D66): connecting, one retry, streaming both ways, and the end of each failure.

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Clock } from '../../base/clock.ts';
import { freeOctets } from '../../base/free-octets.ts';
import type { Logger } from '../../base/log.ts';
import { resetConnection } from '../../base/net/reset-connection.ts';
import { lingerMs } from '../../web/http/listener/whole-response.ts';
import {
  beginDial,
  brokenConnection,
  type Dial,
  type Dialling,
  type DialParts,
  type OriginFailure,
} from './dial-origin.ts';
import type { Forwarded, ReplyHead, RequestHead } from './message-heads.ts';
import type { ConnectionUser, OriginConnection, OriginPool } from './origin-pool.ts';
import type { OriginTarget, originTargets } from './origin-target.ts';
import { OriginUpload } from './origin-upload.ts';

/** What every exchange is made with. */
export interface ExchangeParts {
  readonly pool: OriginPool;
  readonly dial: DialParts;
  readonly clock: Clock;
  readonly targetOf: ReturnType<typeof originTargets>;
  readonly log: Logger;
  /** Called once, when the client has its answer or is gone. */
  readonly onClosed: (exchange: OriginExchange) => void;
}

/** A request, and the ways by which the client gets its answer. */
export interface Asked {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly forwarded: Forwarded;
  readonly head: RequestHead;
  /** Takes over after a 101; absent where no upgrade was asked for. */
  readonly onSwitched?: (head: ReplyHead, origin: Socket) => void;
  /** Takes the octets that follow a 101 in the same piece. */
  readonly onEarly?: (piece: Buffer) => void;
}

// RFC 9110 §9.2.2.
const idempotent: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE']);

/** Smaller pieces of a body are left to the garbage collector. */
const freedOctets = 16_384;

/** What is done once a piece of a body has left: the memory of a large one is freed, of which nobody reads the rest. */
function whenLeft({ buffer, byteOffset, length }: Buffer): (() => void) | undefined {
  const isLast = byteOffset + length === buffer.byteLength;
  return length >= freedOctets && isLast ? () => freeOctets(Buffer.from(buffer)) : undefined;
}

/** One exchange. */
export class OriginExchange implements ConnectionUser, Dialling {
  readonly #parts: ExchangeParts;
  readonly #asked: Asked;
  readonly #target: OriginTarget;
  #dial: Dial | undefined;
  #connection: OriginConnection | undefined;
  #upload: OriginUpload | undefined;
  #reply: ReplyHead | undefined;
  /** Whether the reply's head went to the client. Until then a failure can still be answered. */
  #headSent = false;
  #retried = false;
  #continued = false;
  #paused = false;
  /** Whether the exchange is over: answered, failed or given up. */
  #over = false;

  constructor(parts: ExchangeParts, asked: Asked) {
    this.#parts = parts;
    this.#asked = asked;
    this.#target = parts.targetOf(asked.forwarded.zone, asked.request.headers.host);
  }

  begin(): void {
    // A request to upgrade gets a new connection, since a connection that leaves HTTP cannot be shared afterwards.
    const kept = this.#asked.onSwitched ? undefined : this.#parts.pool.take(this.#target.key);
    if (kept) this.#use(kept);
    else this.#connect();
  }

  /** Must be called when the client is gone or has its whole answer. */
  clientClosed(): void {
    if (!this.#over) {
      this.#over = true;
      this.#dial?.abort();
      this.#connection?.destroy();
      this.#upload?.stop();
    }
    this.#parts.onClosed(this);
  }

  /** Cuts the exchange if it is still under way. */
  abort(): void {
    this.#asked.request.socket.destroy();
  }

  onConnected(socket: Socket): void {
    this.#dial = undefined;
    this.#use(this.#parts.pool.add(socket, this.#target));
  }

  onDialFailed(failure: OriginFailure): void {
    this.#dial = undefined;
    this.#fail(failure);
  }

  onInterim(head: ReplyHead): void {
    if (this.#over) return;
    if (head.status === 101) {
      this.#switchProtocols(head);
      return;
    }
    const { request, response } = this.#asked;
    if (request.httpVersionMinor === 0 || response.destroyed) return;
    if (head.status !== 100) {
      // RFC 9110 §15.2: informational replies are passed on. Node before 24.18 cannot do that.
      if (typeof response.writeInformation === 'function') response.writeInformation(head.status, head.fields);
    } else if (this.#asked.head.expectsContinue && !this.#continued) {
      this.#continued = true;
      response.writeContinue();
    }
  }

  onHead(head: ReplyHead): void {
    this.#reply = head;
    head.fields.push('Ray-ID', this.#asked.forwarded.rayId);
  }

  onBody(piece: Buffer, last: boolean): void {
    const { response, onEarly } = this.#asked;
    if (this.#reply === undefined) {
      onEarly?.(piece);
      return;
    }
    this.#sendHead(this.#reply);
    if (last) {
      response.end(piece, whenLeft(piece));
      return;
    }
    this.#connection?.touch();
    if (response.write(piece, whenLeft(piece)) || this.#paused) return;
    this.#paused = true;
    this.#connection?.socket.pause();
    // A client that takes nothing is cut by its listener, and `clientClosed` follows.
    response.once('drain', () => this.#clientDrained());
  }

  onEnd(): void {
    if (this.#reply) this.#sendHead(this.#reply);
    this.#asked.response.end();
  }

  onPiece(): void {
    // The head leaves with the body's beginning if both came in one piece, and else alone: of an event stream nothing else may come.
    if (this.#headSent || this.#over || !this.#reply) return;
    this.#sendHead(this.#reply);
    this.#asked.response.flushHeaders();
  }

  onWhole(): void {
    const connection = this.#connection;
    const reply = this.#reply;
    const upload = this.#upload;
    if (this.#over || !connection || !reply) return;
    this.#over = true;
    this.#connection = undefined;
    if (reply.persistent && (!upload || upload.done)) this.#parts.pool.keep(connection, reply.idleSeconds);
    else connection.destroy();
    if (upload && !upload.done) this.#linger();
  }

  onBad(what: string): void {
    // The reply was whole and the client has its answer: a later failure concerns only the connection.
    if (this.#asked.response.writableEnded) this.#leaveOrigin();
    else this.#fail({ code: 520, cause: what });
  }

  onBroken(error: Error | undefined): void {
    const connection = this.#connection;
    if (this.#over) return;
    if (connection && this.#mayRetry(connection)) {
      this.#retried = true;
      this.#connection = undefined;
      connection.destroy();
      this.#connect();
      return;
    }
    const mayBeHandshake = connection?.target.secure === true && connection.requests === 1 && !connection.replyBegun;
    this.#fail(brokenConnection(error, mayBeHandshake));
  }

  onDrain(): void {
    this.#upload?.resume();
  }

  onStalled(): void {
    // The origin is silent only because the client reads slowly (D66).
    if (this.#paused) return;
    const upload = this.#upload;
    const owesContinue = this.#asked.head.expectsContinue && !this.#continued && upload?.octets === 0;
    if (upload?.waitsForClient === true && !owesContinue) {
      this.#giveUpUpload();
      return;
    }
    this.#fail({ code: 524, cause: this.#reply ? 'an idle body' : 'no head within the time' });
  }

  #sendHead({ status, reason, fields }: ReplyHead): void {
    const { response } = this.#asked;
    if (this.#headSent || response.destroyed) return;
    this.#headSent = true;
    response.writeHead(status, reason, fields);
  }

  #switchProtocols(head: ReplyHead): void {
    const connection = this.#connection;
    const { onSwitched } = this.#asked;
    if (!connection || !onSwitched || head.upgrade.toLowerCase() !== 'websocket') {
      this.#fail({ code: 520, cause: 'a change of protocol that was not asked for' });
      return;
    }
    this.#over = true;
    this.#connection = undefined;
    onSwitched(head, connection.detach());
  }

  #connect(): void {
    const begun = beginDial(this.#target, this.#parts.dial, this);
    if ('code' in begun) this.#fail(begun, true);
    else this.#dial = begun;
  }

  #use(connection: OriginConnection): void {
    this.#connection = connection;
    const { request, head } = this.#asked;
    const body = head.body !== 'none';
    connection.begin(this, { text: head.text, forHead: request.method === 'HEAD', body });
    if (!body) return;
    const { clock } = this.#parts;
    const chunked = head.body === 'chunked';
    // Once the answer has begun, client and origin may be as slow as they like.
    const onSlow = (): void => {
      if (!this.#over && !this.#headSent) this.#giveUpUpload();
    };
    this.#upload = new OriginUpload({ request, connection, chunked, clock, onSlow });
  }

  /** D66: a request is retried once, if the connection had served others before and no octet of a reply has come. */
  #mayRetry(connection: OriginConnection): boolean {
    const { request, head } = this.#asked;
    return (
      !this.#retried &&
      !connection.replyBegun &&
      connection.requests > 1 &&
      head.body === 'none' &&
      idempotent.has(request.method ?? '')
    );
  }

  #clientDrained(): void {
    this.#paused = false;
    const connection = this.#connection;
    connection?.touch();
    connection?.socket.resume();
  }

  #leaveOrigin(): void {
    this.#over = true;
    this.#dial?.abort();
    this.#connection?.destroy();
    this.#connection = undefined;
  }

  /** Answers 408 where too little of the body came in time; the connection ends with the answer (D66, RFC 9110 §15.5.9). */
  #giveUpUpload(): void {
    this.#leaveOrigin();
    const { forwarded, response } = this.#asked;
    const { log } = this.#parts;
    log.info({ ray: forwarded.rayId, zone: forwarded.zone.name, begun: this.#headSent }, 'upload stalled');
    if (this.#headSent) this.#cut();
    else if (!response.destroyed) {
      response.shouldKeepAlive = false;
      forwarded.refuse(408);
      this.#linger();
    }
  }

  #fail(failure: OriginFailure, fromMemory = false): void {
    if (this.#over) return;
    this.#leaveOrigin();
    const { forwarded, response } = this.#asked;
    const { code, cause } = failure;
    const begun = this.#headSent;
    if (!fromMemory) {
      this.#parts.log.info({ ray: forwarded.rayId, zone: forwarded.zone.name, code, cause, begun }, 'origin failed');
    }
    if (begun) {
      this.#cut();
      return;
    }
    if (response.destroyed) return;
    forwarded.fail(code, fromMemory);
    if (this.#asked.head.body !== 'none') this.#linger();
  }

  /** D66: the head has been sent, so the connection is closed without completing the body, and nothing is appended. */
  #cut(): void {
    const { response, request, forwarded } = this.#asked;
    const delimitedByClose = !response.chunkedEncoding && this.#reply?.framing !== 'length';
    // In the next tick, so that octets that came in one piece with the fault can still leave.
    process.nextTick(() => {
      // Where the end of the connection marks the end of the body, only a reset tells the client that the body is not whole.
      const { socket } = request;
      if (delimitedByClose && forwarded.scheme === 'http' && response.socket)
        resetConnection({ stream: socket, raw: socket });
      else response.destroy();
    });
  }

  /** Throws away an unwanted body for a while, so that the client can read its answer, and then cuts the connection. */
  #linger(): void {
    const { request, response } = this.#asked;
    this.#upload?.stop();
    request.resume();
    const cut = (): void => {
      if (request.complete) return;
      const timer = setTimeout(() => {
        if (!request.complete) request.socket.destroy();
      }, lingerMs).unref();
      request.once('close', () => clearTimeout(timer));
    };
    if (response.writableFinished) cut();
    else response.once('finish', cut);
  }
}
