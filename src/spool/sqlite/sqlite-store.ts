// Runs the spool's operations on a SQLite database, synchronously, on the worker thread (D90). All operations that have
// come in share one transaction; callers get results only after COMMIT has returned, which is after the fsync.

import type { ClockReading } from '../../base/clock.ts';
import { failureOf, isBusy } from '../../base/database/sqlite-errors.ts';
import type { DatabaseSync } from '../../base/database/sqlite-file.ts';
import { addKey, findKey, keepAnswer } from '../core/key-steps.ts';
import { dueReports, endReport, postponeReport } from '../core/report-steps.ts';
import { type EncodedEvent, encodeEvent } from '../encoded-event.ts';
import { defaultEventLimits, type EventLimits } from '../events/event-store.ts';
import { SqliteJournal } from '../journal/writer/sqlite-journal.ts';
import { type ReportLimits, unlimitedReports } from '../reports/report.ts';
import { type Behind, FollowPace } from '../search/follow-pace.ts';
import { type SpoolLimits, unlimited } from '../spool-limits.ts';
import { totalOf } from '../tally.ts';
import { EventFollower, followedAtOnce } from './event-follower.ts';
import type { SpoolLock } from './file/sqlite-lock.ts';
import { spreadAll } from './in-flight.ts';
import { Attempts } from './sqlite-attempts.ts';
import { RecipientClaims } from './sqlite-claims.ts';
import { SqliteEvents } from './sqlite-events.ts';
import { StoredHolds } from './sqlite-holds.ts';
import { StoredMessages } from './sqlite-messages.ts';
import type {
  OperationOf,
  OperationOutcome,
  OperationResults,
  ReadCalls,
  ReadOperation,
  WriteCalls,
  WriteOperation,
  WriteResult,
} from './sqlite-protocol.ts';
import { StoredQueue } from './sqlite-queue.ts';
import { Retention } from './sqlite-retention.ts';
import { SpoolPart, tablesOf } from './sqlite-tables.ts';

/** Slices that are made for a reader who waits for them, at most. */
const slicesForReader = 8;

const needsLock: ReadonlySet<string> = new Set(['add', 'claimDue', 'turns', 'hold']);

/** Has an operation done by the call of its kind. */
function called<Calls>(
  calls: Calls,
  operation: { readonly kind: keyof Calls },
): OperationResults[keyof OperationResults] {
  const call: unknown = calls[operation.kind];
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- an operation has the kind of the call that takes it
  return (call as (operation: object) => OperationResults[keyof OperationResults])(operation);
}

/** The spool in one database. It owns nothing but its prepared statements; the caller closes database and lock. */
export class SqliteStore extends SpoolPart {
  #now: ClockReading | undefined;
  /** When `#now` was set, by this thread's own clock. */
  #toldAt = 0;
  /** Events that were written since they were last filed, about. */
  #unfiled = 0;
  readonly #followPace = new FollowPace();
  readonly #database: DatabaseSync;
  readonly #lock: SpoolLock;
  readonly #bodies: string;
  readonly #events: SqliteEvents;
  readonly #follower: EventFollower;
  readonly #journal: SqliteJournal;
  readonly #hasJournal: boolean;
  readonly #messages: StoredMessages;
  readonly #retention: Retention;
  readonly #writes: WriteCalls;
  readonly #reads: ReadCalls;
  /** What is told of each transaction's beginning. */
  readonly #begins: readonly { begin(): void }[];

  /**
   * Brings the tables up to date.
   * @param options.bodies folder of the bodies that are files; it need not exist
   * @param options.limits absent: no limits
   * @param options.hasJournal whether the journal is written; absent: yes
   */
  constructor(options: {
    readonly database: DatabaseSync;
    readonly lock: SpoolLock;
    readonly bodies: string;
    readonly limits?: SpoolLimits;
    readonly eventLimits?: EventLimits;
    readonly reportLimits?: ReportLimits;
    readonly hasJournal?: boolean;
  }) {
    super(tablesOf(options.database));
    const tables = this.parts;
    this.#database = options.database;
    this.#lock = options.lock;
    this.#bodies = options.bodies;
    this.#events = new SqliteEvents(this.#database);
    this.#journal = new SqliteJournal(this.#database);
    this.#hasJournal = options.hasJournal ?? true;
    const { eventLimits = defaultEventLimits, reportLimits = unlimitedReports, limits = unlimited } = options;
    this.#follower = new EventFollower(this.#database, eventLimits, this.#hasJournal ? this.#journal : undefined);
    const [holds, messages] = [new StoredHolds(tables), new StoredMessages(tables)];
    this.#messages = messages;
    const attempts = new Attempts({
      ...{ ...tables, messages, reportLimits },
      write: (event) => this.#addEvents([encodeEvent(event)]),
    });
    this.#retention = new Retention({ ...tables, messages, limits });
    const claims = new RecipientClaims({ ...tables, messages, holds });
    this.#writes = this.#writeCalls({ claims, attempts, holds });
    this.#reads = this.#readCalls({ queue: new StoredQueue({ ...tables, messages, holds }), holds });
    this.#begins = [messages, this.#retention, this.lines, holds, this.inFlight];
  }

  #writeCalls(parts: {
    readonly claims: RecipientClaims;
    readonly attempts: Attempts;
    readonly holds: StoredHolds;
  }): WriteCalls {
    const { claims, attempts, holds } = parts;
    return {
      add: (call) => this.#add(call),
      record: (call) => {
        this.#addEvents(call.outcomes.map(({ event }) => event));
        return attempts.record(call);
      },
      endReport: (call) => this.#endReport(call),
      refusals: ({ journal, events }) => {
        for (const row of journal) this.#journal.add(row);
        this.#addEvents(events);
      },
      writeEvents: ({ events }) => this.#addEvents(events),
      claimDue: (call) => {
        this.#retention.pruneSometimes(call.now);
        return claims.claimDue(call);
      },
      turns: (call) => {
        this.#retention.pruneSometimes(call.now);
        return claims.turns(call);
      },
      postpone: (call) => claims.postpone(call),
      strays: (call) => claims.strays(call),
      giveTransports: (call) => claims.giveTransports(call),
      release: (call) => claims.release(call),
      addHold: ({ rule }) => holds.add(rule),
      liftHold: ({ rule }) => holds.lift(rule),
      recover: (call) => this.#recover(call),
      retryMany: (call) => attempts.retryMany(call),
      drop: (call) => attempts.drop(call),
      answered: (call) => this.parts.steps(keepAnswer(call, call.answer)),
      settle: ({ isAll }) => this.inFlight.settle(isAll),
      hold: () => undefined,
    };
  }

  #readCalls({ queue, holds }: { readonly queue: StoredQueue; readonly holds: StoredHolds }): ReadCalls {
    const events = this.#events;
    return {
      load: ({ id }) => queue.load(id),
      list: (call) => queue.list(call),
      show: ({ id }) => queue.show(id),
      replacedIds: ({ account, ids, now }) => this.parts.threads.find(account, ids, this.clock.stored(now)),
      reportsDue: (call) => this.parts.steps(dueReports(this.clock, call)),
      tallies: () => this.ledger.read(),
      events: (call) => events.read(call),
      searchEvents: (call) => this.#searchEvents(call),
      newestEvent: () => events.newest(),
      catchUp: () => this.#catchUp(),
      eventNews: ({ after }) => events.news(after),
      usedKey: (call) => this.parts.steps(findKey(call, call.now)),
      holds: () => holds.read(),
      oldest: () => queue.oldest(),
      waiting: (call) => queue.waiting(call),
    };
  }

  /**
   * Runs operations in one transaction. If one fails, all are undone and each is run again in a transaction of its own, so
   * that only the faulty one fails.
   * @param now the time; without it, the clock is not checked for having been set
   */
  write(operations: readonly WriteOperation[], now?: ClockReading): WriteResult {
    try {
      this.#now = now;
      this.#toldAt = performance.now();
      if (now) this.clock.observe(now);
      for (const operation of operations) {
        if (needsLock.has(operation.kind)) this.#lock.take();
      }
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
      return { value: called(this.#reads, operation) };
    } catch (thrown) {
      return { error: failureOf(thrown) };
    }
  }

  #transaction(operations: readonly WriteOperation[]): WriteResult {
    for (const part of this.#begins) part.begin();
    this.#database.exec('BEGIN IMMEDIATE');
    try {
      this.clock.hold();
      const outcomes = operations.map((operation) => this.#outcome(operation));
      this.#retention.removeSurplus();
      this.ledger.write();
      this.lines.write();
      this.inFlight.mark();
      this.#database.exec('COMMIT');
      return { outcomes, orphanedBodies: this.#messages.gone, removed: this.#retention.removed, isBusy: false };
    } catch (thrown) {
      // SQLite has already rolled back by itself after a full disk or an I/O error.
      if (this.#database.isTransaction) this.#database.exec('ROLLBACK');
      this.ledger.undo();
      this.inFlight.undo();
      throw thrown;
    }
  }

  /**
   * Does a slice of what is made behind the commits: events are filed, and those that are too many or too old removed. Does nothing
   * before the first write, which brings the time, nor for a while after it has failed.
   * @returns whether there may be more to do
   */
  follow(): boolean {
    const now = this.#now;
    if (!now) return false;
    return this.#followPace.take(() => {
      this.clock.hold();
      const wall = now.wall + performance.now() - this.#toldAt;
      const isMore =
        this.#follower.follow(this.clock.stored(wall)) ||
        this.#follower.unsynced(() => this.parts.settled.settle(wall, this.inFlight.oldest));
      this.#unfiled = isMore ? Math.max(0, this.#unfiled - followedAtOnce) : 0;
      return isMore;
    });
  }

  /** How far what is made behind the commits is behind them. @throws what SQLite throws */
  get behind(): Behind {
    const { unfiled, passedOver } = this.#follower;
    return { unfiled, passedOver, fault: this.#followPace.fault };
  }

  /** Whether messages are in flight (in-flight.ts). */
  get hasInFlight(): boolean {
    return this.inFlight.isAny;
  }

  /** Whether messages have been in flight for too long (`settle`). */
  get hasLate(): boolean {
    return this.inFlight.isLate;
  }

  /** Whether a whole slice of events waits to be filed. */
  get isBehind(): boolean {
    return this.#unfiled >= followedAtOnce;
  }

  /** Writes a value, to find out whether the database can be written. @throws what SQLite throws */
  probe(now: number): void {
    this.statements.probe.run(now);
  }

  /** Runs one operation. One refused because of what the store already holds does not undo the others of the batch. */
  #outcome(operation: WriteOperation): OperationOutcome {
    const refused = operation.kind === 'add' ? this.#retention.overQuota(operation) : undefined;
    return refused ? { error: refused } : { value: called(this.#writes, operation) };
  }

  #add(operation: OperationOf<'add'>): void {
    const { answers } = operation.entry;
    // The report was made by another process, or more is to be reported: this one would be a second or a wrong one.
    if (answers && !this.parts.steps(endReport(answers))) throw new Error('What this report tells has changed');
    this.#messages.add(operation);
    if (operation.entry.idempotency) this.parts.steps(addKey(operation.entry));
    this.parts.threads.keep(operation.entry, this.clock.stored(operation.entry.acceptedAt));
    this.#addEvents([operation.event]);
    if (operation.journal && this.#hasJournal) this.#journal.add(operation.journal);
  }

  #catchUp(): void {
    for (let slices = 0; slices < slicesForReader && this.#follower.unfiled > 0 && this.follow(); ) slices += 1;
  }

  #endReport({ report, until }: OperationOf<'endReport'>): boolean {
    if (until === undefined) return this.parts.steps(endReport(report));
    this.parts.steps(postponeReport(report, this.clock.stored(until)));
    return true;
  }

  #addEvents(events: readonly EncodedEvent[]): void {
    for (const event of events) {
      this.#events.add(event, this.clock.stored(event.at));
      this.#unfiled += 1;
    }
  }

  #searchEvents({ query }: OperationOf<'searchEvents'>): OperationResults['searchEvents'] {
    const { since, until } = query;
    return this.#events.search({
      ...query,
      since: since === undefined ? undefined : this.clock.stored(since),
      until: until === undefined ? undefined : this.clock.stored(until),
    });
  }

  #recover({ keepBodies, now }: OperationOf<'recover'>): number {
    this.ledger.write();
    // While another process works on the spool, its claims stay, and its unfinished adds have body files without a row.
    this.#lock.whileAlone(() => {
      if (this.#now) this.clock.begin(this.#now);
      spreadAll(this.#database, true);
      // Somebody has changed the tables: the mark may be wrong, too.
      if (!this.ledger.verify()) {
        spreadAll(this.#database, false);
        this.ledger.verify();
      }
      this.inFlight.recovered();
      this.statements.releaseAll.run();
      this.lines.wakeAll(this.clock.stored(now));
      this.#retention.removeOrphans(this.#bodies, new Set(keepBodies));
    });
    this.#retention.prune(now);
    this.ledger.write();
    return totalOf(this.ledger.read()).messages.queued;
  }
}
