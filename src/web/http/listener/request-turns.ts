// Begins the requests of a connection one after another (D66, RFC 9112 §9.3.2). node:http begins every request of a piece at
// once, however far the answers are, and its answer to an upgrade behind them is lost or written between theirs. So this file
// feeds its parser: never further than to the end of one request, and the next octet only once the answer to that request has
// ended. Octets behind the request wait; from 16 KiB on the socket is not read meanwhile.

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { type BodyEnd, bodyEndOf, HeadEnd } from './request-end.ts';

type Phase =
  /** Before or within the head of a request. */
  | 'head'
  /** Within the body of a request. */
  | 'body'
  /** The request is whole, its answer is not. */
  | 'answer'
  /** No further request is begun. */
  | 'over';

type Feed = (piece?: Buffer) => void;

const nothing = Buffer.alloc(0);
/** Octets that wait at which a connection is not read any more; the piece that reaches it is kept whole. */
const mostWaitingOctets = 16_384;

/** Removes the listener that node:http has just added to a socket, and gives it, so that this file calls it. */
function takeListener(socket: Socket, event: 'data' | 'end'): Feed {
  // The last listener is the one of node:http: for 'end' the socket has listeners of its own before it.
  const listener = socket.listeners(event).at(-1);
  if (typeof listener !== 'function') throw new Error(`node:http does not listen for '${event}'`);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- listeners() says no more than Function
  const feed = listener as Feed;
  socket.off(event, feed);
  return feed;
}

/** The requests of one connection, in turn. */
export class RequestTurns {
  readonly #socket: Socket;
  readonly #parse: Feed;
  readonly #parseEnd: Feed;
  readonly #head = new HeadEnd();
  #body: BodyEnd | undefined;
  #phase: Phase = 'head';
  /** The response that has the turn; absent between two requests. */
  #response: ServerResponse | undefined;
  /** Handles the request whose head the parser is judging. */
  #handle: (() => void) | undefined;
  /** Octets that have arrived and are not parsed yet. */
  #waiting: Buffer = nothing;
  #ended = false;

  /** Takes over the reading of a connection. @throws Error where node:http has not added its listeners as known versions do */
  constructor(socket: Socket) {
    this.#socket = socket;
    // The order matters: once there is a listener of ours, octets come as events instead of going to the parser in native code.
    this.#parse = takeListener(socket, 'data');
    this.#parseEnd = takeListener(socket, 'end');
    socket.on('data', this.#onData);
    socket.on('end', this.#onEnd);
  }

  /** Gives a request the turn until `response` closes; false where the connection must be cut. @param handle called once its head is judged */
  begin(request: IncomingMessage, response: ServerResponse, handle: () => void): boolean {
    if (this.#phase !== 'head' || this.#response) return false;
    this.#response = response;
    this.#handle = handle;
    this.#body = bodyEndOf(request.headers);
    this.#phase = this.#body ? 'body' : 'answer';
    response.on('close', this.#onAnswered);
    return true;
  }

  /** Stops reading, because the connection leaves HTTP. Gives the octets that came behind the request. */
  leave(): Buffer {
    this.#phase = 'over';
    this.#socket.off('data', this.#onData);
    this.#socket.off('end', this.#onEnd);
    const rest = this.#waiting;
    this.#waiting = nothing;
    return rest;
  }

  /** Begins no further request: whatever still arrives is thrown away. */
  stop(): void {
    this.#phase = 'over';
    this.#waiting = nothing;
    if (this.#socket.isPaused()) this.#socket.resume();
  }

  /** Whether the parser has told of a request and not yet judged all of its head. */
  isJudging(): boolean {
    return this.#handle !== undefined;
  }

  /** Whether the request line of the latest head is one of HTTP. */
  isHttp(): boolean {
    return this.#head.isHttp();
  }

  /** Octets that have arrived and belong to no request that was begun. */
  waitingOctets(): number {
    return this.#waiting.length;
  }

  readonly #onData = (piece: Buffer): void => {
    if (this.#phase === 'over') return;
    const waits = this.#waiting.length > 0;
    this.#waiting = waits ? Buffer.concat([this.#waiting, piece]) : piece;
    if (waits) this.#pauseIfFull();
    else this.#read();
  };

  readonly #onEnd = (): void => {
    this.#ended = true;
    // RFC 9112 §9.6: who has ended its side may still read. Half a request can never become whole, so the parser is told.
    if (this.#phase === 'body' || (this.#phase === 'head' && this.#waiting.length === 0)) this.#parseEnd();
  };

  readonly #onAnswered = (): void => {
    const response = this.#response;
    this.#response = undefined;
    if (this.#phase !== 'answer' || !response) return;
    // RFC 9112 §9.6: nothing behind the last request is processed.
    if (!response.shouldKeepAlive || !this.#socket.writable) this.stop();
    else if (this.#waiting.length === 0 && !this.#ended) this.#phase = 'head';
    // Other connections come first: of many requests that a client sends at once, each turn of the event loop answers one.
    else setImmediate(this.#next);
  };

  readonly #next = (): void => {
    if (this.#phase !== 'answer' || this.#socket.destroyed) return;
    this.#phase = 'head';
    this.#read();
    if (this.#ended && this.#phaseNow() === 'head') this.#parseEnd();
  };

  /** Reads on where little waits: behind a few octets the end of the client's side would not be seen. */
  #pauseIfFull(): void {
    if (this.#waiting.length >= mostWaitingOctets) this.#socket.pause();
  }

  /** Gives the phase after a call that may have changed it; the compiler would take it for unchanged. */
  #phaseNow(): Phase {
    return this.#phase;
  }

  /** Parses the octets that wait, up to the end of one request. */
  #read(): void {
    for (let phase = this.#phase; this.#waiting.length > 0 && (phase === 'head' || phase === 'body'); ) {
      const piece = this.#waiting;
      const end = (phase === 'body' ? this.#body?.take(piece) : this.#head.take(piece)) ?? piece.length;
      const isAll = end === piece.length;
      this.#waiting = isAll ? nothing : piece.subarray(end);
      this.#parse(isAll ? piece : piece.subarray(0, end));
      const handle = this.#handle;
      this.#handle = undefined;
      if (this.#phaseNow() !== 'over') handle?.();
      phase = this.#phaseNow();
      if (phase === 'body' && this.#body?.done === true) phase = this.#endBody();
    }
    if (this.#phase === 'over') return;
    if (this.#waiting.length > 0) this.#pauseIfFull();
    else if (this.#phase !== 'body' && this.#socket.isPaused()) this.#socket.resume();
  }

  /** Notes that the body is whole. Where the answer has ended already, the next request is due. */
  #endBody(): Phase {
    this.#body = undefined;
    this.#phase = this.#response ? 'answer' : this.#socket.writable ? 'head' : 'over';
    return this.#phase;
  }
}
