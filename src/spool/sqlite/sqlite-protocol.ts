// The messages between the main thread and the spool's thread: operations go out, results come back. The octets of all
// messages of a batch lie in one transferred ArrayBuffer, so that a batch costs one message and one allocation.

import type { ClockReading } from '../../base/clock.ts';
import type { DatabaseFailure } from '../../base/database/sqlite-errors.ts';
import type { EventLimits, EventNews, EventQuery, EventSearch } from '../../events/event-store.ts';
import type { OutcomeEvent } from '../../events/mail-event.ts';
import type { Hold, HoldRule } from '../hold.ts';
import type { AccountKey, UsedKey } from '../idempotency-keys.ts';
import type { ListedJournal } from '../journal/listed-journal.ts';
import type { WrittenJournal } from '../journal/sqlite-journal.ts';
import type { PackedEvent, PackedPage } from '../packed-event.ts';
import type { DueReport, ReportableOutcome, ReportKey, ReportLimits } from '../reports/report.ts';
import type {
  ClaimQuery,
  ClaimTurn,
  DueMessage,
  ListQuery,
  QueueItem,
  QueuePage,
  RetryCount,
  RetryPick,
  Spool,
  WaitingLine,
} from '../spool.ts';
import type { RemovedFailures, SpoolLimits } from '../spool-limits.ts';
import type { EntryMeta } from '../stored-rows.ts';
import type { AccountTally } from '../tally.ts';
import type { SpoolFault } from './file/sqlite-health.ts';

/** The outcome of an attempt: the values for the recipient's row, and the event. */
export interface PackedOutcome
  extends Pick<OutcomeEvent, 'queueId' | 'recipient' | 'kind' | 'reply' | 'host'>,
    ReportableOutcome {
  readonly kind: OutcomeEvent['kind'];
  readonly nextAttemptAt?: number;
  /** The next hop was not reached, so that the attempt does not count. */
  readonly isUntried?: boolean;
  readonly event: PackedEvent;
}

/** The length, in the batch, of a body that lies in a file of its own. */
export const BODY_IN_FILE = -1;

/** The place of a recipient's row. */
interface RecipientKey {
  readonly message: number;
  readonly position: number;
}

/** A due recipient whose transport is none of the current ones. */
export interface Stray extends RecipientKey {
  /** Of the message. */
  readonly id: string;
  readonly account: string;
  readonly address: string;
}

/** An operation that changes the store. All operations of a batch share one transaction. */
export type WriteOperation =
  | {
      readonly kind: 'add';
      readonly entry: EntryMeta;
      readonly event: PackedEvent;
      readonly claimUntil: number;
      readonly size: number;
      readonly head: Uint8Array;
      /** `undefined`: the body is in a file. */
      readonly body: Uint8Array | undefined;
      /** The row of the journal. */
      readonly journal?: WrittenJournal | undefined;
    }
  | { readonly kind: 'record'; readonly outcomes: readonly PackedOutcome[]; readonly now: number }
  | {
      readonly kind: 'refusals';
      readonly events: readonly PackedEvent[];
      readonly journal: readonly WrittenJournal[];
    }
  /** Writes other events that report no change of the spool. */
  | { readonly kind: 'writeEvents'; readonly events: readonly PackedEvent[] }
  | ({ readonly kind: 'claimDue' } & ClaimQuery)
  | ({ readonly kind: 'turns' } & Parameters<Spool['turns']>[0])
  | { readonly kind: 'postpone'; readonly turns: readonly (ClaimTurn & { readonly until: number })[] }
  | {
      readonly kind: 'giveTransports';
      readonly given: readonly (Stray & { readonly transport: string })[];
      readonly looked: readonly number[];
      readonly now: number;
    }
  /** Finds recipients that are due at `now` and whose transport is none of these. */
  | { readonly kind: 'strays'; readonly now: number; readonly limit: number; readonly transports: readonly string[] }
  | { readonly kind: 'addHold'; readonly rule: HoldRule }
  | { readonly kind: 'liftHold'; readonly rule: Pick<HoldRule, 'kind' | 'value'> }
  | { readonly kind: 'release'; readonly id: string; readonly recipients: readonly string[] }
  | { readonly kind: 'recover'; readonly keepBodies: readonly string[]; readonly now: number }
  | { readonly kind: 'retry'; readonly id: string; readonly now: number; readonly expiresAt: number }
  | {
      readonly kind: 'retryMany';
      readonly picks: readonly RetryPick[];
      readonly now: number;
      readonly expiresAt: number;
    }
  | { readonly kind: 'drop'; readonly id: string; readonly now: number }
  /** With `until` the report is put off, otherwise it is deleted. */
  | { readonly kind: 'endReport'; readonly report: ReportKey; readonly until?: number }
  | ({ readonly kind: 'answered'; readonly answer: string } & AccountKey)
  /** Gives rows to the recipients of messages that have been in flight for too long, or of all (in-flight.ts). */
  | { readonly kind: 'settle'; readonly isAll: boolean }
  /** Takes the lock that keeps other processes from removing this one's files (SpoolLock). */
  | { readonly kind: 'hold' };

/** An operation that only reads; it runs outside the transaction. */
export type ReadOperation =
  | { readonly kind: 'load'; readonly id: string }
  | ({ readonly kind: 'list' } & ListQuery)
  | { readonly kind: 'show'; readonly id: string }
  | { readonly kind: 'tallies' }
  | { readonly kind: 'replacedIds'; readonly account: string; readonly ids: readonly string[]; readonly now: number }
  | { readonly kind: 'reportsDue'; readonly now: number; readonly limit: number }
  | { readonly kind: 'holds' }
  | { readonly kind: 'oldest' }
  | { readonly kind: 'waiting'; readonly limit: number }
  | ({ readonly kind: 'events' } & EventQuery)
  | { readonly kind: 'searchEvents'; readonly query: EventSearch }
  | { readonly kind: 'newestEvent' }
  | { readonly kind: 'eventNews'; readonly after: number }
  | ({ readonly kind: 'usedKey'; readonly now: number } & AccountKey);

/** The operation of a kind. */
export type OperationOf<Kind extends (WriteOperation | ReadOperation)['kind']> = Extract<
  WriteOperation | ReadOperation,
  { kind: Kind }
>;

/** The result of each operation. */
export interface OperationResults {
  readonly add: null;
  readonly record: number;
  readonly endReport: boolean;
  readonly replacedIds: ReadonlyMap<string, string>;
  readonly reportsDue: readonly DueReport[];
  readonly refusals: null;
  readonly writeEvents: null;
  readonly claimDue: readonly DueMessage[];
  readonly turns: readonly ClaimTurn[];
  readonly postpone: null;
  readonly giveTransports: null;
  /** The recipients, and the lines that they were looked for in. */
  readonly strays: { readonly strays: readonly Stray[]; readonly looked: readonly number[] };
  readonly addHold: null;
  readonly liftHold: boolean;
  readonly holds: readonly Hold[];
  readonly oldest: number | undefined;
  readonly waiting: readonly WaitingLine[];
  readonly release: null;
  readonly recover: number;
  readonly retry: boolean;
  readonly retryMany: RetryCount;
  readonly drop: boolean;
  readonly answered: null;
  readonly hold: null;
  readonly settle: null;
  /** `body` is undefined when it is in its file. */
  readonly load: { readonly head: Uint8Array; readonly body: Uint8Array | undefined } | undefined;
  readonly list: QueuePage;
  readonly show: QueueItem | undefined;
  readonly tallies: readonly AccountTally[];
  readonly usedKey: UsedKey | undefined;
  readonly events: PackedPage;
  readonly searchEvents: PackedPage;
  readonly newestEvent: number;
  readonly eventNews: EventNews;
}

/** Why an operation failed. */
export type OperationFailure = DatabaseFailure;

/** How one operation ended. */
export type OperationOutcome =
  | { readonly value: OperationResults[keyof OperationResults] }
  | { readonly error: OperationFailure };

/** What a batch of writes did; sent only after its COMMIT. */
export interface WriteResult {
  /** One for each operation, in order. */
  readonly outcomes: readonly OperationOutcome[];
  /** Messages that are gone and whose body files may be deleted now. */
  readonly orphanedBodies: readonly string[];
  /** Messages kept as failed that were removed because their account has too many. */
  readonly removed: readonly RemovedFailures[];
  /** Nothing was done, because another program held the lock for too long. */
  readonly isBusy: boolean;
}

/** An add as it is sent to the worker; the octets of all adds lie one behind the other in the batch's buffer. */
export interface PackedAdd {
  readonly kind: 'packed';
  readonly entry: EntryMeta;
  readonly event: PackedEvent;
  readonly claimUntil: number;
  readonly headLength: number;
  /** BODY_IN_FILE when the body is in a file. */
  readonly bodyLength: number;
  readonly size: number;
  /** The row of the journal; what it keeps of the message that came lies behind the body. */
  readonly journal?: ListedJournal | undefined;
}

/** Writes, sent from the main thread. One such batch is under way at a time; operations that come meanwhile form the next. */
export interface WriteBatch {
  readonly kind: 'writes';
  readonly operations: readonly (Exclude<WriteOperation, { kind: 'add' }> | PackedAdd)[];
  readonly octets: ArrayBuffer;
  /** When it was sent. */
  readonly now: ClockReading;
}

/**
 * Questions, sent from the main thread. They are answered even while a batch of writes waits for a lock that another
 * program holds. One such batch is under way at a time, too.
 */
export interface ReadBatch {
  readonly kind: 'reads';
  readonly operations: readonly ReadOperation[];
}

/** Messages from the worker: after opening, once a batch of writes is durable, after each answer and the last of a batch. */
export type WorkerMessage =
  | { readonly kind: 'open' }
  | { readonly kind: 'written'; readonly result: WriteResult }
  | { readonly kind: 'read'; readonly index: number; readonly outcome: OperationOutcome }
  | { readonly kind: 'allRead' }
  /** Sent once a second, and when it changes. */
  | { readonly kind: 'health'; readonly freeBytes: number; readonly fault?: SpoolFault };

/** The data that the worker starts with; paths are absolute. */
export interface SpoolWorkerData {
  readonly file: string;
  readonly lockFile: string;
  /** Folder of the bodies that are files. */
  readonly bodies: string;
  readonly limits: SpoolLimits;
  readonly eventLimits: EventLimits;
  readonly reportLimits: ReportLimits;
  /** Whether the journal is written. */
  readonly hasJournal: boolean;
}
