// The spool in a SQLite file (D90, D94): the main thread's half. Operations gather while the worker commits the last
// batch and go over together, so that many messages share one fsync, one message between threads and one allocation.

import { dirname, join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { type Clock, readClock, systemClock } from '../../base/clock.ts';
import { errorCode, errorMessage, Unavailable } from '../../base/errors.ts';
import { type Logger, silentLog } from '../../base/log.ts';
import { EventFeed } from '../../events/event-feed.ts';
import { defaultEventLimits, type EventLimits } from '../../events/event-store.ts';
import type { OutcomeEvent } from '../../events/mail-event.ts';
import { BodyFiles, bodyFileThreshold } from '../body-files.ts';
import type { UsedKey } from '../idempotency-keys.ts';
import type {
  ClaimQuery,
  DueMessage,
  ListQuery,
  QueueItem,
  QueuePage,
  RetryCount,
  RetryPick,
  Spool,
  SpoolEntry,
} from '../spool.ts';
import { acceptedEvent } from '../spool-events.ts';
import { type SpoolLimits, unlimited } from '../spool-limits.ts';
import { type AccountTally, totalOf } from '../tally.ts';
import { packEvent, unpackEvent } from './sqlite-events.ts';
import type { SpoolFault } from './sqlite-health.ts';
import {
  BODY_IN_FILE,
  type OperationFailure,
  type OperationOutcome,
  type OperationResults,
  type ReadBatch,
  type ReadOperation,
  type RemovedFailures,
  type SpoolWorkerData,
  type WorkerMessage,
  type WriteBatch,
  type WriteOperation,
} from './sqlite-protocol.ts';

/** A batch takes no more operations than this, so that no caller waits long for its commit. */
const maxBatchOperations = 1024;
/** A batch takes no more octets of messages than this (the first operation always goes). */
const maxBatchOctets = 16 * 1024 * 1024;
/** How long outcomes wait for a message to ride along with; a crash meanwhile sends what they tell of once more. */
const outcomePatienceMs = 5;
/** What a client is told to wait where the store cannot be written or has no room. */
const retryAfterSeconds = 30;

/** What an add carries across beside its operation. */
type AddOctets = { readonly head: Buffer; readonly body: Buffer | undefined };

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

/** Where the spool lies. */
export interface SqliteSpoolOptions {
  /** Path of the database. */
  readonly file: string;
  /** Folder of the large bodies (D94); `bodies` beside the database if absent. */
  readonly bodiesFolder?: string;
  readonly clock?: Clock;
  /** Hears of body files that cannot be deleted. */
  readonly log?: Logger;
  /** Is told, once, when the thread has ended though nobody closed the spool: it takes and gives nothing any more. */
  readonly onLost?: (error: Error) => void;
  /** None if absent. */
  readonly limits?: SpoolLimits;
  /** How long events are kept; absent: `defaultEventLimits`. */
  readonly eventLimits?: EventLimits;
  /** Is told of messages kept as failed that went because their account has too many. */
  readonly onRemoved?: (removed: RemovedFailures) => void;
}

/** A spool in one SQLite file with a thread of its own. Several processes may have the same file open (D94). */
export class SqliteSpool implements Spool {
  readonly #bodies: BodyFiles;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #onLost: ((error: Error) => void) | undefined;
  readonly #onRemoved: ((removed: RemovedFailures) => void) | undefined;
  #fault: SpoolFault | undefined;
  #freeBytes = Number.NaN;
  readonly #worker: Worker;
  readonly events: EventFeed;
  readonly #writing = new Set<string>();
  readonly #fileWork = new Set<Promise<void>>();
  #waiting: Waiting[] = [];
  /** What goes over alone: others do not wait for it, nor fail with it. */
  #apart: Waiting[] = [];
  #underWay: Waiting[] = [];
  #asked: Asked[] = [];
  #answering: Asked[] = [];
  /** Told when nothing is under way and nothing waits. */
  #onQuiet: (() => void)[] = [];
  #scheduled = false;
  /** Something other than outcomes waits. */
  #urgent = false;
  #patience: NodeJS.Timeout | undefined;
  #recovering: Promise<unknown> = Promise.resolve();
  #broken: Error | undefined;
  #closing = false;
  #isOpen = false;
  #opened: (() => void) | undefined;
  #openFailed: ((error: Error) => void) | undefined;

  /**
   * Opens a spool, making the file and its tables where they are not there.
   * @throws Error when the database cannot be opened or is of a newer version
   */
  static async open(options: SqliteSpoolOptions): Promise<SqliteSpool> {
    const spool = new SqliteSpool(options);
    await new Promise<void>((resolve, reject) => {
      spool.#opened = resolve;
      spool.#openFailed = reject;
    });
    return spool;
  }

  private constructor(options: SqliteSpoolOptions) {
    const { file, bodiesFolder, clock, log, onLost, limits, onRemoved } = options;
    this.#clock = clock ?? systemClock;
    this.#log = log ?? silentLog;
    this.#onLost = onLost;
    this.#onRemoved = onRemoved;
    this.#bodies = new BodyFiles(bodiesFolder ?? join(dirname(file), 'bodies'));
    this.events = new EventFeed(
      {
        read: async (query) => {
          const { events, ...page } = await this.#ask({ kind: 'events', ...query });
          return { ...page, events: events.map(unpackEvent) };
        },
        newest: () => this.#ask({ kind: 'newestEvent' }),
        write: async (refusals) => {
          if (this.#fault) throw new Error(this.#fault.text);
          await this.#run({ kind: 'refusals', events: refusals.map(packEvent) });
        },
      },
      { clock: this.#clock, log: this.#log },
    );
    this.#worker = new Worker(new URL('./sqlite-worker.ts', import.meta.url), {
      workerData: {
        file,
        lockFile: `${file}-spool.lock`,
        bodies: this.#bodies.folder,
        limits: limits ?? unlimited,
        eventLimits: options.eventLimits ?? defaultEventLimits,
      } satisfies SpoolWorkerData,
    });
    this.#worker.on('message', (message: WorkerMessage) => this.#receive(message));
    this.#worker.on('error', (error) =>
      this.#break(new Error(`The spool's thread failed: ${errorMessage(error)}`, { cause: error })),
    );
    this.#worker.on('exit', () =>
      this.#break(new Error(this.#closing ? 'The spool is closed' : "The spool's thread ended unexpectedly")),
    );
  }

  get unavailable(): Unavailable | undefined {
    if (!this.#fault) return undefined;
    return new Unavailable(this.#fault.text, { reason: this.#fault.reason, retryAfterSeconds });
  }

  /** Free octets of the fullest file system that it writes to, at most a second old. */
  get freeBytes(): number {
    return this.#freeBytes;
  }

  async add(entry: SpoolEntry, claimUntil: number): Promise<void> {
    const { unavailable } = this;
    if (unavailable && !this.#broken) throw unavailable;
    if (entry.body.length <= bodyFileThreshold) return await this.#add(entry, claimUntil, entry.body);
    if (this.#broken) throw this.#broken;
    const work = this.#addLarge(entry, claimUntil);
    this.#track(work);
    await work;
  }

  async #addLarge(entry: SpoolEntry, claimUntil: number): Promise<void> {
    // A recovery asked for from now on leaves this body alone; those before it do not know of it and must be over.
    this.#writing.add(entry.id);
    try {
      await this.#recovering;
      // Without the lock another process that starts would take the file for an orphan.
      await this.#run({ kind: 'hold' });
      await this.#bodies.write(entry.id, entry.body).catch((thrown: unknown) => {
        throw bodyError(thrown);
      });
      try {
        await this.#add(entry, claimUntil, undefined);
      } catch (thrown) {
        // With the thread gone nobody knows whether the row was committed; the next start does.
        if (!this.#broken) await this.#bodies.remove(entry.id);
        throw thrown;
      }
    } finally {
      this.#writing.delete(entry.id);
    }
  }

  claimDue(query: ClaimQuery): Promise<readonly DueMessage[]> {
    return this.#run({ kind: 'claimDue', ...query });
  }

  async giveTransports({ transportOf, ...query }: Parameters<Spool['giveTransports']>[0]): Promise<number> {
    const strays = await this.#ask({ kind: 'strays', ...query });
    if (strays.length === 0) return 0;
    const given = strays.map(({ message, position, account, address }) => ({
      message,
      position,
      transport: transportOf({ account, address }),
    }));
    await this.#run({ kind: 'giveTransports', given });
    return strays.length;
  }

  async load(id: string): Promise<{ readonly head: Buffer; readonly body: Buffer } | undefined> {
    const row = await this.#ask({ kind: 'load', id });
    if (!row) return undefined;
    const head = bufferOver(row.head);
    if (row.body) return { head, body: bufferOver(row.body) };
    const body = await this.#bodies.read(id);
    if (body) return { head, body };
    // Forgotten between the two looks; a body missing from a message that is still there is damage.
    if (!(await this.#ask({ kind: 'show', id }))) return undefined;
    throw new Error(`The body of message ${id} is missing from "${this.#bodies.folder}"`);
  }

  async record(outcomes: readonly OutcomeEvent[]): Promise<void> {
    const packed = outcomes.map((outcome) => {
      const { queueId, recipient, kind, reply, host } = outcome;
      const next = kind === 'deferred' ? { nextAttemptAt: outcome.nextAttemptAt } : {};
      return { queueId, recipient, kind, reply, host, ...next, event: packEvent(outcome) };
    });
    await this.#run({ kind: 'record', outcomes: packed, now: this.#clock.now() });
    this.events.committed(outcomes);
  }

  async release(id: string, recipients: readonly string[]): Promise<void> {
    await this.#run({ kind: 'release', id, recipients });
  }

  recover(): Promise<number> {
    const recovery = this.#run({ kind: 'recover', keepBodies: [...this.#writing], now: this.#clock.now() });
    this.#recovering = recovery.then(
      () => undefined,
      () => undefined,
    );
    return recovery;
  }

  list(query: ListQuery): Promise<QueuePage> {
    return this.#ask({ kind: 'list', ...query });
  }

  show(id: string): Promise<QueueItem | undefined> {
    return this.#ask({ kind: 'show', id });
  }

  retry(id: string, times: { readonly now: number; readonly expiresAt: number }): Promise<boolean> {
    return this.#run({ kind: 'retry', id, ...times });
  }

  retryMany(
    picks: readonly RetryPick[],
    times: { readonly now: number; readonly expiresAt: number },
  ): Promise<RetryCount> {
    return this.#run({ kind: 'retryMany', picks, ...times });
  }

  drop(id: string): Promise<boolean> {
    return this.#run({ kind: 'drop', id });
  }

  async counts(): Promise<{ readonly queued: number; readonly failed: number }> {
    return totalOf(await this.tallies()).messages;
  }

  tallies(): Promise<readonly AccountTally[]> {
    return this.#ask({ kind: 'tallies' });
  }

  usedKey(account: string, key: string): Promise<UsedKey | undefined> {
    return this.#ask({ kind: 'usedKey', account, key, now: this.#clock.now() });
  }

  async answered(account: string, key: string, answer: string): Promise<void> {
    await this.#run({ kind: 'answered', account, key, answer });
  }

  /** Finishes what was asked, deletes what is to be deleted, and ends the thread. */
  async close(): Promise<void> {
    if (this.#broken) return;
    await this.events.close();
    await Promise.allSettled(this.#fileWork);
    await this.#quiet();
    await Promise.allSettled(this.#fileWork);
    if (this.#broken) return;
    this.#closing = true;
    const exited = new Promise((resolve) => this.#worker.once('exit', resolve));
    this.#worker.postMessage('close', []);
    await exited;
  }

  async #add(entry: SpoolEntry, claimUntil: number, body: Buffer | undefined): Promise<void> {
    const { head, body: whole, received: _, ...meta } = entry;
    const event = acceptedEvent(entry);
    const size = head.length + whole.length;
    const bodyLength = body ? body.length : BODY_IN_FILE;
    await this.#enqueue(
      { kind: 'packed', entry: meta, event: packEvent(event), claimUntil, headLength: head.length, bodyLength, size },
      { head, body },
    );
    this.events.committed([event]);
  }

  async #run<Operation extends Exclude<WriteOperation, { kind: 'add' }>>(
    operation: Operation,
  ): Promise<OperationResults[Operation['kind']]> {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the worker answers each kind with its own result
    return (await this.#enqueue(operation, undefined)) as OperationResults[Operation['kind']];
  }

  async #ask<Operation extends ReadOperation>(operation: Operation): Promise<OperationResults[Operation['kind']]> {
    const answer = await this.#promised((settle) => {
      this.#asked.push({ operation, settle });
      if (this.#asked.length === 1 && this.#answering.length === 0) setImmediate(() => this.#sendReads());
    });
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the worker answers each kind with its own result
    return answer as OperationResults[Operation['kind']];
  }

  #enqueue(operation: Waiting['operation'], octets: AddOctets | undefined): Promise<unknown> {
    return this.#promised((settle) => {
      if (operation.kind === 'refusals') {
        this.#apart.push({ operation, octets, settle });
        this.#send();
        return;
      }
      this.#waiting.push({ operation, octets, settle });
      if (operation.kind !== 'record') this.#urgent = true;
      this.#schedule();
    });
  }

  #promised(begin: (settle: Settle) => void): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (this.#broken) {
        reject(this.#broken);
        return;
      }
      begin((outcome) => {
        if ('value' in outcome) resolve(outcome.value);
        else reject(storeError(outcome.error));
      });
    });
  }

  /** Resolves once everything that was asked is answered. */
  async #quiet(): Promise<void> {
    if (this.#broken || this.#open === 0) return;
    await new Promise<void>((resolve) => this.#onQuiet.push(resolve));
  }

  /** What was asked and is not answered. */
  get #open(): number {
    const writes = this.#waiting.length + this.#apart.length + this.#underWay.length;
    return writes + this.#asked.length + this.#answering.length;
  }

  #tellQuiet(): void {
    if (this.#open > 0) return;
    for (const resolve of this.#onQuiet.splice(0)) resolve();
  }

  #sendReads(): void {
    if (this.#broken || this.#answering.length > 0 || this.#asked.length === 0) return;
    this.#answering = this.#asked.splice(0, maxBatchOperations);
    const batch: ReadBatch = { kind: 'reads', operations: this.#answering.map(({ operation }) => operation) };
    this.#worker.postMessage(batch, []);
  }

  /** Sees to it that what waits goes over: at the end of this turn of the event loop, outcomes alone a little later. */
  #schedule(): void {
    if (this.#scheduled || this.#underWay.length > 0 || this.#waiting.length === 0) return;
    if (this.#urgent) {
      this.#scheduled = true;
      setImmediate(() => this.#send());
      return;
    }
    // Nobody waits for an outcome to be written: it rides along with the next message and saves a sync of its own.
    this.#patience ??= setTimeout(() => this.#send(), outcomePatienceMs);
  }

  #send(): void {
    this.#scheduled = false;
    if (this.#underWay.length > 0 || this.#broken) return;
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
      const length = octets ? octets.head.length + (octets.body?.length ?? 0) : 0;
      if (count === maxBatchOperations || (count > 0 && total + length > maxBatchOctets)) break;
      count += 1;
      total += length;
    }
    this.#underWay = count === this.#waiting.length ? this.#waiting : this.#waiting.slice(0, count);
    this.#waiting = count === this.#waiting.length ? [] : this.#waiting.slice(count);
    this.#urgent = this.#waiting.some(({ operation }) => operation.kind !== 'record');
    this.#post(total);
  }

  /** Sends over what is under way. @param total octets of its messages */
  #post(total = 0): void {
    try {
      // A buffer of its own, not zeroed: every octet is written.
      const packed = Buffer.allocUnsafeSlow(total);
      const octets = packed.buffer;
      pack(this.#underWay, packed);
      const operations = this.#underWay.map((waiting) => waiting.operation);
      const batch: WriteBatch = { kind: 'writes', operations, octets, now: readClock(this.#clock) };
      this.#worker.postMessage(batch, [octets]);
    } catch (thrown) {
      // Out of memory: nothing has gone over.
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
        for (const id of message.result.orphanedBodies) this.#removeBody(id);
        for (const removed of message.result.removed) this.#tellRemoved(removed);
        if (this.#urgent || this.#apart.length > 0) this.#send();
        else this.#schedule();
        this.#tellQuiet();
        return;
      }
      case 'read':
        this.#answering[message.index]?.settle(message.outcome);
        return;
      case 'health':
        this.#freeBytes = message.freeBytes;
        this.#setFault(message.fault);
        return;
      case 'allRead':
        this.#answering = [];
        this.#sendReads();
        this.#tellQuiet();
        return;
    }
  }

  #setFault(fault: SpoolFault | undefined): void {
    const before = this.#fault;
    this.#fault = fault;
    if (before?.reason === fault?.reason && (before === undefined) === (fault === undefined)) return;
    if (fault) this.#log.error({ reason: fault.text }, 'the spool takes no mail');
    else this.#log.info('the spool takes mail again');
  }

  #tellRemoved(removed: RemovedFailures): void {
    this.#log.warn({ ...removed }, 'failed messages removed: the account has more than are kept');
    this.#onRemoved?.(removed);
  }

  #removeBody(id: string): void {
    this.#track(
      this.#bodies.remove(id).catch((error: unknown) => {
        // Nobody waits for it, and it is removed at the next start.
        this.#log.warn({ id, error: errorMessage(error) }, 'Cannot delete a body file');
      }),
    );
  }

  /** Holds `close` back until the work is done; who began it hears of its failure. */
  #track(work: Promise<void>): void {
    this.#fileWork.add(work);
    void Promise.allSettled([work]).then(() => this.#fileWork.delete(work));
  }

  #break(error: Error): void {
    if (this.#broken) return;
    this.#broken = error;
    clearTimeout(this.#patience);
    this.#openFailed?.(error);
    const abandoned = [...this.#underWay, ...this.#waiting, ...this.#apart, ...this.#answering, ...this.#asked];
    this.#underWay = [];
    this.#waiting = [];
    this.#apart = [];
    this.#answering = [];
    this.#asked = [];
    // Promises that are settled already ignore this.
    for (const { settle } of abandoned) settle({ error: { message: error.message } });
    this.#tellQuiet();
    if (this.#isOpen && !this.#closing) this.#onLost?.(error);
  }
}

/** Opens a spool in SQLite; see SqliteSpool.open. */
export function openSqliteSpool(options: SqliteSpoolOptions): Promise<SqliteSpool> {
  return SqliteSpool.open(options);
}

function pack(batch: readonly Waiting[], target: Buffer): void {
  let offset = 0;
  for (const { octets } of batch) {
    if (!octets) continue;
    target.set(octets.head, offset);
    offset += octets.head.length;
    if (!octets.body) continue;
    target.set(octets.body, offset);
    offset += octets.body.length;
  }
}

function bufferOver(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function storeError({ message, code, unavailable }: OperationFailure): Error {
  const text = `The spool failed: ${message}`;
  if (unavailable) return new Unavailable(text, { reason: unavailable, retryAfterSeconds });
  return Object.assign(new Error(text), code ? { code } : {});
}

/** A body that could not be written because the disk is full or cannot be written at all. */
function bodyError(thrown: unknown): unknown {
  const code = errorCode(thrown) ?? '';
  const isFull = code === 'ENOSPC' || code === 'EDQUOT';
  if (!isFull && code !== 'EROFS' && code !== 'EIO') return thrown;
  const details = { reason: isFull ? 'room' : 'store', retryAfterSeconds } as const;
  return new Unavailable(`A body cannot be written: ${errorMessage(thrown)}`, details);
}
