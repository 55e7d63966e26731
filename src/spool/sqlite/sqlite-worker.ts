// The spool's own thread (D90): a thin shell that hands batches to the store and posts back what became of them.

import { statfsSync } from 'node:fs';
import { dirname } from 'node:path';
import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import type { ClockReading } from '../../base/clock.ts';
import { giveBackSomePages } from '../../base/database/free-pages.ts';
import { sqliteCode, whyUnwritable } from '../../base/database/sqlite-errors.ts';
import { openSqliteFile } from '../../base/database/sqlite-file.ts';
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

function serve(port: MessagePort, { file, lockFile, bodies, limits, eventLimits }: SpoolWorkerData): void {
  const database = openSqliteFile(file);
  database.exec(`PRAGMA wal_autocheckpoint = ${checkpointPages}`);
  const lock = new SpoolLock(lockFile);
  const store = new SqliteStore({
    ...{ database, lock, bodies, eventLimits },
    limits: completeLimits(limits, dirname(file)),
  });
  const files = new SpoolFiles({ file, folders: [dirname(file), bodies], minFreeBytes: limits.minFreeBytes });
  database.exec(`PRAGMA busy_timeout = ${lockTryMs}`);
  const post = (message: WorkerMessage, transfer: readonly ArrayBuffer[] = []): void =>
    port.postMessage(message, [...transfer]);

  let lastWrite: SpoolFault | undefined;
  let told = '';
  let unlookedBytes = 0;
  const look = (): void => {
    unlookedBytes = 0;
    const { freeBytes, fault: noRoom } = files.room();
    // Only what failed is tried again: a probe costs a sync.
    if (lastWrite && files.isInPlace()) lastWrite = faultOf(() => store.probe(Date.now()));
    const fault = files.isInPlace() ? (noRoom ?? lastWrite) : replaced(file);
    const text = `${fault?.text ?? ''} ${freeBytes}`;
    if (text === told) return;
    told = text;
    post({ kind: 'health', freeBytes, ...(fault ? { fault } : {}) });
  };
  let lastWriteAt = Number.NEGATIVE_INFINITY;
  let givingBack: NodeJS.Timeout | undefined;
  const giveBack = (): void => {
    givingBack = undefined;
    if (!lock.isHeld || performance.now() - lastWriteAt < idleMs) return;
    try {
      if (giveBackSomePages(database)) givingBack = setTimeout(giveBack, idleMs / 2);
    } catch (thrown) {
      // Another program writes: at the next look.
      if (whyUnwritable(sqliteCode(thrown)) === undefined) throw thrown;
    }
  };
  const pruneEvents = (): void => {
    try {
      store.pruneEvents();
    } catch (thrown) {
      // Another program writes, or nothing can be written: at the next look.
      if (whyUnwritable(sqliteCode(thrown)) === undefined) throw thrown;
    }
  };
  const write = (writes: readonly WriteOperation[], now: ClockReading, until: number): void => {
    const result = store.write(writes, now);
    lastWriteAt = performance.now();
    if (result.isBusy && performance.now() < until) {
      setTimeout(write, lockPauseMs, writes, now, until);
      return;
    }
    const isInPlace = files.isInPlace();
    const fault = isInPlace ? failureOf(result) : replaced(file);
    unlookedBytes += writes.reduce((sum, operation) => sum + (operation.kind === 'add' ? operation.size : 0), 0);
    if (fault || lastWrite || unlookedBytes >= lookEveryBytes) {
      lastWrite = fault;
      look();
    }
    // What was committed to a file that has no name any more is lost with this process: nobody is told that it is safe.
    post({ kind: 'written', result: isInPlace ? result : refused(result, replaced(file)) });
  };
  const looking = setInterval(() => {
    look();
    if (lock.isHeld) pruneEvents();
    if (!givingBack) giveBack();
  }, lookEveryMs);
  port.on('message', (message: WriteBatch | ReadBatch | 'close') => {
    if (message === 'close') {
      clearInterval(looking);
      clearTimeout(givingBack);
      database.close();
      lock.close();
      port.close();
      return;
    }
    if (message.kind === 'writes') {
      write(unpack(message), message.now, performance.now() + lockPatienceMs);
      return;
    }
    for (const [index, operation] of message.operations.entries()) {
      const outcome = store.read(operation);
      post({ kind: 'read', index, outcome }, loadedBuffers(outcome));
    }
    post({ kind: 'allRead' });
  });
  look();
  post({ kind: 'open' });
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
serve(parentPort, data);
