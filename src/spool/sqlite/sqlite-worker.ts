// The spool's own thread (D90): passes batches to the store and posts the results back.

import { statfsSync } from 'node:fs';
import { dirname } from 'node:path';
import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import type { ClockReading } from '../../base/clock.ts';
import { sqliteCode, sqliteMessage, whyUnwritable } from '../../base/database/sqlite-errors.ts';
import { type DatabaseSync, openSqliteFile } from '../../base/database/sqlite-file.ts';
import { errorCode, errorMessage } from '../../base/errors.ts';
import { SqliteFiles } from '../../base/fault/sqlite-files.ts';
import { settleThread } from '../../base/load/compiled-code.ts';
import { defaultMinFreeBytes } from '../spool-limits.ts';
import { giveBackSomePages } from './file/compact.ts';
import { SpoolLock } from './file/sqlite-lock.ts';
import {
  decodeJournal,
  type ReadBatch,
  type SpoolFault,
  type SpoolWorkerData,
  type WorkerMessage,
  type WriteBatch,
} from './sqlite-protocol.ts';
import {
  type Behind,
  type OperationOutcome,
  type ReadOperation,
  SqliteStore,
  type WriteOperation,
  type WriteResult,
} from './sqlite-store.ts';

/** The least free room among file systems, and the fault if it is too little. @param folders of mail; missing ones are left out */
function roomIn(folders: readonly string[], minFreeBytes: number | undefined) {
  let least = Number.POSITIVE_INFINITY;
  let fault: SpoolFault | undefined;
  for (const folder of folders) {
    try {
      const { bavail, blocks, bsize } = statfsSync(folder);
      const [free, wanted] = [bavail * bsize, minFreeBytes ?? defaultMinFreeBytes(blocks * bsize)];
      least = Math.min(least, free);
      if (free < wanted)
        fault = { reason: 'room', text: `${folder} has ${free} octets free, less than minFreeBytes (${wanted})` };
    } catch (thrown) {
      if (errorCode(thrown) !== 'ENOENT')
        fault = { reason: 'store', text: `Cannot look at ${folder}: ${errorMessage(thrown)}` };
    }
  }
  return { freeBytes: least, fault };
}

/** Pages of the log before a checkpoint: most messages are gone by then and never reach the file, so half as much more get through. */
const checkpointPages = 4000;

/** How long a batch waits for a lock that another program holds, in milliseconds; then it fails as busy. */
const lockPatienceMs = 5000;
/** How long one try for the lock waits, and how long questions are answered before the next try, in milliseconds. */
const lockTryMs = 50;
const lockPauseMs = 10;

/** How often files, free room and the last fault are checked, in milliseconds. */
const lookEveryMs = 1000;
/** Octets of mail after which free room is checked besides: a fast disk takes gigabytes in a second. */
const lookEveryBytes = 1_048_576;

/** How long nothing must have been written before events are filed and free pages given back, in milliseconds. */
const idleMs = 100;

/** Runs the thread: batches of writes, questions, and periodic checks in between. */
class SpoolServer {
  readonly #port: MessagePort;
  readonly #database: DatabaseSync;
  readonly #lock: SpoolLock;
  readonly #store: SqliteStore;
  readonly #files: SqliteFiles;
  /** The free room where mail is written to. */
  readonly #room: () => ReturnType<typeof roomIn>;
  #looking: NodeJS.Timeout | undefined;
  #givingBack: NodeJS.Timeout | undefined;
  #following: NodeJS.Timeout | undefined;
  #lastWrite: SpoolFault | undefined;
  #lastWriteAt = Number.NEGATIVE_INFINITY;
  /** The health that was reported last. */
  #told = '';
  #unlookedBytes = 0;

  constructor(port: MessagePort, { file, bodies, limits, ...settings }: SpoolWorkerData) {
    this.#port = port;
    this.#database = openSqliteFile(file);
    this.#database.exec(`PRAGMA wal_autocheckpoint = ${checkpointPages}`);
    this.#lock = new SpoolLock(file);
    const { blocks, bsize } = statfsSync(dirname(file));
    this.#store = new SqliteStore({
      ...{ database: this.#database, lock: this.#lock, bodies, ...settings },
      // Where the configuration leaves it open, an account may have a quarter of this machine's file system.
      limits: { ...limits, queuedBytes: limits.queuedBytes ?? Math.floor((blocks * bsize) / 4) },
    });
    this.#files = new SqliteFiles(file);
    this.#room = () => roomIn([dirname(file), bodies], limits.minFreeBytes);
    this.#database.exec(`PRAGMA busy_timeout = ${lockTryMs}`);
  }

  /** Begins serving: reports the health, and that the database is open. */
  serve(): void {
    this.#looking = setInterval(() => {
      this.#look();
      if (this.#store.inFlight.isLate) this.#store.write([{ kind: 'settle', args: [false] }]);
      if (this.#lock.isHeld && this.#store.follow()) this.#following ??= setTimeout(() => this.#followIdle(), idleMs);
      if (!this.#givingBack) this.#giveBack();
    }, lookEveryMs);
    this.#port.on('message', (message: WriteBatch | ReadBatch | 'close') => {
      if (message === 'close') this.#close();
      else if (message.kind === 'writes') {
        this.#write(unpack(message), message.now, performance.now() + lockPatienceMs);
      } else this.#read(message);
    });
    this.#look();
    settleThread();
    this.#post({ kind: 'open' });
  }

  #post(message: WorkerMessage, transfer: readonly ArrayBuffer[] = []): void {
    this.#port.postMessage(message, [...transfer]);
  }

  #read({ operations }: ReadBatch): void {
    for (const [index, operation] of operations.entries()) {
      const outcome = this.#store.read(operation);
      this.#post({ kind: 'read', index, outcome }, loadedBuffers(operation, outcome));
    }
    this.#post({ kind: 'allRead' });
  }

  /** @param until when another program's lock is waited for no longer, in milliseconds of this thread's monotonic clock */
  #write(writes: readonly WriteOperation[], now: ClockReading, until: number): void {
    const result = this.#store.write(writes, now);
    this.#lastWriteAt = performance.now();
    if (result.isBusy && performance.now() < until) {
      setTimeout(() => this.#write(writes, now, until), lockPauseMs);
      return;
    }
    const misplaced = this.#misplaced();
    const fault = misplaced ?? failureOf(result);
    this.#unlookedBytes += writes.reduce(
      (sum, operation) => sum + (operation.kind === 'add' ? operation.args[0].size : 0),
      0,
    );
    if (fault || this.#lastWrite || this.#unlookedBytes >= lookEveryBytes) {
      this.#lastWrite = fault;
      this.#look();
    }
    // What is committed to a file without a path is lost with this process: no caller may be told that it is safe.
    const error = misplaced && { message: misplaced.text, unavailable: misplaced.reason };
    const refused = error && { ...result, outcomes: result.outcomes.map(() => ({ error })), orphanedBodies: [] };
    this.#post({ kind: 'written', result: refused ?? result });
    // The callers have their answers; what they do next comes while this is done.
    if (this.#store.isBehind) this.#store.follow();
    else this.#following ??= setTimeout(() => this.#followIdle(), idleMs);
  }

  /** Files what was written, some at a time, while nothing else is written. */
  #followIdle(): void {
    this.#following = undefined;
    const isMore = performance.now() - this.#lastWriteAt < idleMs || this.#store.follow();
    if (isMore) this.#following = setTimeout(() => this.#followIdle(), idleMs / 2);
  }

  /** Reports free room and faults where they have changed. */
  #look(): void {
    this.#unlookedBytes = 0;
    const { freeBytes, fault: noRoom } = this.#room();
    // Only after a failed write is writing tried: a probe costs a sync.
    const misplaced = this.#misplaced();
    if (this.#lastWrite && !misplaced) this.#lastWrite = faultOf(() => this.#store.probe(Date.now()));
    const fault = misplaced ?? noRoom ?? this.#lastWrite;
    const behind = this.#behind();
    const text = `${fault?.text ?? ''} ${freeBytes} ${Object.values(behind).join(' ')}`;
    if (text === this.#told) return;
    this.#told = text;
    this.#post({ kind: 'health', freeBytes, behind, fault });
  }

  #behind(): Behind {
    try {
      return this.#store.behind;
    } catch (thrown) {
      return { unfiled: Number.NaN, passedOver: 0, fault: sqliteMessage(thrown) };
    }
  }

  /** Why what is committed would be lost with this process: a file of the database is no longer the one that is open. */
  #misplaced(): SpoolFault | undefined {
    const misplaced = this.#files.misplaced();
    if (!misplaced) return undefined;
    // Where the path of the log has gone, this process alone still reads it, and what it has accepted would be lost with it.
    if (misplaced.ending === '-wal') this.#whereWritable(() => this.#database.exec('PRAGMA wal_checkpoint(FULL)'));
    return { reason: 'store', text: misplaced.text };
  }

  /** Gives free pages back to the file system, some at a time, while nothing else is written. */
  #giveBack(): void {
    this.#givingBack = undefined;
    if (!this.#lock.isHeld || performance.now() - this.#lastWriteAt < idleMs) return;
    this.#whereWritable(() => {
      if (giveBackSomePages(this.#database)) this.#givingBack = setTimeout(() => this.#giveBack(), idleMs / 2);
    });
  }

  /** Runs work that can wait: where another program writes, or nothing can be written, the next check runs it. */
  #whereWritable(work: () => void): void {
    try {
      work();
    } catch (thrown) {
      if (whyUnwritable(sqliteCode(thrown)) === undefined) throw thrown;
    }
  }

  #close(): void {
    clearInterval(this.#looking);
    clearTimeout(this.#givingBack);
    clearTimeout(this.#following);
    // What cannot be written now is found at the next start.
    if (this.#store.inFlight.isAny) this.#store.write([{ kind: 'settle', args: [true] }]);
    this.#database.close();
    this.#lock.close();
    this.#port.close();
  }
}

/** Says why no operation of a batch could be written; undefined where one was, or each failed for a reason of its own. */
function failureOf({ outcomes }: WriteResult): SpoolFault | undefined {
  let fault: SpoolFault | undefined;
  for (const outcome of outcomes) {
    if ('value' in outcome) return undefined;
    const { unavailable, message } = outcome.error;
    if (!unavailable || unavailable === 'share') return undefined;
    fault = { reason: unavailable, text: `The database cannot be written: ${message}` };
  }
  return fault;
}

function faultOf(work: () => void): SpoolFault | undefined {
  try {
    work();
    return undefined;
  } catch (thrown) {
    const reason = whyUnwritable(sqliteCode(thrown)) ?? 'store';
    return { reason, text: `The database cannot be written: ${sqliteMessage(thrown)}` };
  }
}

/** The buffers of a loaded message; they are transferred instead of copied. */
function loadedBuffers({ kind }: ReadOperation, outcome: OperationOutcome): ArrayBuffer[] {
  const loaded: readonly unknown[] = kind === 'load' && 'value' in outcome ? Object.values(outcome.value ?? {}) : [];
  return loaded.flatMap((part) =>
    part instanceof Uint8Array && part.buffer instanceof ArrayBuffer ? part.buffer : [],
  );
}

function unpack({ operations, octets }: WriteBatch): WriteOperation[] {
  let offset = 0;
  const take = (length: number): Uint8Array | undefined => {
    if (length < 0) return undefined;
    offset += length;
    return new Uint8Array(octets, offset - length, length);
  };
  return operations.map((operation) => {
    if (operation.kind !== 'packed') return operation;
    const { entry, event: json, claimUntil, size, lengths, journal } = operation;
    const [head = new Uint8Array(0), body, receivedHead, receivedBody, sentBody] = lengths.map(take);
    const event = { at: entry.acceptedAt, account: entry.account, kind: 'accepted', message: entry.id, json } as const;
    const written = journal && decodeJournal(journal, event, [head, body, receivedHead, receivedBody, sentBody]);
    return { kind: 'add', args: [{ entry, event, claimUntil, size, head, body, journal: written }] };
  });
}

if (!parentPort) throw new Error('This file runs as a worker thread of the spool only');
const data: SpoolWorkerData = workerData;
new SpoolServer(parentPort, data).serve();
