// The connections to origins, those in use and those kept for the next request (RFC 9112 §9.3): a socket, the parser of what comes from it,
// and the exchange that uses it now.

import { Socket } from 'node:net';
import type { MonotonicClock } from '../../base/clock.ts';
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

  /** @param onGone called once, when the socket is closed or the connection detached */
  constructor(socket: Socket, target: OriginTarget, timeoutMs: number, onGone: (gone: OriginConnection) => void) {
    this.socket = socket;
    this.target = target;
    this.#onGone = onGone;
    this.#timer = setTimeout(this.#onTimer, timeoutMs).unref();
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

/** How long an idle connection is kept, unless the origin says that it closes it sooner. */
const idleSeconds = 15;
/** The most idle connections to one target. */
const idlePerTarget = 128;
const sweepMs = 1000;

/** The connections to all origins. */
export class OriginPool {
  readonly #clock: MonotonicClock;
  readonly #timeoutMs: number;
  readonly #all = new Set<OriginConnection>();
  readonly #idle = new Map<string, OriginConnection[]>();
  #sweeper: NodeJS.Timeout | undefined;
  #closing = false;

  /** `timeoutMs`: milliseconds of silence after which a connection calls `onStalled` of its user. */
  constructor(clock: MonotonicClock, timeoutMs: number) {
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
  }

  /** Takes the connection to a target that was used last, which is the one most likely to be alive. */
  take(key: string): OriginConnection | undefined {
    const idle = this.#idle.get(key);
    if (!idle) return undefined;
    const now = this.#clock.monotonic();
    for (let connection = idle.pop(); connection; connection = idle.pop()) {
      if (connection.usable && connection.idleUntil > now) return connection;
      connection.destroy();
    }
    this.#idle.delete(key);
    return undefined;
  }

  /** Adds a socket that was just connected. */
  add(socket: Socket, target: OriginTarget): OriginConnection {
    const connection = new OriginConnection(socket, target, this.#timeoutMs, this.#onGone);
    this.#all.add(connection);
    return connection;
  }

  /** Keeps a connection for the next request. @param hintSeconds for which the origin says that it keeps it; one less is used */
  keep(connection: OriginConnection, hintSeconds: number | undefined): void {
    connection.leave();
    const seconds = hintSeconds === undefined ? idleSeconds : Math.min(idleSeconds, hintSeconds - 1);
    const { key } = connection.target;
    const idle = this.#idle.get(key) ?? [];
    if (this.#closing || seconds <= 0 || !connection.usable || idle.length >= idlePerTarget) {
      connection.destroy();
      return;
    }
    if (idle.length === 0) this.#idle.set(key, idle);
    connection.idleUntil = this.#clock.monotonic() + seconds * 1000;
    idle.push(connection);
    this.#sweeper ??= setInterval(this.#sweep, sweepMs).unref();
  }

  /** Closes idle connections now, and the others as soon as they are idle. */
  closeIdle(): void {
    this.#closing = true;
    this.#stopSweeping();
    for (const idle of this.#idle.values()) for (const connection of idle) connection.destroy();
    this.#idle.clear();
  }

  closeAll(): void {
    this.closeIdle();
    for (const connection of this.#all) connection.socket.destroy();
  }

  #stopSweeping(): void {
    clearInterval(this.#sweeper);
    this.#sweeper = undefined;
  }

  readonly #sweep = (): void => {
    const now = this.#clock.monotonic();
    for (const [key, idle] of this.#idle) {
      const kept = idle.filter((connection) => {
        if (connection.usable && connection.idleUntil > now) return true;
        connection.destroy();
        return false;
      });
      if (kept.length > 0) this.#idle.set(key, kept);
      else this.#idle.delete(key);
    }
    if (this.#idle.size === 0) this.#stopSweeping();
  };

  readonly #onGone = (connection: OriginConnection): unknown => this.#all.delete(connection);
}
