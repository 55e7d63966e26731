// The spool's own thread (D90): a thin shell that hands batches to the store and posts back what became of them.

import { statfsSync } from 'node:fs';
import { dirname } from 'node:path';
import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import type { ClockReading } from '../../base/clock.ts';
import { giveBackSomePages } from '../../base/database/free-pages.ts';
import { sqliteCode, whyUnwritable } from '../../base/database/sqlite-errors.ts';
import { type DatabaseSync, openSqliteFile } from '../../base/database/sqlite-file.ts';
import { errorMessage } from '../../base/errors.ts';
import { defaultQueuedBytes, type SpoolLimits } from '../spool-limits.ts';
import { type SpoolFault, SpoolFiles } from './sqlite-health.ts';
import { SpoolLock } from './sqlite-lock.ts';
import {
  BODY_IN_FILE,
  type OperationOutcome,
  type ReadBatch,
  type SpoolWorkerData,
  type WorkerMessage,
  type WriteBatch,
  type WriteOperation,
  type WriteResult,
} from './sqlite-protocol.ts';
import { SqliteStore } from './sqlite-store.ts';

/**
 * Pages of the log before it is written back into the file. Most messages are gone by then, and cost the file nothing:
 * half as much again goes through than with the 1,000 of SQLite's own.
 */
const checkpointPages = 4000;

/** How long a batch waits for a lock that another program holds, in milliseconds; then its callers hear of it. */
const lockPatienceMs = 5000;
/** How long one try waits, and how long questions have their turn before the next, in milliseconds. */
const lockTryMs = 50;
const lockPauseMs = 10;

/** How often files, room and the last fault are looked at, in milliseconds. */
const lookEveryMs = 1000;
/** After so many octets of mail the room is looked at besides: a fast disk takes gigabytes in a second. */
const lookEveryBytes = 1_048_576;

/** After so long without a write free pages are given back, in milliseconds. */
const idleMs = 100;

/** Limits of this machine's file system where the configuration has none. */
function completeLimits(limits: SpoolLimits, folder: string): SpoolLimits {
  const { blocks, bsize } = statfsSync(folder);
  return { ...limits, queuedBytes: limits.queuedBytes ?? defaultQueuedBytes(blocks * bsize) };
}

/** The thread's work: batches of writes, questions, and what is looked at in between. */
class SpoolServer {
  readonly #port: MessagePort;
  readonly #file: string;
  readonly #database: DatabaseSync;
  readonly #lock: SpoolLock;
  readonly #store: SqliteStore;
  readonly #files: SpoolFiles;
  #looking: NodeJS.Timeout | undefined;
  #givingBack: NodeJS.Timeout | undefined;
  #lastWrite: SpoolFault | undefined;
  #lastWriteAt = Number.NEGATIVE_INFINITY;
  /** Of its health, what was told last. */
  #told = '';
  #unlookedBytes = 0;

  constructor(port: MessagePort, { file, lockFile, bodies, limits, eventLimits }: SpoolWorkerData) {
    this.#port = port;
    this.#file = file;
    this.#database = openSqliteFile(file);
    this.#database.exec(`PRAGMA wal_autocheckpoint = ${checkpointPages}`);
    this.#lock = new SpoolLock(lockFile);
    this.#store = new SqliteStore({
      ...{ database: this.#database, lock: this.#lock, bodies, eventLimits },
      limits: completeLimits(limits, dirname(file)),
    });
    this.#files = new SpoolFiles({ file, folders: [dirname(file), bodies], minFreeBytes: limits.minFreeBytes });
    this.#database.exec(`PRAGMA busy_timeout = ${lockTryMs}`);
  }

  /** Begins: tells its health, and that it is open. */
  serve(): void {
    this.#looking = setInterval(() => {
      this.#look();
      if (this.#lock.isHeld) this.#whereWritable(() => this.#store.pruneEvents());
      if (!this.#givingBack) this.#giveBack();
    }, lookEveryMs);
    this.#port.on('message', (message: WriteBatch | ReadBatch | 'close') => {
      if (message === 'close') this.#close();
      else if (message.kind === 'writes') {
        this.#write(unpack(message), message.now, performance.now() + lockPatienceMs);
      } else this.#read(message);
    });
    this.#look();
    this.#post({ kind: 'open' });
  }

  #post(message: WorkerMessage, transfer: readonly ArrayBuffer[] = []): void {
    this.#port.postMessage(message, [...transfer]);
  }

  #read({ operations }: ReadBatch): void {
    for (const [index, operation] of operations.entries()) {
      const outcome = this.#store.read(operation);
      this.#post({ kind: 'read', index, outcome }, loadedBuffers(outcome));
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
    const isInPlace = this.#files.isInPlace();
    const fault = isInPlace ? failureOf(result) : replaced(this.#file);
    this.#unlookedBytes += writes.reduce((sum, operation) => sum + (operation.kind === 'add' ? operation.size : 0), 0);
    if (fault || this.#lastWrite || this.#unlookedBytes >= lookEveryBytes) {
      this.#lastWrite = fault;
      this.#look();
    }
    // What was committed to a file that has no name any more is lost with this process: nobody is told that it is safe.
    this.#post({ kind: 'written', result: isInPlace ? result : refused(result, replaced(this.#file)) });
  }

  /** Tells room and faults where they have changed. */
  #look(): void {
    this.#unlookedBytes = 0;
    const { freeBytes, fault: noRoom } = this.#files.room();
    // Only what failed is tried again: a probe costs a sync.
    if (this.#lastWrite && this.#files.isInPlace()) this.#lastWrite = faultOf(() => this.#store.probe(Date.now()));
    const fault = this.#files.isInPlace() ? (noRoom ?? this.#lastWrite) : replaced(this.#file);
    const text = `${fault?.text ?? ''} ${freeBytes}`;
    if (text === this.#told) return;
    this.#told = text;
    this.#post({ kind: 'health', freeBytes, ...(fault ? { fault } : {}) });
  }

  /** Gives free pages back to the file system, some at a time, while nothing is written. */
  #giveBack(): void {
    this.#givingBack = undefined;
    if (!this.#lock.isHeld || performance.now() - this.#lastWriteAt < idleMs) return;
    this.#whereWritable(() => {
      if (giveBackSomePages(this.#database)) this.#givingBack = setTimeout(() => this.#giveBack(), idleMs / 2);
    });
  }

  /** Does what may wait: where another program writes, or nothing can be written, it is left to the next look. */
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
    this.#database.close();
    this.#lock.close();
    this.#port.close();
  }
}

function replaced(file: string): SpoolFault {
  return { reason: 'store', text: `The database "${file}" was removed or replaced while it was open` };
}

/** Why nothing of a batch could be written; undefined where something was, or each failed for what it was. */
function failureOf({ outcomes }: WriteResult): SpoolFault | undefined {
  let fault: SpoolFault | undefined;
  for (const outcome of outcomes) {
    if ('value' in outcome) return undefined;
    const { unavailable, message, code } = outcome.error;
    if (!unavailable || code === 'SPOOL_QUOTA') return undefined;
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
    return { reason, text: `The database cannot be written: ${errorMessage(thrown)}` };
  }
}

function refused(result: WriteResult, { reason, text }: SpoolFault): WriteResult {
  const error = { message: text, unavailable: reason };
  return { ...result, outcomes: result.outcomes.map(() => ({ error })), orphanedBodies: [] };
}

/** The buffers of a loaded message, which are handed over instead of being copied. */
function loadedBuffers(outcome: OperationOutcome): ArrayBuffer[] {
  if (!('value' in outcome) || outcome.value === null || typeof outcome.value !== 'object') return [];
  if (!('head' in outcome.value)) return [];
  const { head, body } = outcome.value;
  return [head.buffer, body?.buffer].filter((buffer) => buffer instanceof ArrayBuffer);
}

function unpack({ operations, octets }: WriteBatch): WriteOperation[] {
  let offset = 0;
  const take = (length: number): Uint8Array => {
    offset += length;
    return new Uint8Array(octets, offset - length, length);
  };
  return operations.map((operation) => {
    if (operation.kind !== 'packed') return operation;
    const head = take(operation.headLength);
    const body = operation.bodyLength === BODY_IN_FILE ? undefined : take(operation.bodyLength);
    const { entry, event, claimUntil, size } = operation;
    return { kind: 'add', entry, event, claimUntil, size, head, body };
  });
}

if (!parentPort) throw new Error('This file runs as a worker thread of the spool only');
const data: SpoolWorkerData = workerData;
new SpoolServer(parentPort, data).serve();
