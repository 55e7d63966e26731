// TLS over a TCP connection whose handle stays ours: it can be reset, and its end is told from that of TLS (RFC 8446 §6.1, D84).

import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { setImmediate } from 'node:timers';
import type { TLSSocket } from 'node:tls';

type Done = (error?: Error | null) => void;

/** The code of the error of a TLS connection whose peer was cut off: it closed without saying so by close_notify. */
const cutOffCode = 'ERR_TLS_NO_CLOSE_NOTIFY';

/** Carries TLS records over a stream of our own: laid on a socket, TLS writes past it, and a reset below ends the process. */
export class TlsCarrier extends Duplex {
  readonly #raw: Socket;
  #watched: TLSSocket | undefined;

  /** @param raw connected and without a reader; half-open allowed */
  constructor(raw: Socket) {
    // One octet: the socket is read from only while nothing waits here, so that its end comes behind all of it.
    super({ allowHalfOpen: true, readableHighWaterMark: 1 });
    this.#raw = raw;
    raw.on('data', (chunk: Buffer) => {
      if (!this.push(chunk)) raw.pause();
    });
    raw.once('end', () => this.#judgeEnd());
    raw.on('error', (error) => this.destroy(error));
    raw.once('close', () => {
      // One that has ended both ways is closed by itself, while its last records may still wait for their reader.
      if (!raw.readableEnded || !raw.writableFinished) this.destroy();
    });
    raw.pause();
  }

  /** From now on an end of TCP before that of TLS is an error of `stream`, of the code {@link cutOffCode}. */
  mindEndOf(stream: TLSSocket): void {
    this.#watched = stream;
  }

  override _read(): void {
    this.#raw.resume();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: Done): void {
    this.#raw.write(chunk, done);
  }

  override _writev(chunks: readonly { readonly chunk: Buffer }[], done: Done): void {
    this.#raw.cork();
    for (const { chunk } of chunks.slice(0, -1)) this.#raw.write(chunk);
    this.#raw.write(chunks.at(-1)?.chunk ?? Buffer.alloc(0), done);
    this.#raw.uncork();
  }

  override _final(done: Done): void {
    this.#raw.end(() => done());
  }

  override _destroy(error: Error | null, done: Done): void {
    this.#raw.destroy();
    done(error);
  }

  /** All records have been taken by TLS: what its reader has not got yet waits there, the end of TLS behind it. */
  #judgeEnd(): void {
    const stream = this.#watched;
    if (!stream || stream.readableEnded || stream.destroyed) {
      this.push(null);
      return;
    }
    if (!stream.readableFlowing) {
      stream.once('resume', () => this.#judgeEnd());
      return;
    }
    setImmediate(() => {
      if (stream.readableLength > 0 || !stream.readableFlowing) return this.#judgeEnd();
      if (stream.readableEnded || stream.destroyed) return void this.push(null);
      const error: NodeJS.ErrnoException = new Error('The connection was cut off: it closed without close_notify');
      error.code = cutOffCode;
      stream.destroy(error);
    });
  }
}
