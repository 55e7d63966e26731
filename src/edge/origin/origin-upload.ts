// Streams a request's body to the origin as fast as the origin takes it, and notices a client that sends too slowly.

import type { IncomingMessage } from 'node:http';
import { BodyPace } from '../../base/body-pace.ts';
import type { MonotonicClock } from '../../base/clock.ts';
import type { OriginConnection } from './origin-pool.ts';

const chunkEnd = Buffer.from('\r\n');
/** The least that a client has to send, on the average of a minute in which octets come (D66). */
const leastOctetsPerSecond = 100;

/** What an upload is made with. */
export interface UploadParts {
  readonly request: IncomingMessage;
  readonly connection: OriginConnection;
  /** Whether the body is sent in chunks (RFC 9112 §7.1); if not, its length was announced. */
  readonly chunked: boolean;
  readonly clock: MonotonicClock;
  /** Called after each minute that brought less than 100 octets a second while the origin took all that came. */
  readonly onSlow: () => void;
}

/** One body on its way. */
export class OriginUpload {
  /** Whether all of it was handed to the connection. */
  done = false;
  /** Octets handed to the connection. */
  octets = 0;
  readonly #parts: UploadParts;
  readonly #pace = new BodyPace(leastOctetsPerSecond);

  constructor(parts: UploadParts) {
    this.#parts = parts;
    const { request } = parts;
    request.on('data', this.#onData);
    request.once('end', this.#onEnd);
  }

  /** Whether the upload waits for the client, and not for the origin. */
  get waitsForClient(): boolean {
    return !this.done && !this.#parts.connection.socket.writableNeedDrain;
  }

  /** Goes on, because the origin takes more. */
  resume(): void {
    if (!this.done) this.#parts.request.resume();
  }

  /** Stops sending; octets that still come from the client are thrown away. */
  stop(): void {
    const { request } = this.#parts;
    request.off('data', this.#onData);
    request.off('end', this.#onEnd);
    request.resume();
  }

  readonly #onData = (piece: Buffer): void => {
    const { connection, clock, request, onSlow } = this.#parts;
    const now = clock.monotonic();
    const isTooSlow = this.#pace.isTooSlow(now);
    this.octets += piece.length;
    this.#pace.came(this.octets, now);
    if (connection.writeFailed || connection.socket.destroyed) return;
    connection.touch();
    if (!this.#write(piece)) {
      this.#pace.forget();
      request.pause();
    }
    if (isTooSlow) onSlow();
  };

  readonly #onEnd = (): void => {
    this.done = true;
    const { connection, chunked } = this.#parts;
    if (connection.writeFailed || connection.socket.destroyed) return;
    connection.touch();
    if (chunked) connection.socket.write('0\r\n\r\n', 'latin1');
  };

  #write(piece: Buffer): boolean {
    const { chunked, connection } = this.#parts;
    const { socket } = connection;
    if (!chunked) return socket.write(piece);
    socket.cork();
    socket.write(`${piece.length.toString(16)}\r\n`, 'latin1');
    socket.write(piece);
    const more = socket.write(chunkEnd);
    socket.uncork();
    return more;
  }
}
