// The main thread's connection to the spool's thread. Operations gather while the worker commits the last batch and are
// then sent together, so that many messages share one fsync, one message between threads and one allocation.

import type { Worker } from 'node:worker_threads';
import { type Clock, readClock } from '../../base/clock.ts';
import { type DatabaseFailure, errorOf } from '../../base/database/sqlite-errors.ts';
import { errorMessage, Unavailable } from '../../base/errors.ts';
import { type Grouped, GroupQueue } from '../core/group-queue.ts';
import type { AddOctets, EncodedAdd, ReadBatch, SpoolFault, WorkerMessage, WriteBatch } from './sqlite-protocol.ts';
import type {
  Behind,
  OperationOutcome,
  ReadCalls,
  ReadOperation,
  WriteCalls,
  WriteOperation,
  WriteResult,
} from './sqlite-store.ts';

/** Seconds that a client is told to wait where the store cannot be written or has no room. */
export const retryAfterSeconds = 30;

type Settle = (outcome: OperationOutcome) => void;

interface Waiting<Operation> extends Grouped {
  readonly operation: Operation;
  readonly settle: Settle;
}
interface Write extends Waiting<WriteBatch['operations'][number]> {
  /** The octets that are sent beside it. */
  readonly parts: AddOctets | readonly [];
}
type Question = Waiting<ReadOperation>;

/** What the thread was sent and has not answered. */
interface Sent<One> {
  readonly group: readonly One[];
  /** To be called once it has answered all of it. */
  readonly end: () => void;
}
const nothing = { group: [], end: () => undefined } as const;

/** Receives what the thread reports without being asked. */
export interface ThreadListener {
  /** A batch was committed; called after its operations have been answered. */
  readonly onWritten: (result: WriteResult) => void;
  /** The free octets of the fullest file system, why the spool cannot be written, if so, and what waits behind the commits. */
  readonly onHealth: (freeBytes: number, fault: SpoolFault | undefined, behind: Behind) => void;
  /** The thread had opened the database and then ended without `close`. */
  readonly onLost: (error: Error) => void;
}

/** Where operations are sent, and answers come from: the thread. */
export type SpoolPort = Pick<Worker, 'postMessage' | 'on'>;

/** The spool's thread, with the operations that it has not answered yet. */
export class SpoolThread {
  readonly #worker: SpoolPort;
  readonly #clock: Clock;
  readonly #listener: ThreadListener;
  readonly #writes = new GroupQueue<Write>([(group) => this.#sendWrites(group)], false);
  readonly #questions = new GroupQueue<Question>([(group) => this.#sendReads(group)], false);
  #writing: Sent<Write> = nothing;
  #asking: Sent<Question> = nothing;
  /** Why the thread no longer works; undefined while it does. */
  ended: Error | undefined;
  #closing = false;
  #isOpen = false;
  readonly #opening = Promise.withResolvers<void>();
  /** Resolves when the database is open; rejects when it cannot be opened or is of a newer version. */
  readonly opened = this.#opening.promise;

  /** Takes a thread that has just been started. */
  constructor(port: SpoolPort, { clock, listener }: { readonly clock: Clock; readonly listener: ThreadListener }) {
    this.#clock = clock;
    this.#listener = listener;
    this.#worker = port;
    this.#worker.on('message', (message: WorkerMessage) => this.#receive(message));
    this.#worker.on('error', (error) =>
      this.#break(new Error(`The spool's thread failed: ${errorMessage(error)}`, { cause: error })),
    );
    this.#worker.on('exit', () =>
      // Whoever waits is told to come again: the process ends, and so does its server if it is the only one.
      this.#break(
        this.#closing
          ? new Error('The spool is closed')
          : new Unavailable("The spool's thread ended unexpectedly", { reason: 'store', retryAfterSeconds }),
      ),
    );
  }

  /** Adds a message; resolves once it is durable. @throws Error of the store; Unavailable for a failure that may pass */
  async add(operation: Omit<EncodedAdd, 'lengths'>, octets: AddOctets): Promise<void> {
    await this.#write({ ...operation, lengths: octets.map((part) => part?.length ?? -1) }, octets);
  }

  /** As `Spool.expect`. */
  expect(change: 1 | -1): void {
    this.#writes.expect(change);
  }

  /** Changes the store. @throws as `add` does */
  async run<Kind extends Exclude<keyof WriteCalls, 'add'>>(
    kind: Kind,
    ...args: Parameters<WriteCalls[Kind]>
  ): Promise<ReturnType<WriteCalls[Kind]>> {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- each kind has its own arguments
    const operation = { kind, args } as Exclude<WriteOperation, { kind: 'add' }>;
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the worker answers each kind with its own result
    return (await this.#write(operation)) as ReturnType<WriteCalls[Kind]>;
  }

  /** Asks the store; it answers even while a batch of writes waits for a lock. @throws as `add` does */
  async ask<Kind extends keyof ReadCalls>(
    kind: Kind,
    ...args: Parameters<ReadCalls[Kind]>
  ): Promise<ReturnType<ReadCalls[Kind]>> {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- each kind has its own arguments
    const operation = { kind, args } as ReadOperation;
    const answer = await this.#promised((settle) =>
      this.#questions.put({ operation, settle, octets: 0, isPatient: false }),
    );
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the worker answers each kind with its own result
    return answer as ReturnType<ReadCalls[Kind]>;
  }

  /** Resolves once all operations are answered. */
  async quiet(): Promise<void> {
    // Each may get more to do while the other ends.
    while (!this.#writes.isQuiet || !this.#questions.isQuiet) {
      await Promise.all([this.#writes.quiet(), this.#questions.quiet()]);
    }
  }

  /** Ends the thread; all operations must have been answered (`quiet`). */
  async close(): Promise<void> {
    if (this.ended) return;
    this.#closing = true;
    const exited = new Promise<void>((resolve) => this.#worker.on('exit', () => resolve()));
    this.#worker.postMessage('close', []);
    await exited;
  }

  #write(operation: Write['operation'], parts: Write['parts'] = []): Promise<unknown> {
    const { kind } = operation;
    const octets = parts.reduce((sum, part) => sum + (part?.length ?? 0), 0);
    // No caller waits for an outcome to be written: sent with the next message it needs no sync of its own.
    const how = { octets, isPatient: kind === 'record', isAlone: kind === 'refusals' };
    return this.#promised((settle) => this.#writes.put({ ...how, operation, parts, settle }));
  }

  #promised(begin: (settle: Settle) => void): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (this.ended) {
        reject(this.ended);
        return;
      }
      begin((outcome) => {
        if ('value' in outcome) resolve(outcome.value);
        else reject(storeError(outcome.error));
      });
    });
  }

  #sendReads(group: readonly Question[]): Promise<void> {
    const batch: ReadBatch = { kind: 'reads', operations: group.map(({ operation }) => operation) };
    this.#worker.postMessage(batch, []);
    return new Promise((end) => (this.#asking = { group, end }));
  }

  #sendWrites(group: readonly Write[]): Promise<void> {
    return new Promise((end) => {
      this.#writing = { group, end };
      try {
        this.#post(group);
      } catch (thrown) {
        // Out of memory: nothing was sent.
        this.#writing = nothing;
        for (const { settle } of group) settle({ error: { message: errorMessage(thrown) } });
        end();
      }
    });
  }

  #post(group: readonly Write[]): void {
    // A buffer of its own; it need not be zeroed, since every octet is written.
    const packed = Buffer.allocUnsafeSlow(group.reduce((sum, { octets }) => sum + octets, 0));
    pack(group, packed);
    const operations = group.map(({ operation }) => operation);
    const batch: WriteBatch = { kind: 'writes', operations, octets: packed.buffer, now: readClock(this.#clock) };
    this.#worker.postMessage(batch, [packed.buffer]);
  }

  #receive(message: WorkerMessage): void {
    if (message.kind === 'read') this.#asking.group[message.index]?.settle(message.outcome);
    else if (message.kind === 'health') this.#listener.onHealth(message.freeBytes, message.fault, message.behind);
    else if (message.kind === 'allRead') {
      this.#asking.end();
      this.#asking = nothing;
    } else if (message.kind === 'written') {
      const { group, end } = this.#writing;
      this.#writing = nothing;
      for (const [index, outcome] of message.result.outcomes.entries()) group[index]?.settle(outcome);
      this.#listener.onWritten(message.result);
      end();
    } else {
      this.#isOpen = true;
      this.#opening.resolve();
    }
  }

  #break(error: Error): void {
    if (this.ended) return;
    this.ended = error;
    this.#opening.reject(error);
    const sent = [this.#writing, this.#asking];
    const waiting = [...this.#writes.giveUp(), ...this.#questions.giveUp()];
    // Promises that are already settled ignore this.
    const unavailable = error instanceof Unavailable ? error.reason : undefined;
    for (const { settle } of [...sent.flatMap(({ group }): readonly Waiting<unknown>[] => group), ...waiting])
      settle({ error: { message: error.message, unavailable } });
    for (const { end } of sent) end();
    if (this.#isOpen && !this.#closing) this.#listener.onLost(error);
  }
}

function pack(batch: readonly Write[], target: Buffer): void {
  let offset = 0;
  for (const { parts } of batch) {
    for (const part of parts) {
      if (part) target.set(part, offset);
      offset += part?.length ?? 0;
    }
  }
}

function storeError(failure: DatabaseFailure): Error {
  const { message, unavailable } = failure;
  return errorOf(
    unavailable === 'share' ? failure : { ...failure, message: `The spool failed: ${message}` },
    retryAfterSeconds,
  );
}
