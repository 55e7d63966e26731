// Serves one spool in SQLite to several processes. All their operations go through one thread, and those that wait at the same
// time share a commit, whoever sent them. A database that several processes write takes turns instead, a sync for each.

import { createServer, type Server, type Socket } from 'node:net';
import type { Clock } from '../../../base/clock.ts';
import { errorMessage } from '../../../base/errors.ts';
import { BodyFiles } from '../../body-files.ts';
import { receivedLengths } from '../../journal/listed-journal.ts';
import { totalOf } from '../../tally.ts';
import type { SpoolFault } from '../file/sqlite-health.ts';
import {
  type OperationOutcome,
  type SpoolWorkerData,
  type WorkerMessage,
  type WriteBatch,
  type WriteResult,
} from '../sqlite-protocol.ts';
import { SpoolThread } from '../sqlite-thread.ts';
import { readFrames, writeFrame } from './frames.ts';
import type { SentBatch } from './remote-worker.ts';

/** What the server is made from. */
export interface SpoolServerParts {
  readonly data: SpoolWorkerData;
  readonly clock: Clock;
  /** Called once, when the thread has ended by itself: nothing can be kept any more. */
  readonly onLost: (error: Error) => void;
}

type Operation = WriteBatch['operations'][number];

/** A spool that several processes share. */
export class SpoolServer {
  readonly #thread: SpoolThread;
  readonly #bodies: BodyFiles;
  readonly #clock: Clock;
  readonly #server: Server;
  readonly #clients = new Map<Socket, number>();
  /** Messages that were removed, until a process is told. */
  #removed: WriteResult['removed'] = [];
  #health: Extract<WorkerMessage, { kind: 'health' }> = { kind: 'health', freeBytes: Number.NaN };
  #numbers: number;

  constructor({ data, clock, onLost }: SpoolServerParts) {
    this.#clock = clock;
    // Not from 1: a server that ran before may still end, and its processes hold claims under their numbers.
    this.#numbers = clock.now();
    this.#bodies = new BodyFiles(data.bodies);
    this.#thread = new SpoolThread(data, {
      clock,
      listener: {
        onWritten: ({ orphanedBodies, removed }) => {
          // One that cannot be deleted is removed by the next start.
          for (const id of orphanedBodies) void this.#bodies.remove(id).catch(() => undefined);
          this.#removed = [...this.#removed, ...removed];
        },
        onHealth: (freeBytes, fault) => this.#tellHealth(freeBytes, fault),
        onLost,
      },
    });
    this.#server = createServer((socket) => this.#serve(socket));
  }

  /**
   * Opens the spool, takes back what the processes before held, and listens.
   * @param path of the socket; only the owner can connect
   * @throws Error where the database or the socket cannot be opened
   */
  async open(path: string): Promise<void> {
    await this.#thread.opened();
    // Nobody is connected: what is claimed was claimed by processes that are gone, and body files without a row are left over.
    await this.#thread.run({ kind: 'recover', keepBodies: [], now: this.#clock.now() });
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      const before = process.umask(0o177);
      try {
        // `listen` creates the file before it returns.
        this.#server.listen(path, resolve);
      } finally {
        process.umask(before);
      }
    });
  }

  /** Takes no more connections, and ends the thread once the last one has ended. */
  async close(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
    await this.#thread.quiet();
    await this.#thread.close();
  }

  #tellHealth(freeBytes: number, fault: SpoolFault | undefined): void {
    this.#health = { kind: 'health', freeBytes, ...(fault ? { fault } : {}) };
    for (const client of this.#clients.keys()) writeFrame(client, this.#health);
  }

  #serve(socket: Socket): void {
    this.#numbers += 1;
    const holder = this.#numbers;
    this.#clients.set(socket, holder);
    socket.on('error', () => socket.destroy());
    socket.once('close', () => {
      this.#clients.delete(socket);
      // What it has sent before is run before this.
      void this.#thread.writeOutcome({ kind: 'releaseHolder', holder, now: this.#clock.now() });
    });
    readFrames(socket, ({ value, octets }) => {
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the process is of this very program
      void this.#run(socket, { batch: value as SentBatch, octets, holder });
    });
    writeFrame(socket, { kind: 'open' } satisfies WorkerMessage);
    writeFrame(socket, this.#health);
  }

  async #run(
    socket: Socket,
    { batch, octets, holder }: { readonly batch: SentBatch; readonly octets: Buffer; readonly holder: number },
  ): Promise<void> {
    const answer = (message: WorkerMessage): void => writeFrame(socket, message);
    if (batch.kind === 'reads') {
      const asked = batch.operations.map(async (operation, index) => {
        answer({ kind: 'read', index, outcome: await this.#thread.readOutcome(operation) });
      });
      await Promise.all(asked);
      answer({ kind: 'allRead' });
      return;
    }
    let offset = 0;
    const take = (length: number): Buffer => {
      offset += length;
      return octets.subarray(offset - length, offset);
    };
    const outcomes = await Promise.all(batch.operations.map((operation) => this.#write(operation, holder, take)));
    const removed = this.#removed;
    this.#removed = [];
    answer({ kind: 'written', result: { outcomes, orphanedBodies: [], removed, isBusy: false } });
  }

  #write(operation: Operation, holder: number, take: (length: number) => Buffer): Promise<OperationOutcome> {
    if (operation.kind === 'packed') {
      const head = take(operation.headLength);
      const body = operation.bodyLength < 0 ? undefined : take(operation.bodyLength);
      const { journal } = operation;
      const received = journal && receivedLengths(journal).map((length) => (length < 0 ? undefined : take(length)));
      return this.#thread.writeOutcome({ ...operation, holder }, { head, body, ...(received ? { received } : {}) });
    }
    if (operation.kind === 'claimDue') return this.#thread.writeOutcome({ ...operation, holder });
    return operation.kind === 'recover' ? this.#queued() : this.#thread.writeOutcome(operation);
  }

  /** What `recover` gives: the others hold what they hold, and what dead ones held was released. */
  async #queued(): Promise<OperationOutcome> {
    try {
      return { value: totalOf(await this.#thread.ask({ kind: 'tallies' })).messages.queued };
    } catch (thrown) {
      return { error: { message: errorMessage(thrown) } };
    }
  }
}
