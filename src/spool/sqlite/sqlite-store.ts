// What the spool's thread can be asked (D90), on that thread: each call is a line of `writes` or `reads`. All operations that have come in
// share one transaction; callers get results only after COMMIT has returned, which is after the fsync.

import type { ClockReading } from '../../base/clock.ts';
import {
  type DatabaseFailure,
  failureOf,
  isBusy,
  isDamaged,
  sqliteMessage,
} from '../../base/database/sqlite-errors.ts';
import type { DatabaseSync } from '../../base/database/sqlite-file.ts';
import { doVerb, type PlainVerb } from '../core/plain-verbs.ts';
import { endReport } from '../core/report-steps.ts';
import { addKey } from '../core/tally-steps.ts';
import { threadKey } from '../core/thread-steps.ts';
import { type EncodedEvent, encodeEvent } from '../encoded-event.ts';
import type { EventQuery, EventSearch } from '../events/event-store.ts';
import type { WrittenJournal } from '../journal/writer/journal-of-event.ts';
import { SqliteJournal } from '../journal/writer/journal-tables.ts';
import { eventNews, newestEvent, readEvents, searchEvents } from '../search/find-events.ts';
import type { ClaimQuery, Spool } from '../spool.ts';
import { type KeptSettings, keptSettings, type RemovedFailures, type SpoolOptions } from '../spool-limits.ts';
import { keptClientId } from '../stored-rows.ts';
import { totalOf } from '../tally.ts';
import { EventFollower, followedAtOnce } from './event-follower.ts';
import type { SpoolLock } from './file/sqlite-lock.ts';
import { spreadAll } from './in-flight.ts';
import { RecipientClaims, StoredHolds } from './sqlite-claims.ts';
import { eventWriter, sqliteEventTables } from './sqlite-events.ts';
import { type AddCall, Attempts, StoredMessages } from './sqlite-messages.ts';
import { Retention, StoredQueue } from './sqlite-retention.ts';
import { SpoolPart, type SpoolTables, tablesOf } from './sqlite-tables.ts';

/** How long is waited after the first failure, and at most after many in a row, in milliseconds. */
const firstPauseMs = 1000;
const longestPauseMs = 60_000;
/** Slices that are made for a reader who waits for them, at most. */
const slicesForReader = 8;

const needsLock: ReadonlySet<string> = new Set(['add', 'claimDue', 'turns', 'hold']);

type PlainCall = [verb: PlainVerb, asked: readonly unknown[], now: number];

/** The calls that change the store, and those that only read. */
export type WriteCalls = SqliteStore['writes'];
export type ReadCalls = SqliteStore['reads'];

type Operation<Calls> = {
  [Kind in keyof Calls]: Calls[Kind] extends (...args: infer Args) => unknown
    ? { readonly kind: Kind; readonly args: Readonly<Args> }
    : never;
}[keyof Calls];

/** A call that writes, as it is sent. */
export type WriteOperation = Operation<WriteCalls>;
/** A call that reads, as it is sent. */
export type ReadOperation = Operation<ReadCalls>;

/** How one operation ended. */
export type OperationOutcome = { readonly value: unknown } | { readonly error: DatabaseFailure };

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

/** How far what is made behind the commits is behind them. */
export interface Behind {
  /** Events that wait. */
  readonly unfiled: number;
  /** Events since the start that were passed over, because they or what they are found by is damaged. */
  readonly passedOver: number;
  /** Why nothing can be made; undefined where it can. */
  readonly fault: string | undefined;
}

/** Has an operation done by the call of its kind. */
function called<Calls>(
  calls: Calls,
  { kind, args }: { readonly kind: keyof Calls; readonly args: readonly unknown[] },
) {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- an operation has what the call of its kind takes
  return (calls[kind] as (...values: readonly unknown[]) => unknown)(...args);
}

interface StoreFiles {
  readonly database: DatabaseSync;
  readonly lock: SpoolLock;
  /** Folder of the bodies that are files; it need not exist. */
  readonly bodies: string;
}

/** The spool in one database. It owns nothing but its prepared statements; the caller closes database and lock. */
export class SqliteStore extends SpoolPart<SpoolTables & KeptSettings & StoreFiles> {
  readonly #messages = new StoredMessages(this.parts);
  readonly #retention = new Retention({ ...this.parts, messages: this.#messages });
  readonly #writeEvent = eventWriter(this.parts.database);
  readonly #journal = new SqliteJournal(this.parts.database);
  readonly #follower = new EventFollower({
    ...{ database: this.parts.database, limits: this.parts.eventLimits },
    journal: this.parts.hasJournal ? this.#journal : undefined,
  });
  readonly #holds = new StoredHolds(this.parts);
  readonly #claims = new RecipientClaims({ ...this.parts, messages: this.#messages, holds: this.#holds });
  readonly #queue = new StoredQueue({ ...this.parts, messages: this.#messages, holds: this.#holds });
  readonly #attempts = new Attempts({
    ...{ ...this.parts, messages: this.#messages },
    write: (event) => this.#addEvents([encodeEvent(event)]),
  });
  /** Events that were written since they were last filed, about. */
  #unfiled = 0;
  /** When and why what is made behind the commits has failed, and how long it rests then: its fault does not cost a try a second. */
  #tryAt = Number.NEGATIVE_INFINITY;
  #pauseMs = 0;
  #fault: string | undefined;

  /** Brings the tables up to date. */
  constructor({ database, lock, bodies, ...settings }: StoreFiles & SpoolOptions) {
    super({ ...tablesOf(database), database, lock, bodies, ...keptSettings(settings) });
  }

  /** What changes the store; all calls of a batch share one transaction. */
  readonly writes = {
    add: (call: AddCall): void => this.#add(call),
    /** How many outcomes are not reported to their senders because of the limits. */
    record: (...[outcomes, now]: Parameters<Attempts['record']>): number => {
      this.#addEvents(outcomes.map(({ event }) => event));
      return this.#attempts.record(outcomes, now);
    },
    refusals: (events: readonly EncodedEvent[], journal: readonly WrittenJournal[]): void => {
      for (const row of journal) this.#journal.add(row);
      this.#addEvents(events);
    },
    /** Writes other events that report no change of the spool. */
    writeEvents: (events: readonly EncodedEvent[]): void => this.#addEvents(events),
    claimDue: (query: ClaimQuery) => {
      this.#retention.pruneSometimes(query.now);
      return this.#claims.claimDue(query);
    },
    turns: (query: Parameters<Spool['turns']>[0]) => {
      this.#retention.pruneSometimes(query.now);
      return this.#claims.turns(query);
    },
    strays: (query: Parameters<RecipientClaims['strays']>[0]) => this.#claims.strays(query),
    giveTransports: (...query: Parameters<RecipientClaims['giveTransports']>): void =>
      this.#claims.giveTransports(...query),
    recover: (now: number): number => this.#recover(now),
    retryMany: (...[picks, times]: Parameters<Spool['retryMany']>) => this.#attempts.retryMany(picks, times),
    drop: (id: string, now: number): boolean => this.#attempts.drop(id, now),
    plain: (...[verb, asked, now]: PlainCall) => this.#plain(verb, asked, now),
    /** Gives rows to the recipients of messages that have been in flight for too long, or of all (in-flight.ts). */
    settle: (isAll: boolean): void => this.inFlight.settle(isAll),
    /** Takes the lock that keeps other processes from removing this one's files (SpoolLock). */
    hold: (): void => undefined,
  };

  /** What only reads; it runs outside the transaction. */
  readonly reads = {
    load: (id: string) => this.#queue.load(id),
    tallies: () => this.ledger.read(),
    plain: (...[verb, asked, now]: PlainCall) => this.#plain(verb, asked, now),
    events: (query: EventQuery) => this.parts.steps(readEvents(sqliteEventTables, query)),
    searchEvents: (query: EventSearch) =>
      this.parts.steps(searchEvents(sqliteEventTables, query, (time) => this.clock.stored(time))),
    newestEvent: () => this.parts.steps(newestEvent(sqliteEventTables)),
    /** Makes what is made behind the commits, within a bound. */
    catchUp: (): void => {
      for (let slices = 0; slices < slicesForReader && this.#follower.unfiled > 0 && this.follow(); ) slices += 1;
    },
    eventNews: (after: number) => this.parts.steps(eventNews(sqliteEventTables, after)),
  };

  /** Does a verb that is only passed on. @param now wall time */
  #plain(...[verb, asked, now]: PlainCall): unknown {
    const parts = { claims: this.#claims, queue: this.#queue, holds: this.#holds, run: this.parts.steps };
    return doVerb(verb, asked, { ...parts, times: this.clock, now, threadKeyOf: threadKey });
  }

  #add(call: AddCall): void {
    const { entry, event, journal } = call;
    const { answers } = entry;
    // The report was made by another process, or more is to be reported: this one would be a second or a wrong one.
    if (answers && !this.parts.steps(endReport(this.clock, answers)))
      throw new Error('What this report tells has changed');
    this.#messages.add(call);
    if (entry.idempotency) this.parts.steps(addKey(entry));
    const clientId = keptClientId(entry);
    if (clientId !== undefined)
      this.statements.keepThread.run(
        ...[entry.account, threadKey(clientId), entry.messageId, this.clock.stored(entry.acceptedAt)],
      );
    this.#addEvents([event]);
    if (journal && this.parts.hasJournal) this.#journal.add(journal);
  }

  #addEvents(events: readonly EncodedEvent[]): void {
    for (const event of events) this.#writeEvent(event, this.clock.stored(event.at));
    this.#unfiled += events.length;
  }

  #recover(now: number): number {
    const { lock, database, bodies } = this.parts;
    this.ledger.write();
    // While another process works on the spool, its claims stay, and its unfinished adds have body files without a row.
    lock.whileAlone(() => {
      this.clock.begin();
      spreadAll(database, true);
      // Somebody has changed the tables: the mark may be wrong, too.
      if (!this.ledger.verify()) {
        spreadAll(database, false);
        this.ledger.verify();
      }
      this.inFlight.recovered();
      this.statements.releaseAll.run();
      // After a start, claims and back-offs of before are over.
      this.lines.statements.wakeAll.run(this.clock.stored(now));
      this.#retention.removeOrphans(bodies);
    });
    this.#retention.prune(now);
    this.ledger.write();
    return totalOf(this.ledger.read()).messages.queued;
  }

  /** Runs operations in one transaction; if one fails, each in its own. @param now without it the clock is not looked at */
  write(operations: readonly WriteOperation[], now?: ClockReading): WriteResult {
    try {
      if (now) this.clock.observe(now);
      if (operations.some(({ kind }) => needsLock.has(kind))) this.parts.lock.take();
      return this.#transaction(operations);
    } catch (thrown) {
      // If the time was spent waiting for another process, each retry would spend it again.
      if (operations.length === 1 || isBusy(thrown)) {
        return {
          outcomes: operations.map(() => ({ error: failureOf(thrown) })),
          orphanedBodies: [],
          removed: [],
          isBusy: isBusy(thrown),
        };
      }
      const singles = operations.map((operation) => this.write([operation], now));
      return {
        outcomes: singles.flatMap((single) => single.outcomes),
        orphanedBodies: singles.flatMap((single) => single.orphanedBodies),
        removed: singles.flatMap((single) => single.removed),
        isBusy: false,
      };
    }
  }

  /** Answers one question. */
  read(operation: ReadOperation): OperationOutcome {
    try {
      this.clock.hold();
      return { value: called(this.reads, operation) };
    } catch (thrown) {
      return { error: failureOf(thrown) };
    }
  }

  #transaction(operations: readonly WriteOperation[]): WriteResult {
    const { database } = this.parts;
    for (const part of [this.#messages, this.#retention, this.lines, this.#holds, this.inFlight]) part.begin();
    database.exec('BEGIN IMMEDIATE');
    try {
      this.clock.hold();
      const outcomes = operations.map((operation): OperationOutcome => {
        // One refused because of what the store already holds does not undo the others of the batch.
        const refused = operation.kind === 'add' ? this.#retention.overQuota(operation.args[0]) : undefined;
        return refused ? { error: refused } : { value: called(this.writes, operation) };
      });
      this.#retention.removeSurplus();
      this.ledger.write();
      this.lines.write();
      this.inFlight.mark();
      database.exec('COMMIT');
      return { outcomes, orphanedBodies: this.#messages.gone, removed: this.#retention.removed, isBusy: false };
    } catch (thrown) {
      // SQLite has already rolled back by itself after a full disk or an I/O error.
      if (database.isTransaction) database.exec('ROLLBACK');
      this.ledger.changes.clear();
      this.inFlight.undo();
      throw thrown;
    }
  }

  /** Files some events and removes what is too much, once the time is known and no failure is fresh. @returns whether there is more */
  follow(): boolean {
    const { now } = this.clock;
    if (now === undefined || performance.now() < this.#tryAt) return false;
    try {
      this.clock.hold();
      const isMore = this.#follower.follow(this.clock.stored(now)) || this.#settle(now);
      this.#unfiled = isMore ? Math.max(0, this.#unfiled - followedAtOnce) : 0;
      [this.#pauseMs, this.#fault] = [0, undefined];
      return isMore;
    } catch (thrown) {
      // Somebody else writes; that passes, or is told as a fault of the spool.
      if (isBusy(thrown)) return false;
      this.#pauseMs = Math.min(Math.max(firstPauseMs, this.#pauseMs * 2), longestPauseMs);
      this.#tryAt = performance.now() + this.#pauseMs;
      this.#fault = sqliteMessage(thrown);
      return false;
    }
  }

  /** Puts messages that wait into blocks. Damaged ones stay where they are: events are filed all the same. @returns as `follow` does */
  #settle(now: number): boolean {
    try {
      return this.#follower.unsynced(() => this.parts.settled.settle(now, this.inFlight.oldest));
    } catch (thrown) {
      if (isDamaged(thrown)) return false;
      this.parts.settled.lookAnew();
      throw thrown;
    }
  }

  /** How far what is made behind the commits is behind them. @throws what SQLite throws */
  get behind(): Behind {
    const { unfiled, passedOver } = this.#follower;
    return { unfiled, passedOver, fault: this.#fault };
  }

  /** Whether a whole slice of events waits to be filed. */
  get isBehind(): boolean {
    return this.#unfiled >= followedAtOnce;
  }

  /** Writes a value, to find out whether the database can be written. @throws what SQLite throws */
  probe(now: number): void {
    this.statements.probe.run(now);
  }
}
