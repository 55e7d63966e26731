// What the spool's two threads say to one another: operations over, results back. Octets of all messages of a batch
// lie in one ArrayBuffer that is transferred, so that a batch costs one message and one allocation.

import type { ClockReading } from '../../base/clock.ts';
import type { DatabaseFailure } from '../../base/database/sqlite-errors.ts';
import type { EventLimits, EventQuery } from '../../events/event-store.ts';
import type { OutcomeEvent } from '../../events/mail-event.ts';
import type { AccountKey, UsedKey } from '../idempotency-keys.ts';
import type {
  ClaimQuery,
  DueMessage,
  ListQuery,
  QueueItem,
  QueuePage,
  RetryCount,
  RetryPick,
  SpoolEntry,
} from '../spool.ts';
import type { SpoolLimits } from '../spool-limits.ts';
import type { AccountTally } from '../tally.ts';
import type { PackedEvent, PackedPage } from './sqlite-events.ts';
import type { SpoolFault } from './sqlite-health.ts';

/** A message without its octets. */
export type EntryMeta = Omit<SpoolEntry, 'head' | 'body' | 'received'>;

/** What became of an attempt: what of it the recipient's row holds, and its event. */
export interface PackedOutcome extends Pick<OutcomeEvent, 'queueId' | 'recipient' | 'kind' | 'reply' | 'host'> {
  readonly nextAttemptAt?: number;
  readonly event: PackedEvent;
}

/** A body that lies in a file of its own has this for its length in the batch. */
export const BODY_IN_FILE = -1;

/** Where a recipient's row is. */
export interface RecipientKey {
  readonly message: number;
  readonly position: number;
}

/** A recipient that waits for no transport of those that there are. */
export interface Stray extends RecipientKey {
  readonly account: string;
  readonly address: string;
}

/** An operation that changes the store. All of a batch share one transaction. */
export type WriteOperation =
  | {
      readonly kind: 'add';
      readonly entry: EntryMeta;
      readonly event: PackedEvent;
      readonly claimUntil: number;
      readonly size: number;
      readonly head: Uint8Array;
      /** `undefined`: the body is in its file. */
      readonly body: Uint8Array | undefined;
    }
  | { readonly kind: 'record'; readonly outcomes: readonly PackedOutcome[]; readonly now: number }
  | { readonly kind: 'refusals'; readonly events: readonly PackedEvent[] }
  | ({ readonly kind: 'claimDue' } & ClaimQuery)
  | { readonly kind: 'giveTransports'; readonly given: readonly (RecipientKey & { readonly transport: string })[] }
  | { readonly kind: 'release'; readonly id: string; readonly recipients: readonly string[] }
  | { readonly kind: 'recover'; readonly keepBodies: readonly string[]; readonly now: number }
  | { readonly kind: 'retry'; readonly id: string; readonly now: number; readonly expiresAt: number }
  | {
      readonly kind: 'retryMany';
      readonly picks: readonly RetryPick[];
      readonly now: number;
      readonly expiresAt: number;
    }
  | { readonly kind: 'drop'; readonly id: string }
  | ({ readonly kind: 'answered'; readonly answer: string } & AccountKey)
  /** Takes the lock that keeps other processes from removing this one's files (SpoolLock). */
  | { readonly kind: 'hold' };

/** An operation that only looks; it runs outside the transaction. */
export type ReadOperation =
  /** Recipients due at `now` in none of these transports. */
  | { readonly kind: 'strays'; readonly now: number; readonly limit: number; readonly transports: readonly string[] }
  | { readonly kind: 'load'; readonly id: string }
  | ({ readonly kind: 'list' } & ListQuery)
  | { readonly kind: 'show'; readonly id: string }
  | { readonly kind: 'tallies' }
  | ({ readonly kind: 'events' } & EventQuery)
  | { readonly kind: 'newestEvent' }
  | ({ readonly kind: 'usedKey'; readonly now: number } & AccountKey);

/** The operation of a kind. */
export type OperationOf<Kind extends (WriteOperation | ReadOperation)['kind']> = Extract<
  WriteOperation | ReadOperation,
  { kind: Kind }
>;

/** The result of each operation. */
export interface OperationResults {
  readonly add: null;
  readonly record: null;
  readonly refusals: null;
  readonly claimDue: readonly DueMessage[];
  readonly giveTransports: null;
  readonly strays: readonly Stray[];
  readonly release: null;
  readonly recover: number;
  readonly retry: boolean;
  readonly retryMany: RetryCount;
  readonly drop: boolean;
  readonly answered: null;
  readonly hold: null;
  /** `body` is undefined when it is in its file. */
  readonly load: { readonly head: Uint8Array; readonly body: Uint8Array | undefined } | undefined;
  readonly list: QueuePage;
  readonly show: QueueItem | undefined;
  readonly tallies: readonly AccountTally[];
  readonly usedKey: UsedKey | undefined;
  readonly events: PackedPage;
  readonly newestEvent: number;
}

/** Why an operation failed. */
export type OperationFailure = DatabaseFailure;

/** Messages of an account that went before their time. */
export interface RemovedFailures {
  readonly account: string;
  readonly messages: number;
  readonly octets: number;
}

/** How one operation ended. */
export type OperationOutcome =
  | { readonly value: OperationResults[keyof OperationResults] }
  | { readonly error: OperationFailure };

/** What a batch of writes did, told only after its COMMIT. */
export interface WriteResult {
  /** One for each operation, in order. */
  readonly outcomes: readonly OperationOutcome[];
  /** Messages that are gone and whose body files may be deleted now. */
  readonly orphanedBodies: readonly string[];
  /** Messages kept as failed that went because their account has too many. */
  readonly removed: readonly RemovedFailures[];
  /** Nothing was done because another program held the lock for too long. */
  readonly isBusy: boolean;
}

/** An add as it crosses to the worker: its octets lie in the batch's buffer, one behind the other. */
export interface PackedAdd {
  readonly kind: 'packed';
  readonly entry: EntryMeta;
  readonly event: PackedEvent;
  readonly claimUntil: number;
  readonly headLength: number;
  /** BODY_IN_FILE when it is in a file. */
  readonly bodyLength: number;
  readonly size: number;
}

/** Writes, main thread to worker. Only one such batch is under way at a time: what comes meanwhile makes up the next. */
export interface WriteBatch {
  readonly kind: 'writes';
  readonly operations: readonly (Exclude<WriteOperation, { kind: 'add' }> | PackedAdd)[];
  readonly octets: ArrayBuffer;
  /** When it was sent. */
  readonly now: ClockReading;
}

/**
 * Questions, main thread to worker. They are answered also while a batch of writes waits for a lock that another program
 * holds; one batch at a time, too.
 */
export interface ReadBatch {
  readonly kind: 'reads';
  readonly operations: readonly ReadOperation[];
}

/** Worker to main thread: after opening, once the batch's writes are durable, after each answer and the last of a batch. */
export type WorkerMessage =
  | { readonly kind: 'open' }
  | { readonly kind: 'written'; readonly result: WriteResult }
  | { readonly kind: 'read'; readonly index: number; readonly outcome: OperationOutcome }
  | { readonly kind: 'allRead' }
  /** Once a second, and when it changes. */
  | { readonly kind: 'health'; readonly freeBytes: number; readonly fault?: SpoolFault };

/** What the worker is started with: absolute paths. */
export interface SpoolWorkerData {
  readonly file: string;
  readonly lockFile: string;
  /** Folder of the bodies that are files. */
  readonly bodies: string;
  readonly limits: SpoolLimits;
  readonly eventLimits: EventLimits;
}
