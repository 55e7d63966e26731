// The main thread's connection to the spool's thread. Operations gather while the worker commits the last batch and are
// then sent together, so that many messages share one fsync, one message between threads and one allocation.

import { Worker } from 'node:worker_threads';
import { type Clock, readClock } from '../../base/clock.ts';
import type { DatabaseFailure } from '../../base/database/sqlite-errors.ts';
import { errorMessage, Unavailable } from '../../base/errors.ts';
import type { Behind } from '../search/follow-pace.ts';
import type { SpoolFault } from './file/sqlite-health.ts';
import type {
  EncodedAdd,
  OperationOutcome,
  ReadBatch,
  ReadCalls,
  ReadOperation,
  SpoolWorkerData,
  WorkerMessage,
  WriteBatch,
  WriteCalls,
  WriteOperation,
  WriteResult,
} from './sqlite-protocol.ts';

/** Operations of one batch at most, so that no caller waits long for its commit. */
const maxBatchOperations = 1024;
/** Octets of messages in one batch at most; the first operation of a batch may have more. */
const maxBatchOctets = 16 * 1024 * 1024;
/** How long outcomes wait for a message to be sent with. A crash in that time sends the mail of these outcomes again. */
const outcomePatienceMs = 5;
/** Seconds that a client is told to wait where the store cannot be written or has no room. */
export const retryAfterSeconds = 30;

/** The octets of an add, sent beside its operation; `body` is undefined where it is in a file, `received` is the journal's. */
type AddOctets = {
  readonly head: Buffer;
  readonly body: Buffer | undefined;
  readonly received?: readonly (Uint8Array | undefined)[];
};

type Settle = (outcome: OperationOutcome) => void;

interface Waiting {
  readonly operation: WriteBatch['operations'][number];
  readonly octets: AddOctets | undefined;
  readonly settle: Settle;
}

interface Asked {
  readonly operation: ReadOperation;
  readonly settle: Settle;
}

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

/** Starts the thread. */
export function startSpoolThread(data: SpoolWorkerData): SpoolPort {
  return new Worker(new URL('./sqlite-worker.ts', import.meta.url), { workerData: data });
}

/** The spool's thread, with the operations that it has not answered yet. */
export class SpoolThread {
  readonly #worker: SpoolPort;
  readonly #clock: Clock;
  readonly #listener: ThreadListener;
  #waiting: Waiting[] = [];
  /** Operations that are sent alone: no other waits for one of them or fails with it. */
  #apart: Waiting[] = [];
  #underWay: Waiting[] = [];
  #asked: Asked[] = [];
  #answering: Asked[] = [];
  /** Called when no operation is under way or waiting. */
  #onQuiet: (() => void)[] = [];
  #scheduled = false;
  /** An operation other than an outcome waits. */
  #urgent = false;
  #patience: NodeJS.Timeout | undefined;
  #ended: Error | undefined;
  #closing = false;
  #isOpen = false;
  #opened: (() => void) | undefined;
  #openFailed: ((error: Error) => void) | undefined;

  /** Takes a thread that has just been started; `opened` resolves when it is ready. */
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

  /** Resolves when the database is open. Call it once. @throws Error when it cannot be opened or is of a newer version */
  async opened(): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#opened = resolve;
      this.#openFailed = reject;
    });
  }

  /** Why the thread no longer works; undefined while it does. */
  get ended(): Error | undefined {
    return this.#ended;
  }

  /** Adds a message; resolves once it is durable. @throws Error of the store; Unavailable for a failure that may pass */
  async add(operation: EncodedAdd, octets: AddOctets): Promise<void> {
    await this.#enqueue(operation, octets);
  }

  /** Changes the store. @throws as `add` does */
  async run<Kind extends Exclude<keyof WriteCalls, 'add'>>(
    kind: Kind,
    ...args: Parameters<WriteCalls[Kind]>
  ): Promise<ReturnType<WriteCalls[Kind]>> {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- each kind has its own arguments
    const operation = { kind, args } as Exclude<WriteOperation, { kind: 'add' }>;
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the worker answers each kind with its own result
    return (await this.#enqueue(operation, undefined)) as ReturnType<WriteCalls[Kind]>;
  }

  /** Asks the store; it answers even while a batch of writes waits for a lock. @throws as `add` does */
  async ask<Kind extends keyof ReadCalls>(
    kind: Kind,
    ...args: Parameters<ReadCalls[Kind]>
  ): Promise<ReturnType<ReadCalls[Kind]>> {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- each kind has its own arguments
    const operation = { kind, args } as ReadOperation;
    const answer = await this.#promised((settle) => this.#question({ operation, settle }));
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the worker answers each kind with its own result
    return answer as ReturnType<ReadCalls[Kind]>;
  }

  /** Resolves once all operations are answered. */
  async quiet(): Promise<void> {
    if (this.#ended || this.#open === 0) return;
    await new Promise<void>((resolve) => this.#onQuiet.push(resolve));
  }

  /** Ends the thread; all operations must have been answered (`quiet`). */
  async close(): Promise<void> {
    if (this.#ended) return;
    this.#closing = true;
    const exited = new Promise<void>((resolve) => this.#worker.on('exit', () => resolve()));
    this.#worker.postMessage('close', []);
    await exited;
  }

  #enqueue(operation: Waiting['operation'], octets: AddOctets | undefined): Promise<unknown> {
    return this.#promised((settle) => this.#push({ operation, octets, settle }));
  }

  #question(asked: Asked): void {
    this.#asked.push(asked);
    if (this.#asked.length === 1 && this.#answering.length === 0) setImmediate(() => this.#sendReads());
  }

  #push(waiting: Waiting): void {
    if (waiting.operation.kind === 'refusals') {
      this.#apart.push(waiting);
      this.#send();
      return;
    }
    this.#waiting.push(waiting);
    if (waiting.operation.kind !== 'record') this.#urgent = true;
    this.#schedule();
  }

  #promised(begin: (settle: Settle) => void): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (this.#ended) {
        reject(this.#ended);
        return;
      }
      begin((outcome) => {
        if ('value' in outcome) resolve(outcome.value);
        else reject(storeError(outcome.error));
      });
    });
  }

  /** How many operations have not been answered. */
  get #open(): number {
    const writes = this.#waiting.length + this.#apart.length + this.#underWay.length;
    return writes + this.#asked.length + this.#answering.length;
  }

  #tellQuiet(): void {
    if (this.#open > 0) return;
    for (const resolve of this.#onQuiet.splice(0)) resolve();
  }

  #sendReads(): void {
    if (this.#ended || this.#answering.length > 0 || this.#asked.length === 0) return;
    this.#answering = this.#asked.splice(0, maxBatchOperations);
    const batch: ReadBatch = { kind: 'reads', operations: this.#answering.map(({ operation }) => operation) };
    this.#worker.postMessage(batch, []);
  }

  /** Schedules sending: at the end of this turn of the event loop, or a little later where only outcomes wait. */
  #schedule(): void {
    if (this.#scheduled || this.#underWay.length > 0 || this.#waiting.length === 0) return;
    if (this.#urgent) {
      this.#scheduled = true;
      setImmediate(() => this.#send());
      return;
    }
    // No caller waits for an outcome to be written: sent with the next message it needs no sync of its own.
    this.#patience ??= setTimeout(() => {
      // When refusals are under way, nothing is sent now: their answer schedules again, which needs to see no timer.
      this.#patience = undefined;
      this.#send();
    }, outcomePatienceMs);
  }

  #send(): void {
    this.#scheduled = false;
    if (this.#underWay.length > 0 || this.#ended) return;
    const [alone] = this.#apart.splice(0, 1);
    if (alone) {
      this.#underWay = [alone];
      this.#post();
      return;
    }
    clearTimeout(this.#patience);
    this.#patience = undefined;
    if (this.#waiting.length === 0) return;
    let count = 0;
    let total = 0;
    for (const { octets } of this.#waiting) {
      const length = octets ? lengthOf(octets) : 0;
      if (count === maxBatchOperations || (count > 0 && total + length > maxBatchOctets)) break;
      count += 1;
      total += length;
    }
    this.#underWay = count === this.#waiting.length ? this.#waiting : this.#waiting.slice(0, count);
    this.#waiting = count === this.#waiting.length ? [] : this.#waiting.slice(count);
    this.#urgent = this.#waiting.some(({ operation }) => operation.kind !== 'record');
    this.#post(total);
  }

  /** Sends the operations that are under way. @param total octets of their messages */
  #post(total = 0): void {
    try {
      // A buffer of its own; it need not be zeroed, since every octet is written.
      const packed = Buffer.allocUnsafeSlow(total);
      const octets = packed.buffer;
      pack(this.#underWay, packed);
      const operations = this.#underWay.map((waiting) => waiting.operation);
      const batch: WriteBatch = { kind: 'writes', operations, octets, now: readClock(this.#clock) };
      this.#worker.postMessage(batch, [octets]);
    } catch (thrown) {
      // Out of memory: nothing was sent.
      const refused = this.#underWay;
      this.#underWay = [];
      for (const { settle } of refused) settle({ error: { message: errorMessage(thrown) } });
      setImmediate(() => this.#send());
    }
  }

  #receive(message: WorkerMessage): void {
    switch (message.kind) {
      case 'open':
        this.#isOpen = true;
        this.#opened?.();
        return;
      case 'written': {
        const written = this.#underWay;
        this.#underWay = [];
        for (const [index, outcome] of message.result.outcomes.entries()) written[index]?.settle(outcome);
        this.#listener.onWritten(message.result);
        if (this.#urgent || this.#apart.length > 0) this.#send();
        else this.#schedule();
        this.#tellQuiet();
        return;
      }
      case 'read':
        this.#answering[message.index]?.settle(message.outcome);
        return;
      case 'health':
        this.#listener.onHealth(message.freeBytes, message.fault, message.behind);
        return;
      case 'allRead':
        this.#answering = [];
        this.#sendReads();
        this.#tellQuiet();
        return;
    }
  }

  #break(error: Error): void {
    if (this.#ended) return;
    this.#ended = error;
    clearTimeout(this.#patience);
    this.#openFailed?.(error);
    const abandoned = [...this.#underWay, ...this.#waiting, ...this.#apart, ...this.#answering, ...this.#asked];
    this.#underWay = [];
    this.#waiting = [];
    this.#apart = [];
    this.#answering = [];
    this.#asked = [];
    // Promises that are already settled ignore this.
    const unavailable = error instanceof Unavailable ? { unavailable: error.reason } : {};
    for (const { settle } of abandoned) settle({ error: { message: error.message, ...unavailable } });
    this.#tellQuiet();
    if (this.#isOpen && !this.#closing) this.#listener.onLost(error);
  }
}

function lengthOf({ head, body, received }: AddOctets): number {
  let length = head.length + (body?.length ?? 0);
  if (received) for (const part of received) length += part?.length ?? 0;
  return length;
}

function pack(batch: readonly Waiting[], target: Buffer): void {
  let offset = 0;
  const put = (part: Uint8Array | undefined): void => {
    if (!part) return;
    target.set(part, offset);
    offset += part.length;
  };
  for (const { octets } of batch) {
    if (!octets) continue;
    put(octets.head);
    put(octets.body);
    octets.received?.forEach(put);
  }
}

function storeError({ message, code, unavailable }: DatabaseFailure): Error {
  const text = `The spool failed: ${message}`;
  if (unavailable) return new Unavailable(text, { reason: unavailable, retryAfterSeconds });
  return Object.assign(new Error(text), code ? { code } : {});
}
