// What the spool's thread can be asked (D90). Each call is a line here, and what may be sent to the thread follows from it
// (sqlite-protocol.ts). Calls that are verbs of `Spool` take what these take.

import type { DatabaseSync } from '../../base/database/sqlite-file.ts';
import { addKey, findKey, keepAnswer } from '../core/key-steps.ts';
import { dueReports, endReport } from '../core/report-steps.ts';
import { type EncodedEvent, encodeEvent } from '../encoded-event.ts';
import type { EventQuery, EventSearch } from '../events/event-store.ts';
import type { HoldRule } from '../hold.ts';
import type { WrittenJournal } from '../journal/writer/journal-of-event.ts';
import { SqliteJournal } from '../journal/writer/sqlite-journal.ts';
import type { ReportKey } from '../reports/report.ts';
import type { ClaimQuery, ListQuery, Spool } from '../spool.ts';
import type { KeptSettings } from '../spool-limits.ts';
import { totalOf } from '../tally.ts';
import { EventFollower } from './event-follower.ts';
import type { SpoolLock } from './file/sqlite-lock.ts';
import { spreadAll } from './in-flight.ts';
import { RecipientClaims } from './sqlite-claims.ts';
import { SqliteEvents } from './sqlite-events.ts';
import { StoredHolds } from './sqlite-holds.ts';
import { type AddCall, Attempts, StoredMessages } from './sqlite-messages.ts';
import { StoredQueue } from './sqlite-queue.ts';
import { Retention } from './sqlite-retention.ts';
import { SpoolPart, type SpoolTables } from './sqlite-tables.ts';

interface CallParts extends SpoolTables, KeptSettings {
  readonly database: DatabaseSync;
  readonly lock: SpoolLock;
  /** Folder of the bodies that are files; it need not exist. */
  readonly bodies: string;
}

/** The calls on one database. */
export abstract class StoreCalls extends SpoolPart<CallParts> {
  protected readonly messages = new StoredMessages(this.parts);
  protected readonly retention = new Retention({ ...this.parts, messages: this.messages });
  readonly #events = new SqliteEvents(this.parts.database);
  readonly #journal = new SqliteJournal(this.parts.database);
  protected readonly follower = new EventFollower(
    this.parts.database,
    this.parts.eventLimits,
    this.parts.hasJournal ? this.#journal : undefined,
  );
  readonly #holds = new StoredHolds(this.parts);
  readonly #claims = new RecipientClaims({ ...this.parts, messages: this.messages, holds: this.#holds });
  readonly #queue = new StoredQueue({ ...this.parts, messages: this.messages, holds: this.#holds });
  readonly #attempts = new Attempts({
    ...{ ...this.parts, messages: this.messages },
    write: (event) => this.#addEvents([encodeEvent(event)]),
  });
  /** Events that were written since they were last filed, about. */
  protected unfiled = 0;

  /** Makes what is made behind the commits, within a bound. */
  protected abstract catchUp(): void;

  protected begin(): void {
    for (const part of [this.messages, this.retention, this.lines, this.#holds, this.inFlight]) part.begin();
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
      this.retention.pruneSometimes(query.now);
      return this.#claims.claimDue(query);
    },
    turns: (query: Parameters<Spool['turns']>[0]) => {
      this.retention.pruneSometimes(query.now);
      return this.#claims.turns(query);
    },
    postpone: (turns: Parameters<Spool['postpone']>[0]): void => this.#claims.postpone(turns),
    strays: (query: Parameters<RecipientClaims['strays']>[0]) => this.#claims.strays(query),
    giveTransports: (...query: Parameters<RecipientClaims['giveTransports']>): void =>
      this.#claims.giveTransports(...query),
    release: (id: string, recipients: readonly string[]): void => this.#claims.release(id, recipients),
    addHold: (rule: HoldRule): void => this.#holds.add(rule),
    liftHold: (rule: Pick<HoldRule, 'kind' | 'value'>): boolean => this.#holds.lift(rule),
    recover: (keepBodies: readonly string[], now: number): number => this.#recover(keepBodies, now),
    retryMany: (...[picks, times]: Parameters<Spool['retryMany']>) => this.#attempts.retryMany(picks, times),
    drop: (id: string, now: number): boolean => this.#attempts.drop(id, now),
    endReport: (report: ReportKey, until?: number): boolean => this.parts.steps(endReport(this.clock, report, until)),
    answered: (...answer: Parameters<Spool['answered']>): void => this.parts.steps(keepAnswer(...answer)),
    /** Gives rows to the recipients of messages that have been in flight for too long, or of all (in-flight.ts). */
    settle: (isAll: boolean): void => this.inFlight.settle(isAll),
    /** Takes the lock that keeps other processes from removing this one's files (SpoolLock). */
    hold: (): void => undefined,
  };

  /** What only reads; it runs outside the transaction. */
  readonly reads = {
    load: (id: string) => this.#queue.load(id),
    list: (query: ListQuery) => this.#queue.list(query),
    show: (id: string) => this.#queue.show(id),
    tallies: () => this.ledger.read(),
    replacedIds: (account: string, ids: readonly string[], now: number) =>
      this.parts.threads.find(account, ids, this.clock.stored(now)),
    reportsDue: (query: Parameters<Spool['reportsDue']>[0]) => this.parts.steps(dueReports(this.clock, query)),
    holds: () => this.#holds.read(),
    oldest: () => this.#queue.oldest(),
    waiting: (limit: number) => this.#queue.waiting(limit),
    events: (query: EventQuery) => this.#events.read(query),
    searchEvents: (query: EventSearch) => this.#events.search(query, (time) => this.clock.stored(time)),
    newestEvent: () => this.#events.newest(),
    catchUp: () => this.catchUp(),
    eventNews: (after: number) => this.#events.news(after),
    usedKey: (...use: Parameters<typeof findKey>) => this.parts.steps(findKey(...use)),
  };

  #add(call: AddCall): void {
    const { entry, event, journal } = call;
    const { answers } = entry;
    // The report was made by another process, or more is to be reported: this one would be a second or a wrong one.
    if (answers && !this.parts.steps(endReport(this.clock, answers)))
      throw new Error('What this report tells has changed');
    this.messages.add(call);
    if (entry.idempotency) this.parts.steps(addKey(entry));
    this.parts.threads.keep(entry, this.clock.stored(entry.acceptedAt));
    this.#addEvents([event]);
    if (journal && this.parts.hasJournal) this.#journal.add(journal);
  }

  #addEvents(events: readonly EncodedEvent[]): void {
    for (const event of events) this.#events.add(event, this.clock.stored(event.at));
    this.unfiled += events.length;
  }

  #recover(keepBodies: readonly string[], now: number): number {
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
      this.retention.removeOrphans(bodies, new Set(keepBodies));
    });
    this.retention.prune(now);
    this.ledger.write();
    return totalOf(this.ledger.read()).messages.queued;
  }
}
