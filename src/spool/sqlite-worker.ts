// The spool's own thread (D90): a thin shell that hands batches to the store and posts back what became of them.

import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { openDatabase } from '../base/database.ts';
import { SpoolLock } from './sqlite-lock.ts';
import {
  type Batch,
  BODY_IN_FILE,
  type OperationOutcome,
  type ReadOperation,
  type SpoolWorkerData,
  type WorkerMessage,
  type WriteOperation,
} from './sqlite-protocol.ts';
import { SqliteStore } from './sqlite-store.ts';

/**
 * Pages of the log before it is written back into the file. Most messages are gone by then, and cost the file nothing:
 * half as much again goes through than with the 1,000 of SQLite's own.
 */
const checkpointPages = 4000;

function serve(port: MessagePort, { file, lockFile, bodies }: SpoolWorkerData): void {
  const database = openDatabase(file);
  database.exec(`PRAGMA wal_autocheckpoint = ${checkpointPages}`);
  const lock = new SpoolLock(lockFile);
  const store = new SqliteStore({ database, lock, bodies });
  const post = (message: WorkerMessage, transfer: readonly ArrayBuffer[] = []): void =>
    port.postMessage(message, [...transfer]);

  port.on('message', (batch: Batch | 'close') => {
    if (batch === 'close') {
      database.close();
      lock.close();
      port.close();
      return;
    }
    const { indexes, writes, reads } = unpack(batch);
    if (writes.length > 0) post({ kind: 'written', indexes, result: store.write(writes, batch.now) });
    for (const { index, operation } of reads) {
      const outcome = store.read(operation);
      post({ kind: 'read', index, outcome }, loadedBuffers(outcome));
    }
    post({ kind: 'idle' });
  });
  post({ kind: 'open' });
}

/** The buffers of a loaded message, which are handed over instead of being copied. */
function loadedBuffers(outcome: OperationOutcome): ArrayBuffer[] {
  if (!('value' in outcome) || outcome.value === null || typeof outcome.value !== 'object') return [];
  if (!('head' in outcome.value)) return [];
  const { head, body } = outcome.value;
  return [head.buffer, body?.buffer].filter((buffer) => buffer instanceof ArrayBuffer);
}

function unpack(batch: Batch): {
  readonly indexes: readonly number[];
  readonly writes: readonly WriteOperation[];
  readonly reads: readonly { readonly index: number; readonly operation: ReadOperation }[];
} {
  const indexes: number[] = [];
  const writes: WriteOperation[] = [];
  const reads: { index: number; operation: ReadOperation }[] = [];
  let offset = 0;
  const take = (length: number): Uint8Array => {
    offset += length;
    return new Uint8Array(batch.octets, offset - length, length);
  };
  for (const [index, operation] of batch.operations.entries()) {
    if (
      operation.kind === 'load' ||
      operation.kind === 'list' ||
      operation.kind === 'show' ||
      operation.kind === 'counts' ||
      operation.kind === 'strays'
    ) {
      reads.push({ index, operation });
      continue;
    }
    indexes.push(index);
    if (operation.kind !== 'packed') {
      writes.push(operation);
      continue;
    }
    const head = take(operation.headLength);
    const body = operation.bodyLength === BODY_IN_FILE ? undefined : take(operation.bodyLength);
    const { entry, claimUntil, size } = operation;
    writes.push({ kind: 'add', entry, claimUntil, size, head, body });
  }
  return { indexes, writes, reads };
}

if (!parentPort) throw new Error('This file runs as a worker thread of the spool only');
const data: SpoolWorkerData = workerData;
serve(parentPort, data);
