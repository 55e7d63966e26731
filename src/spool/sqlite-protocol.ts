// What the spool's two threads say to one another: operations over, results back. Octets of all messages of a batch
// lie in one ArrayBuffer that is transferred, so that a batch costs one message and one allocation.

import type { ClockReading } from '../base/clock.ts';
import type { AttemptRecord, ClaimQuery, DueMessage, QueueItem, SpoolEntry } from './spool.ts';

/** A message without its octets. */
export type EntryMeta = Omit<SpoolEntry, 'head' | 'body'>;

/** A body that lies in a file of its own has this for its length in the batch. */
export const BODY_IN_FILE = -1;

/** Where a recipient's row is. */
export interface RecipientKey {
  readonly message: number;
  readonly position: number;
}

/** A recipient that waits in no lane of those that there are. */
export interface Stray extends RecipientKey {
  readonly account: string;
  readonly address: string;
}

/** An operation that changes the store. All of a batch share one transaction. */
export type WriteOperation =
  | {
      readonly kind: 'add';
      readonly entry: EntryMeta;
      readonly claimUntil: number;
      readonly size: number;
      readonly head: Uint8Array;
      /** `undefined`: the body is in its file. */
      readonly body: Uint8Array | undefined;
    }
  | { readonly kind: 'record'; readonly records: readonly AttemptRecord[]; readonly now: number }
  | ({ readonly kind: 'claimDue' } & ClaimQuery)
  | { readonly kind: 'giveLanes'; readonly given: readonly (RecipientKey & { readonly lane: string })[] }
  | { readonly kind: 'release'; readonly id: string; readonly recipients: readonly string[] }
  | { readonly kind: 'recover'; readonly keepBodies: readonly string[]; readonly now: number }
  | { readonly kind: 'retry'; readonly id: string; readonly now: number; readonly expiresAt: number }
  | { readonly kind: 'drop'; readonly id: string }
  /** Takes the lock that keeps other processes from removing this one's files (SpoolLock). */
  | { readonly kind: 'hold' };

/** An operation that only looks; it runs outside the transaction. */
export type ReadOperation =
  /** Recipients due at `now` in none of these lanes. */
  | { readonly kind: 'strays'; readonly now: number; readonly limit: number; readonly lanes: readonly string[] }
  | { readonly kind: 'load'; readonly id: string }
  | {
      readonly kind: 'list';
      readonly state?: 'queued' | 'failed';
      readonly search?: string;
      readonly limit: number;
      readonly after?: string;
    }
  | { readonly kind: 'show'; readonly id: string }
  | { readonly kind: 'counts' };

export type StoreOperation = WriteOperation | ReadOperation;

/** The result of each operation. */
export interface OperationResults {
  readonly add: null;
  readonly record: null;
  readonly claimDue: readonly DueMessage[];
  readonly giveLanes: null;
  readonly strays: readonly Stray[];
  readonly release: null;
  readonly recover: number;
  readonly retry: boolean;
  readonly drop: boolean;
  readonly hold: null;
  /** `body` is undefined when it is in its file. */
  readonly load: { readonly head: Uint8Array; readonly body: Uint8Array | undefined } | undefined;
  readonly list: readonly QueueItem[];
  readonly show: QueueItem | undefined;
  readonly counts: { readonly queued: number; readonly failed: number };
}

/** How one operation ended. */
export type OperationOutcome =
  | { readonly value: OperationResults[keyof OperationResults] }
  | { readonly error: { readonly message: string; readonly code?: string } };

/** What a batch of writes did, told only after its COMMIT. */
export interface WriteResult {
  /** One for each operation, in order. */
  readonly outcomes: readonly OperationOutcome[];
  /** Messages that are gone and whose body files may be deleted now. */
  readonly orphanedBodies: readonly string[];
}

/** An add as it crosses to the worker: its octets lie in the batch's buffer, one behind the other. */
export interface PackedAdd {
  readonly kind: 'packed';
  readonly entry: EntryMeta;
  readonly claimUntil: number;
  readonly headLength: number;
  /** BODY_IN_FILE when it is in a file. */
  readonly bodyLength: number;
  readonly size: number;
}

/** Main thread to worker. Only one batch is under way at a time: what comes meanwhile makes up the next. */
export interface Batch {
  readonly operations: readonly (Exclude<StoreOperation, { kind: 'add' }> | PackedAdd)[];
  readonly octets: ArrayBuffer;
  /** When it was sent. */
  readonly now: ClockReading;
}

/** Worker to main thread: after opening, after the batch's writes are durable, after its reads. */
export type WorkerMessage =
  | { readonly kind: 'open' }
  | { readonly kind: 'written'; readonly indexes: readonly number[]; readonly result: WriteResult }
  | { readonly kind: 'read'; readonly index: number; readonly outcome: OperationOutcome }
  | { readonly kind: 'idle' };

/** What the worker is started with: absolute paths. */
export interface SpoolWorkerData {
  readonly file: string;
  readonly lockFile: string;
  /** Folder of the bodies that are files. */
  readonly bodies: string;
}
