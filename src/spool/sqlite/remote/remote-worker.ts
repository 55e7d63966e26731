// The spool's thread as another process has it: batches go over a Unix socket, results come back.

import { EventEmitter } from 'node:events';
import { connect, type Socket } from 'node:net';
import type { ReadBatch, WriteBatch } from '../sqlite-protocol.ts';
import type { SpoolPort } from '../sqlite-thread.ts';
import { readFrames, writeFrame } from './frames.ts';

/** A batch as it goes over the socket; its octets go beside it. */
export type SentBatch = Omit<WriteBatch, 'octets'> | ReadBatch;

/** Connects to the process that has the spool. Emits `message`, and `exit` when the connection ends. */
export class RemoteWorker extends EventEmitter implements SpoolPort {
  readonly #socket: Socket;

  /** @param path of the socket */
  constructor(path: string) {
    super();
    this.#socket = connect(path);
    this.#socket.on('error', (error) => this.emit('error', error));
    this.#socket.on('close', () => this.emit('exit'));
    readFrames(this.#socket, ({ value }) => {
      this.emit('message', value);
    });
  }

  postMessage(message: WriteBatch | ReadBatch | 'close'): void {
    if (message === 'close') this.#socket.end();
    else if (message.kind === 'reads') writeFrame(this.#socket, message satisfies SentBatch);
    else {
      const { octets, ...batch } = message;
      writeFrame(this.#socket, batch satisfies SentBatch, new Uint8Array(octets));
    }
  }
}
