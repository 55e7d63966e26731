// The spool's statements on a SQLite database, synchronous: what the worker thread runs (D90). One transaction for
// everything that has come in; it is told to the caller only after COMMIT has returned, which is after the fsync.

import { type Dirent, readdirSync, unlinkSync } from 'node:fs';
import { join } from 'node:path';
import type { ClockReading } from '../../base/clock.ts';
import { failureOf, isBusy } from '../../base/database/sqlite-errors.ts';
import type { DatabaseSync } from '../../base/database/sqlite-file.ts';
import { migrateSqlite } from '../../base/database/sqlite-file.ts';
import { errorCode } from '../../base/errors.ts';
import { defaultEventLimits, type EventLimits } from '../../events/event-store.ts';
import { failedRetentionMilliseconds } from '../lease.ts';
import {
  type DueMessage,
  distinctRecipients,
  type QueueItem,
  type QueuePage,
  type RecipientState,
  type RetryCount,
  type RetryPick,
} from '../spool.ts';
import { type SpoolLimits, unlimited } from '../spool-limits.ts';
import { countStates, type StateCounts, tallyOf, totalOf } from '../tally.ts';
import { SpoolClock } from './sqlite-clock.ts';
import { type PackedEvent, SqliteEvents } from './sqlite-events.ts';
import { SqliteKeys } from './sqlite-keys.ts';
import { Ledger } from './sqlite-ledger.ts';
import type { SpoolLock } from './sqlite-lock.ts';
import type {
  EntryMeta,
  OperationFailure,
  OperationOutcome,
  OperationResults,
  PackedOutcome,
  ReadOperation,
  RemovedFailures,
  StoreOperation,
  Stray,
  WriteOperation,
  WriteResult,
} from './sqlite-protocol.ts';
import {
  entryOf,
  integer,
  octets,
  type Row,
  recipientOf,
  stateAfter,
  stateNumbers,
  stateOf,
  strayOf,
  text,
} from './sqlite-rows.ts';
import { spoolMigrations } from './sqlite-schema.ts';
import { prepareStatements, type Statements } from './sqlite-statements.ts';

const pruneEveryMilliseconds = 60 * 60 * 1000;
/** Messages removed in one transaction at most; what is left waits for the next. */
const removedAtOnce = 500;
/** Messages that one page of a list looks at. */
const examinedAtOnce = 2000;
/** With more recipients than this a page of a list is full. */
const listedRecipientsAtOnce = 5000;
/** Sorts behind every id. */
const behindEveryId = '\u{10ffff}';

type Of<Kind extends StoreOperation['kind']> = Extract<StoreOperation, { kind: Kind }>;

/** A claim looks at no more rows than this, so that messages of very many recipients do not hold up the others. */
const mostDueRows = 10_000;

const needsLock: ReadonlySet<string> = new Set(['add', 'claimDue', 'hold']);

function escapeLike(search: string): string {
  return `%${search.replace(/[\\%_]/g, '\\$&')}%`;
}

function failure(thrown: unknown): OperationOutcome {
  return { error: failureOf(thrown) };
}

/** The spool in one database. It owns nothing but its prepared statements; the caller closes database and lock. */
export class SqliteStore {
  readonly #clock: SpoolClock;
  /** Milliseconds between a wall time and the same time as it is stored, in what is being done now. */
  #offset = 0;
  #now: ClockReading | undefined;
  /** When it was told, by this thread's own clock. */
  #toldAt = 0;
  readonly #database: DatabaseSync;
  readonly #lock: SpoolLock;
  readonly #bodies: string;
  readonly #statements: Statements;
  readonly #ledger: Ledger;
  readonly #keys: SqliteKeys;
  readonly #events: SqliteEvents;
  readonly #limits: SpoolLimits;
  readonly #removed = new Map<string, RemovedFailures>();
  /** Accounts that may have too many failed messages. */
  readonly #grown = new Set<string>();
  #gone: string[] = [];
  #prunedAt = 0;

  /**
   * Brings the tables up to date.
   * @param options.bodies folder of the bodies that are files; it need not exist
   * @param options.limits none if absent
   */
  constructor(options: {
    readonly database: DatabaseSync;
    readonly lock: SpoolLock;
    readonly bodies: string;
    readonly limits?: SpoolLimits;
    readonly eventLimits?: EventLimits;
  }) {
    this.#database = options.database;
    this.#lock = options.lock;
    this.#bodies = options.bodies;
    migrateSqlite(this.#database, spoolMigrations);
    this.#statements = prepareStatements(this.#database);
    this.#keys = new SqliteKeys(this.#database);
    this.#events = new SqliteEvents(this.#database, options.eventLimits ?? defaultEventLimits);
    this.#clock = new SpoolClock(this.#database);
    this.#ledger = new Ledger(this.#database);
    this.#limits = options.limits ?? unlimited;
  }

  /**
   * Runs operations in one transaction. If one fails, all are undone and each is tried again in a transaction of its
   * own, so that it fails alone.
   * @param now the time; without it, it is not looked at whether the clock was set
   */
  write(operations: readonly WriteOperation[], now?: ClockReading): WriteResult {
    try {
      this.#now = now;
      this.#toldAt = performance.now();
      if (now) this.#clock.observe(now);
      for (const operation of operations) {
        if (needsLock.has(operation.kind)) this.#lock.hold();
      }
      return this.#transaction(operations);
    } catch (thrown) {
      // Where the time was spent waiting for another process, it would be spent again on each.
      if (operations.length === 1 || isBusy(thrown)) {
        return {
          outcomes: operations.map(() => failure(thrown)),
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
      this.#offset = this.#clock.offset;
      return { value: this.#read(operation) };
    } catch (thrown) {
      return failure(thrown);
    }
  }

  #transaction(operations: readonly WriteOperation[]): WriteResult {
    this.#gone = [];
    this.#removed.clear();
    this.#grown.clear();
    this.#database.exec('BEGIN IMMEDIATE');
    try {
      this.#offset = this.#clock.offset;
      const outcomes = operations.map((operation) => this.#outcome(operation));
      this.#removeSurplus();
      this.#events.finish(this.#stored(this.#now?.wall ?? Number.NEGATIVE_INFINITY));
      this.#ledger.write();
      this.#database.exec('COMMIT');
      return { outcomes, orphanedBodies: this.#gone, removed: [...this.#removed.values()], isBusy: false };
    } catch (thrown) {
      // SQLite has already rolled back by itself after a full disk or an I/O error.
      if (this.#database.isTransaction) this.#database.exec('ROLLBACK');
      this.#ledger.undo();
      this.#events.undo();
      throw thrown;
    }
  }

  /**
   * Removes some of the events that are too many or too old, where there are such; nothing before the first write, which
   * tells the time. @throws what SQLite throws
   */
  pruneEvents(): void {
    if (!this.#now) return;
    const passed = performance.now() - this.#toldAt;
    const now = { wall: this.#now.wall + passed, monotonic: this.#now.monotonic + passed };
    this.#offset = this.#clock.offset;
    if (!this.#events.hasSurplus(this.#stored(now.wall))) return;
    [this.#now, this.#toldAt] = [now, performance.now()];
    this.#transaction([]);
  }

  /** Writes something, to find out whether anything can be written. @throws what SQLite throws */
  probe(now: number): void {
    this.#statements.probe.run(now);
  }

  /** What is refused for what the store holds already is no failure of the batch: the others are not undone for it. */
  #outcome(operation: WriteOperation): OperationOutcome {
    const refused = operation.kind === 'add' ? this.#overQuota(operation) : undefined;
    return refused ? { error: refused } : { value: this.#apply(operation) };
  }

  #overQuota({ entry, size }: Of<'add'>): OperationFailure | undefined {
    const { queuedMessages, queuedBytes = Number.POSITIVE_INFINITY } = this.#limits;
    if (queuedMessages === Number.POSITIVE_INFINITY && queuedBytes === Number.POSITIVE_INFINITY) return undefined;
    const { messages, octets: held } = this.#ledger.of(entry.account);
    if (messages.queued < queuedMessages && held.queued + size <= queuedBytes) return undefined;
    const message = `Account ${entry.account} has ${messages.queued} messages queued with ${held.queued} octets; the limits are ${queuedMessages} and ${queuedBytes}`;
    return { message, code: 'SPOOL_QUOTA', unavailable: 'room' };
  }

  /** Removes the oldest failed messages of accounts that have too many; what is left over goes in a later transaction. */
  #removeSurplus(): void {
    const { failedMessages, failedBytes } = this.#limits;
    let left = removedAtOnce;
    for (const account of this.#grown) {
      for (;;) {
        const { messages, octets: held } = this.#ledger.of(account);
        if (left === 0 || (messages.failed <= failedMessages && held.failed <= failedBytes)) break;
        const [oldest] = this.#statements.oldestFailures.all(account, 1);
        if (!oldest) break;
        this.#forget(oldest);
        left -= 1;
        const sum = this.#removed.get(account) ?? { account, messages: 0, octets: 0 };
        const size = integer(oldest, 'size');
        this.#removed.set(account, { account, messages: sum.messages + 1, octets: sum.octets + size });
      }
    }
  }

  #apply(operation: WriteOperation): OperationResults[WriteOperation['kind']] {
    let result: OperationResults[WriteOperation['kind']];
    switch (operation.kind) {
      case 'add':
        result = this.#add(operation);
        break;
      case 'record':
        result = this.#record(operation.outcomes, operation.now);
        break;
      case 'refusals':
        for (const event of operation.events) this.#addEvent(event);
        result = null;
        break;
      case 'claimDue':
        result = this.#claimDue(operation);
        break;
      case 'giveTransports':
        result = this.#giveTransports(operation);
        break;
      case 'release':
        result = this.#release(operation);
        break;
      case 'recover':
        result = this.#recover(operation);
        break;
      case 'retry':
        result = this.#retry(operation);
        break;
      case 'retryMany':
        result = this.#retryMany(operation);
        break;
      case 'drop':
        result = this.#drop(operation.id);
        break;
      case 'answered':
        this.#keys.answered(operation, operation.answer);
        result = null;
        break;
      case 'hold':
        result = null;
        break;
    }
    return result;
  }

  #read(operation: ReadOperation): OperationResults[ReadOperation['kind']] {
    let result: OperationResults[ReadOperation['kind']];
    switch (operation.kind) {
      case 'load':
        result = this.#load(operation.id);
        break;
      case 'list':
        result = this.#list(operation);
        break;
      case 'show':
        result = this.#show(operation.id);
        break;
      case 'tallies':
        result = this.#ledger.read();
        break;
      case 'events':
        result = this.#events.read(operation);
        break;
      case 'newestEvent':
        result = this.#events.newest();
        break;
      case 'usedKey':
        result = this.#keys.find(operation, operation.now);
        break;
      case 'strays':
        result = this.#strays(operation);
        break;
    }
    return result;
  }

  #addEvent(event: PackedEvent): void {
    this.#events.add(event, this.#stored(event.at));
  }

  #add({ entry, event, claimUntil, size, head, body }: Of<'add'>): null {
    const { lastInsertRowid } = this.#statements.addMessage.run(
      entry.id,
      entry.account,
      entry.credential,
      entry.sessionId,
      entry.messageId,
      entry.clientMessageId ?? null,
      entry.reversePath,
      entry.senderPath,
      entry.smtputf8 ? 1 : 0,
      entry.requireTls ? 1 : 0,
      entry.acceptedAt,
      this.#stored(entry.expiresAt),
      entry.platformSignature?.start ?? null,
      entry.platformSignature?.end ?? null,
      size,
      body ? 0 : 1,
      head,
      body ?? null,
      entry.origin?.via ?? null,
      entry.origin?.clientAddress ?? null,
      entry.origin?.helo ?? null,
    );
    const recipients = distinctRecipients(entry);
    const dueAt = this.#stored(entry.acceptedAt);
    for (const [position, { address, transport }] of recipients.entries()) {
      this.#statements.addRecipient.run(lastInsertRowid, position, address, dueAt, this.#stored(claimUntil), transport);
    }
    this.#ledger.change(
      entry.account,
      tallyOf(size, undefined),
      tallyOf(size, { queued: recipients.length, delivered: 0, failed: 0 }),
    );
    this.#keys.add(entry);
    this.#addEvent(event);
    return null;
  }

  #record(outcomes: readonly PackedOutcome[], now: number): null {
    const byMessage = new Map<string, PackedOutcome[]>();
    for (const outcome of outcomes) {
      this.#addEvent(outcome.event);
      const others = byMessage.get(outcome.queueId);
      if (others) others.push(outcome);
      else byMessage.set(outcome.queueId, [outcome]);
    }
    for (const [id, group] of byMessage) this.#recordMessage(id, group, now);
    return null;
  }

  #recordMessage(id: string, outcomes: readonly PackedOutcome[], now: number): void {
    const rows = this.#statements.states.all(id);
    const [message] = rows;
    // Dropped meanwhile by a command beside the server (D94).
    if (!message) return;
    const byAddress = new Map(outcomes.map((outcome) => [outcome.recipient, outcome]));
    const before = rows.map(stateOf);
    const after = rows.map((row, at): RecipientState => {
      const outcome = byAddress.get(text(row, 'address'));
      const state = before[at] ?? 'queued';
      return outcome && state !== 'delivered' ? stateAfter(outcome.kind) : state;
    });
    if (after.every((state) => state === 'delivered')) {
      this.#forget({ ...message, id }, countStates(before));
      return;
    }
    for (const [at, row] of rows.entries()) {
      const outcome = byAddress.get(text(row, 'address'));
      if (!outcome || before[at] === 'delivered') continue;
      const { kind, reply, host } = outcome;
      this.#statements.record.run(
        stateNumbers[stateAfter(kind)],
        this.#stored(outcome.nextAttemptAt ?? now),
        kind === 'deferred' ? null : this.#stored(now),
        reply.code,
        reply.enhanced ?? null,
        reply.text,
        host,
        integer(row, 'seq'),
        integer(row, 'position'),
      );
    }
    this.#changed(message, { before: countStates(before), after: countStates(after), now });
  }

  /** Keeps the account's numbers, and the list of messages that are kept as failed, after recipients changed state. */
  #changed(
    message: Row,
    { before, after, now }: { readonly before: StateCounts; readonly after: StateCounts; readonly now: number },
  ): void {
    const [seq, account, size] = [integer(message, 'seq'), text(message, 'account'), integer(message, 'size')];
    this.#ledger.change(account, tallyOf(size, before), tallyOf(size, after));
    if (after.queued === 0) {
      this.#statements.keepFailure.run(seq, account, this.#stored(now), size);
      this.#grown.add(account);
    }
    if (after.queued > 0 && before.queued === 0) this.#statements.forgetFailure.run(seq);
  }

  #stateCounts(seq: number): StateCounts {
    const counts = { queued: 0, delivered: 0, failed: 0 };
    for (const row of this.#statements.stateCounts.all(seq)) counts[stateOf(row)] = integer(row, 'recipients');
    return counts;
  }

  /** Removes a message. @param message a row with id, seq, account, size and body_in_file */
  #forget(message: Row, states = this.#stateCounts(integer(message, 'seq'))): void {
    const seq = integer(message, 'seq');
    if (states.queued === 0) this.#statements.forgetFailure.run(seq);
    this.#statements.forgetRecipients.run(seq);
    this.#statements.forgetMessage.run(seq);
    const size = integer(message, 'size');
    this.#ledger.change(text(message, 'account'), tallyOf(size, states), tallyOf(size, undefined));
    if (integer(message, 'body_in_file') === 1) this.#gone.push(text(message, 'id'));
  }

  #claimDue({ now, limit, claimUntil, transport = '' }: Of<'claimDue'>): readonly DueMessage[] {
    if (now - this.#prunedAt > pruneEveryMilliseconds) this.#prune(now);
    const seqs = new Set<number>();
    let looked = 0;
    for (const row of this.#statements.due.iterate(transport, this.#stored(now))) {
      seqs.add(integer(row, 'message'));
      looked += 1;
      if (seqs.size >= limit || looked >= mostDueRows) break;
    }
    const messages: DueMessage[] = [];
    for (const seq of seqs) {
      const row = this.#statements.entryBySeq.get(seq);
      if (!row) continue;
      const due = this.#statements.dueOf.all(seq, transport, this.#stored(now));
      this.#statements.claim.run(this.#stored(claimUntil), seq, transport, this.#stored(now));
      messages.push({
        entry: this.#entry(row, this.#addresses(seq)),
        size: integer(row, 'size'),
        due: due.map((recipient) => ({
          address: text(recipient, 'address'),
          attempts: integer(recipient, 'attempts'),
        })),
      });
    }
    return messages;
  }

  #giveTransports({ given }: Of<'giveTransports'>): null {
    for (const { transport, message, position } of given)
      this.#statements.giveTransport.run(transport, message, position);
    return null;
  }

  #strays({ now, limit, transports }: Of<'strays'>): readonly Stray[] {
    const strays: Stray[] = [];
    const known = new Set(transports);
    let transport: unknown = '';
    while (typeof transport === 'string' && strays.length < limit) {
      const rows = known.has(transport)
        ? []
        : this.#statements.dueInTransport.all(transport, this.#stored(now), limit - strays.length);
      for (const row of rows) strays.push(strayOf(row));
      transport = this.#statements.nextTransport.get(transport)?.['lane'];
    }
    return strays;
  }

  #addresses(seq: number): readonly string[] {
    return this.#statements.recipients.all(seq).map((row) => text(row, 'address'));
  }

  /** A message with its times as the wall clock tells them. */
  #entry(row: Row, recipients: readonly string[]): EntryMeta {
    const stored = entryOf(row, recipients);
    return { ...stored, expiresAt: stored.expiresAt + this.#offset };
  }

  /** A wall time as it is stored (SpoolClock). */
  #stored(wallTime: number): number {
    return wallTime - this.#offset;
  }

  #release({ id, recipients }: Of<'release'>): null {
    const wanted = new Set(recipients);
    // One look at the message's rows: a look for each address would cost the square of their number.
    for (const row of this.#statements.states.all(id)) {
      if (wanted.has(text(row, 'address'))) {
        this.#statements.release.run(integer(row, 'seq'), integer(row, 'position'));
      }
    }
    return null;
  }

  #recover({ keepBodies, now }: Of<'recover'>): number {
    this.#ledger.write();
    this.#ledger.verify();
    this.#prune(now);
    // While another process works on the spool, its claims hold and its unfinished adds have body files without a row.
    this.#lock.whileAlone(() => {
      if (this.#now) this.#clock.begin(this.#now);
      this.#statements.releaseAll.run();
      this.#removeOrphans(new Set(keepBodies));
    });
    this.#ledger.write();
    return totalOf(this.#ledger.read()).messages.queued;
  }

  #removeOrphans(keep: ReadonlySet<string>): void {
    let entries: Dirent[];
    try {
      entries = readdirSync(this.#bodies, { withFileTypes: true });
    } catch (thrown) {
      if (errorCode(thrown) === 'ENOENT') return;
      throw thrown;
    }
    for (const entry of entries) {
      // A folder is none of ours: `lost+found`, where the bodies have a file system of their own.
      if (!entry.isFile() || keep.has(entry.name) || this.#statements.entry.get(entry.name)) continue;
      unlinkSync(join(this.#bodies, entry.name));
    }
  }

  #prune(now: number): void {
    const rows = this.#statements.prunable.all(this.#stored(now) - failedRetentionMilliseconds, removedAtOnce);
    for (const row of rows) this.#forget(row);
    // A limit may be lower than at the last start.
    for (const { account } of this.#ledger.read()) this.#grown.add(account);
    // More may be too old: the next claim goes on.
    const moreKeys = this.#keys.prune(now, removedAtOnce);
    this.#prunedAt = rows.length === removedAtOnce || moreKeys ? 0 : now;
  }

  #retry({ id, now, expiresAt }: Of<'retry'>): boolean {
    return this.#retryMessage({ id }, { now, expiresAt }) !== undefined;
  }

  #retryMany({ picks, now, expiresAt }: Of<'retryMany'>): RetryCount {
    const sum = { messages: 0, recipients: 0, failed: 0 };
    for (const pick of picks) {
      const made = this.#retryMessage(pick, { now, expiresAt });
      if (!made || made.recipients === 0) continue;
      sum.messages += 1;
      sum.recipients += made.recipients;
      sum.failed += made.failed;
    }
    return sum;
  }

  /** @returns how many recipients are due now; undefined when there is no such message */
  #retryMessage(
    { id, recipients }: RetryPick,
    { now, expiresAt }: { readonly now: number; readonly expiresAt: number },
  ): Omit<RetryCount, 'messages'> | undefined {
    const rows = this.#statements.states.all(id);
    const [message] = rows;
    if (!message) return undefined;
    const seq = integer(message, 'seq');
    const wanted = recipients && new Set(recipients);
    const before = rows.map(stateOf);
    const after = [...before];
    let due = 0;
    for (const [at, row] of rows.entries()) {
      if (before[at] === 'delivered' || wanted?.has(text(row, 'address')) === false) continue;
      const statement = before[at] === 'failed' ? this.#statements.requeueOne : this.#statements.makeOneDue;
      statement.run(this.#stored(now), seq, integer(row, 'position'));
      after[at] = 'queued';
      due += 1;
    }
    if (due === 0) return { recipients: 0, failed: 0 };
    this.#statements.extend.run(this.#stored(expiresAt), seq);
    const [counts, left] = [countStates(before), countStates(after)];
    this.#changed(message, { before: counts, after: left, now });
    return { recipients: due, failed: counts.failed - left.failed };
  }

  #drop(id: string): boolean {
    const row = this.#statements.entry.get(id);
    if (!row) return false;
    this.#forget(row);
    return true;
  }

  #load(id: string): OperationResults['load'] {
    const row = this.#statements.octets.get(id);
    return row && { head: octets(row, 'head'), body: row['body_in_file'] === 1 ? undefined : octets(row, 'body') };
  }

  #show(id: string): QueueItem | undefined {
    const row = this.#statements.entry.get(id);
    return row && this.#item(row);
  }

  #list({ state, search, limit, after = '' }: Of<'list'>): QueuePage {
    const stateNumber = state === undefined ? -1 : stateNumbers[state];
    const pattern = search === undefined ? '%' : escapeLike(search);
    const end = this.#statements.endOfSlice.get(after, examinedAtOnce - 1);
    const endId = end ? text(end, 'id') : behindEveryId;
    const items: QueueItem[] = [];
    let recipients = 0;
    for (const row of this.#statements.list.all(after, stateNumber, pattern, limit, endId)) {
      const item = this.#item(row);
      items.push(item);
      recipients += item.recipients.length;
      if (recipients > listedRecipientsAtOnce) break;
    }
    const last = items.at(-1)?.entry.id;
    if (last !== undefined && (items.length === limit || recipients > listedRecipientsAtOnce))
      return { items, next: last };
    return end ? { items, next: endId } : { items };
  }

  #item(row: Row): QueueItem {
    const { recipients: _, ...entry } = this.#entry(row, []);
    const recipients = this.#statements.recipients.all(integer(row, 'seq')).map((recipient) => {
      const stored = recipientOf(recipient);
      return { ...stored, nextAttemptAt: stored.nextAttemptAt + this.#offset };
    });
    return { entry, size: integer(row, 'size'), recipients };
  }
}
