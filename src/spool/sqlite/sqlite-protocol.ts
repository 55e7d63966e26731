// The messages between the main thread and the spool's thread: operations go out, results come back. The octets of all
// messages of a batch lie in one transferred ArrayBuffer, so that a batch costs one message and one allocation.

import type { ClockReading } from '../../base/clock.ts';
import type { DatabaseFailure } from '../../base/database/sqlite-errors.ts';
import type { EncodedEvent, EncodedPage } from '../encoded-event.ts';
import type { EventLimits, EventNews, EventQuery, EventSearch } from '../events/event-store.ts';
import type { OutcomeEvent } from '../events/mail-event.ts';
import type { Hold, HoldRule } from '../hold.ts';
import type { AccountKey, UsedKey } from '../idempotency-keys.ts';
import type { WrittenJournal } from '../journal/writer/journal-of-event.ts';
import type { JournalTuple } from '../journal/writer/journal-tuple.ts';
import type { DueReport, ReportableOutcome, ReportKey, ReportLimits } from '../reports/report.ts';
import type { Behind } from '../search/follow-pace.ts';
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
export interface EncodedOutcome
  extends Pick<OutcomeEvent, 'queueId' | 'recipient' | 'kind' | 'reply' | 'host'>,
    ReportableOutcome {
  readonly kind: OutcomeEvent['kind'];
  readonly nextAttemptAt?: number;
  /** The next hop was not reached, so that the attempt does not count. */
  readonly isUntried?: boolean;
  readonly event: EncodedEvent;
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

/** What changes the store; all calls of a batch share one transaction. The methods of the same names in `Spool` say more. */
export interface WriteCalls {
  add(call: {
    readonly entry: EntryMeta;
    readonly event: EncodedEvent;
    readonly claimUntil: number;
    readonly size: number;
    readonly head: Uint8Array;
    /** `undefined`: the body is in a file. */
    readonly body: Uint8Array | undefined;
    /** The row of the journal. */
    readonly journal?: WrittenJournal | undefined;
  }): void;
  /** How many outcomes are not reported to their senders because of the limits. */
  record(call: { readonly outcomes: readonly EncodedOutcome[]; readonly now: number }): number;
  refusals(call: { readonly events: readonly EncodedEvent[]; readonly journal: readonly WrittenJournal[] }): void;
  /** Writes other events that report no change of the spool. */
  writeEvents(call: { readonly events: readonly EncodedEvent[] }): void;
  claimDue(call: ClaimQuery): readonly DueMessage[];
  turns(call: Parameters<Spool['turns']>[0]): readonly ClaimTurn[];
  postpone(call: { readonly turns: readonly (ClaimTurn & { readonly until: number })[] }): void;
  /** Finds recipients that are due at `now` and whose transport is none of these, and the lines that they were looked for in. */
  strays(call: { readonly now: number; readonly limit: number; readonly transports: readonly string[] }): {
    readonly strays: readonly Stray[];
    readonly looked: readonly number[];
  };
  giveTransports(call: {
    readonly given: readonly (Stray & { readonly transport: string })[];
    readonly looked: readonly number[];
    readonly now: number;
  }): void;
  addHold(call: { readonly rule: HoldRule }): void;
  liftHold(call: { readonly rule: Pick<HoldRule, 'kind' | 'value'> }): boolean;
  release(call: { readonly id: string; readonly recipients: readonly string[] }): void;
  recover(call: { readonly keepBodies: readonly string[]; readonly now: number }): number;
  retryMany(call: {
    readonly picks: readonly RetryPick[];
    readonly now: number;
    readonly expiresAt: number;
  }): RetryCount;
  drop(call: { readonly id: string; readonly now: number }): boolean;
  /** With `until` the report is put off, otherwise it is deleted. */
  endReport(call: { readonly report: ReportKey; readonly until?: number | undefined }): boolean;
  answered(call: AccountKey & { readonly answer: string }): void;
  /** Gives rows to the recipients of messages that have been in flight for too long, or of all (in-flight.ts). */
  settle(call: { readonly isAll: boolean }): void;
  /** Takes the lock that keeps other processes from removing this one's files (SpoolLock). */
  hold(call: object): void;
}

/** What only reads; it runs outside the transaction. */
export interface ReadCalls {
  /** `body` is undefined when it is in its file. */
  load(call: { readonly id: string }): { readonly head: Uint8Array; readonly body: Uint8Array | undefined } | undefined;
  list(call: ListQuery): QueuePage;
  show(call: { readonly id: string }): QueueItem | undefined;
  tallies(call: object): readonly AccountTally[];
  replacedIds(call: {
    readonly account: string;
    readonly ids: readonly string[];
    readonly now: number;
  }): ReadonlyMap<string, string>;
  reportsDue(call: { readonly now: number; readonly limit: number }): readonly DueReport[];
  holds(call: object): readonly Hold[];
  oldest(call: object): number | undefined;
  waiting(call: { readonly limit: number }): readonly WaitingLine[];
  events(call: EventQuery): EncodedPage;
  searchEvents(call: { readonly query: EventSearch }): EncodedPage;
  newestEvent(call: object): number;
  /** Makes what is made behind the commits, within a bound. */
  catchUp(call: object): void;
  eventNews(call: { readonly after: number }): EventNews;
  usedKey(call: AccountKey & { readonly now: number }): UsedKey | undefined;
}

type Calls = WriteCalls & ReadCalls;
type Call<Kind extends keyof Calls> = { readonly kind: Kind } & Parameters<Calls[Kind]>[0];

/** A call that writes, as it is sent. */
export type WriteOperation = { [Kind in keyof WriteCalls]: Call<Kind> }[keyof WriteCalls];
/** A call that reads, as it is sent. */
export type ReadOperation = { [Kind in keyof ReadCalls]: Call<Kind> }[keyof ReadCalls];

/** What the call of a kind is handed. */
export type OperationOf<Kind extends keyof Calls> = Parameters<Calls[Kind]>[0];

/** What each call gives back. */
export type OperationResults = { readonly [Kind in keyof Calls]: ReturnType<Calls[Kind]> };

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
export interface EncodedAdd {
  readonly kind: 'packed';
  readonly entry: EntryMeta;
  /** The event of the acceptance as JSON; its other values are those of the entry. */
  readonly event: string;
  readonly claimUntil: number;
  readonly headLength: number;
  /** BODY_IN_FILE when the body is in a file. */
  readonly bodyLength: number;
  readonly size: number;
  /** The row of the journal; what it keeps of the message that came lies behind the body. */
  readonly journal?: JournalTuple | undefined;
}

/** Writes, sent from the main thread. One such batch is under way at a time; operations that come meanwhile form the next. */
export interface WriteBatch {
  readonly kind: 'writes';
  readonly operations: readonly (Exclude<WriteOperation, { kind: 'add' }> | EncodedAdd)[];
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
  | { readonly kind: 'health'; readonly freeBytes: number; readonly fault?: SpoolFault; readonly behind: Behind };

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
