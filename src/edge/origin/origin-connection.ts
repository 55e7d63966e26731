// One connection to an origin: a socket, the parser of what comes from it, and the exchange that uses it now.

import { Socket } from 'node:net';
import type { OriginTarget } from './origin-target.ts';
import { ReplyParser, type ReplySink } from './reply-parser.ts';

/** The exchange that a connection serves. */
export interface ConnectionUser extends ReplySink {
  /** The reply is whole, and no octet followed it. */
  onWhole(): void;
  /** The connection ended before the reply was whole. Without an error, the origin closed it in order. */
  onBroken(error: Error | undefined): void;
  /** All octets of a piece were read, and the reply goes on. */
  onPiece(): void;
  /** Written octets have left, and more may be written. */
  onDrain(): void;
  /** Nothing happened for the response timeout. */
  onStalled(): void;
}

/** The callback by which a stream is told that a write is done. */
type Written = (error?: Error | null) => void;

/** A connection to an origin. The pool makes it. */
export class OriginConnection {
  readonly socket: Socket;
  readonly target: OriginTarget;
  requests = 0;
  /** Until when it may be used again, milliseconds since 1970; meaningful while idle. */
  idleUntil = 0;
  /** Whether a write failed: the origin takes no more octets, but those that it has sent are still read. */
  writeFailed = false;
  readonly #parser = new ReplyParser();
  readonly #timer: NodeJS.Timeout;
  readonly #onGone: (connection: OriginConnection) => void;
  #user: ConnectionUser | undefined;
  #error: Error | undefined;

  constructor(parts: {
    readonly socket: Socket;
    readonly target: OriginTarget;
    readonly timeoutMs: number;
    /** Called once, when the socket is closed or the connection detached. */
    readonly onGone: (connection: OriginConnection) => void;
  }) {
    this.socket = parts.socket;
    this.target = parts.target;
    this.#onGone = parts.onGone;
    this.#timer = setTimeout(this.#onTimer, parts.timeoutMs).unref();
    this.socket.on('data', this.#onData);
    this.socket.on('end', this.#onEnd);
    this.socket.on('error', this.#onError);
    this.socket.on('close', this.#onClose);
    this.socket.on('drain', this.#onDrain);
  }

  /** Whether the connection can take a request. */
  get usable(): boolean {
    return !this.socket.destroyed && !this.socket.readableEnded && !this.writeFailed && this.#user === undefined;
  }

  get replyBegun(): boolean {
    return this.#parser.begun;
  }

  /** Sends a request's head; the reply goes to `user`. @param body whether one follows; octets written right after leave with the head */
  begin(
    user: ConnectionUser,
    head: { readonly text: string; readonly forHead: boolean; readonly body: boolean },
  ): void {
    this.#user = user;
    this.requests += 1;
    this.#parser.expect(user, head.forHead);
    this.#timer.refresh();
    if (!head.body) {
      this.socket.write(head.text, 'latin1');
      return;
    }
    this.#surviveFailedWrites();
    this.socket.cork();
    this.socket.write(head.text, 'latin1');
    setImmediate(() => this.socket.uncork());
  }

  /** Begins the response timeout anew, because something happened. */
  touch(): void {
    this.#timer.refresh();
  }

  /** Ends the use by the present user, whose functions are no longer called. */
  leave(): void {
    this.#user = undefined;
    this.#parser.rest();
    if (this.socket.isPaused()) this.socket.resume();
  }

  destroy(): void {
    this.#user = undefined;
    this.socket.destroy();
  }

  /** Hands the bare socket out; from here on the connection does nothing. */
  detach(): Socket {
    this.#user = undefined;
    clearTimeout(this.#timer);
    this.socket.off('data', this.#onData);
    this.socket.off('end', this.#onEnd);
    this.socket.off('close', this.#onClose);
    this.socket.off('drain', this.#onDrain);
    this.#onGone(this);
    return this.socket;
  }

  /** Only notes a failed write: Node would throw away the answer (413) of an origin that answers early and closes. */
  #surviveFailedWrites(): void {
    const { socket } = this;
    const survive =
      (callback: Written): Written =>
      (error) => {
        if (error) this.writeFailed = true;
        callback(null);
      };
    const plain = Socket.prototype;
    Object.assign(socket, {
      _write: (chunk: unknown, encoding: BufferEncoding, callback: Written) =>
        plain['_write'].call(socket, chunk, encoding, survive(callback)),
      _writev: (chunks: { chunk: unknown; encoding: BufferEncoding }[], callback: Written) =>
        plain['_writev']?.call(socket, chunks, survive(callback)),
    });
  }

  readonly #onData = (chunk: Buffer): void => {
    const user = this.#user;
    if (!user) {
      // No request is under way: these octets would be taken for the answer to a later one.
      this.socket.destroy();
      return;
    }
    this.#parser.feed(chunk);
    if (this.#user !== user) return;
    if (this.#parser.atEnd) user.onWhole();
    else user.onPiece();
  };

  readonly #onEnd = (): void => {
    const user = this.#user;
    if (user && this.#parser.close()) user.onWhole();
    else user?.onBroken(this.#error);
    this.destroy();
  };

  readonly #onError = (error: Error): void => {
    this.#error ??= error;
  };

  readonly #onClose = (): void => {
    clearTimeout(this.#timer);
    this.#onGone(this);
    const user = this.#user;
    this.#user = undefined;
    user?.onBroken(this.#error);
  };

  readonly #onDrain = (): void => this.#user?.onDrain();

  readonly #onTimer = (): void => {
    if (!this.#user) return;
    this.#timer.refresh();
    this.#user.onStalled();
  };
}
