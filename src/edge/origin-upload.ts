// Streams a request's body to the origin, as fast as the origin takes it and no faster.

import type { IncomingMessage } from 'node:http';
import type { OriginConnection } from './origin-connection.ts';

const chunkEnd = Buffer.from('\r\n');

/** One body on its way. */
export class OriginUpload {
  /** Whether all of it was handed to the connection. */
  done = false;
  /** Octets handed to the connection. */
  octets = 0;
  private readonly request: IncomingMessage;
  private readonly connection: OriginConnection;
  private readonly chunked: boolean;

  /** Begins; `chunked` frames the body so (RFC 9112 §7.1), else its length was announced. */
  constructor(request: IncomingMessage, connection: OriginConnection, chunked: boolean) {
    this.request = request;
    this.connection = connection;
    this.chunked = chunked;
    request.on('data', this.onData);
    request.once('end', this.onEnd);
  }

  /** Whether the client, not the origin, is the one that is waited for. */
  get waitsForClient(): boolean {
    return !this.done && !this.connection.socket.writableNeedDrain;
  }

  /** The origin takes more. */
  resume(): void {
    if (!this.done) this.request.resume();
  }

  /** Sends no more; what still comes from the client is thrown away. */
  stop(): void {
    this.request.off('data', this.onData);
    this.request.off('end', this.onEnd);
    this.request.resume();
  }

  private readonly onData = (piece: Buffer): void => {
    this.octets += piece.length;
    const { connection } = this;
    if (connection.writeFailed || connection.socket.destroyed) return;
    connection.touch();
    if (!this.write(piece)) this.request.pause();
  };

  private readonly onEnd = (): void => {
    this.done = true;
    const { connection } = this;
    if (connection.writeFailed || connection.socket.destroyed) return;
    connection.touch();
    if (this.chunked) connection.socket.write('0\r\n\r\n', 'latin1');
  };

  private write(piece: Buffer): boolean {
    const { socket } = this.connection;
    if (!this.chunked) return socket.write(piece);
    socket.cork();
    socket.write(`${piece.length.toString(16)}\r\n`, 'latin1');
    socket.write(piece);
    const more = socket.write(chunkEnd);
    socket.uncork();
    return more;
  }
}
