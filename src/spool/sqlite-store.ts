// The spool's statements on a SQLite database, synchronous: what the worker thread runs (D90). One transaction for
// everything that has come in; it is told to the caller only after COMMIT has returned, which is after the fsync.

import { type Dirent, readdirSync, unlinkSync } from 'node:fs';
import { join } from 'node:path';
import type { ClockReading } from '../base/clock.ts';
import type { DatabaseSync } from '../base/database.ts';
import { migrate } from '../base/database.ts';
import { errorCode, errorMessage } from '../base/errors.ts';
import { addKey } from './idempotency-keys.ts';
import { failedRetentionMilliseconds } from './lease.ts';
import { type AttemptRecord, type DueMessage, distinctRecipients, type QueueItem } from './spool.ts';
import { SpoolClock } from './sqlite-clock.ts';
import { isBusy, type SpoolLock } from './sqlite-lock.ts';
import type {
  EntryMeta,
  OperationOutcome,
  OperationResults,
  ReadOperation,
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
  strayOf,
  text,
} from './sqlite-rows.ts';
import { spoolMigrations } from './sqlite-schema.ts';
import { prepareStatements, type Statements } from './sqlite-statements.ts';

const pruneEveryMilliseconds = 60 * 60 * 1000;

type Of<Kind extends StoreOperation['kind']> = Extract<StoreOperation, { kind: Kind }>;

/** A claim looks at no more rows than this, so that messages of very many recipients do not hold up the others. */
const mostDueRows = 10_000;

const needsLock: ReadonlySet<string> = new Set(['add', 'claimDue', 'hold']);

function escapeLike(search: string): string {
  return `%${search.replace(/[\\%_]/g, '\\$&')}%`;
}

function failure(thrown: unknown): OperationOutcome {
  const code = errorCode(thrown);
  return { error: { message: errorMessage(thrown), ...(code === undefined ? {} : { code }) } };
}

/** The spool in one database. It owns nothing but its prepared statements; the caller closes database and lock. */
export class SqliteStore {
  readonly #clock: SpoolClock;
  /** Milliseconds between a wall time and the same time as it is stored, in what is being done now. */
  #offset = 0;
  #now: ClockReading | undefined;
  readonly #database: DatabaseSync;
  readonly #lock: SpoolLock;
  readonly #bodies: string;
  readonly #statements: Statements;
  #gone: string[] = [];
  #prunedAt = 0;

  /**
   * Brings the tables up to date.
   * @param options.bodies folder of the bodies that are files; it need not exist
   */
  constructor(options: { readonly database: DatabaseSync; readonly lock: SpoolLock; readonly bodies: string }) {
    this.#database = options.database;
    this.#lock = options.lock;
    this.#bodies = options.bodies;
    migrate(this.#database, spoolMigrations);
    this.#statements = prepareStatements(this.#database);
    this.#clock = new SpoolClock(this.#database);
  }

  /**
   * Runs operations in one transaction. If one fails, all are undone and each is tried again in a transaction of its
   * own, so that it fails alone.
   * @param now the time; without it, it is not looked at whether the clock was set
   */
  write(operations: readonly WriteOperation[], now?: ClockReading): WriteResult {
    try {
      this.#now = now;
      if (now) this.#clock.observe(now);
      for (const operation of operations) {
        if (needsLock.has(operation.kind)) this.#lock.hold();
      }
      return this.#transaction(operations);
    } catch (thrown) {
      // Where the time was spent waiting for another process, it would be spent again on each.
      if (operations.length === 1 || isBusy(thrown)) {
        return { outcomes: operations.map(() => failure(thrown)), orphanedBodies: [] };
      }
      const singles = operations.map((operation) => this.write([operation], now));
      return {
        outcomes: singles.flatMap((single) => single.outcomes),
        orphanedBodies: singles.flatMap((single) => single.orphanedBodies),
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
    this.#database.exec('BEGIN IMMEDIATE');
    try {
      this.#offset = this.#clock.offset;
      const outcomes = operations.map((operation) => ({ value: this.#apply(operation) }));
      this.#database.exec('COMMIT');
      return { outcomes, orphanedBodies: this.#gone };
    } catch (thrown) {
      // SQLite has already rolled back by itself after a full disk or an I/O error.
      if (this.#database.isTransaction) this.#database.exec('ROLLBACK');
      throw thrown;
    }
  }

  #apply(operation: WriteOperation): OperationResults[WriteOperation['kind']] {
    let result: OperationResults[WriteOperation['kind']];
    switch (operation.kind) {
      case 'add':
        result = this.#add(operation);
        break;
      case 'record':
        result = this.#record(operation.records, operation.now);
        break;
      case 'claimDue':
        result = this.#claimDue(operation);
        break;
      case 'giveLanes':
        result = this.#giveLanes(operation);
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
      case 'drop':
        result = this.#drop(operation.id);
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
      case 'counts':
        result = this.#counts();
        break;
      case 'strays':
        result = this.#strays(operation);
        break;
    }
    return result;
  }

  #add({ entry, claimUntil, size, head, body }: Of<'add'>): null {
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
    );
    for (const [position, { address, lane }] of distinctRecipients(entry).entries()) {
      const dueAt = this.#stored(entry.acceptedAt);
      this.#statements.addRecipient.run(lastInsertRowid, position, address, dueAt, this.#stored(claimUntil), lane);
    }
    addKey(this.#statements.addKey, entry);
    return null;
  }

  #record(records: readonly AttemptRecord[], now: number): null {
    const byMessage = new Map<string, AttemptRecord[]>();
    for (const record of records) {
      const others = byMessage.get(record.id);
      if (others) others.push(record);
      else byMessage.set(record.id, [record]);
    }
    for (const [id, group] of byMessage) this.#recordMessage(id, group, now);
    return null;
  }

  #recordMessage(id: string, records: readonly AttemptRecord[], now: number): void {
    const rows = this.#statements.states.all(id);
    const seq = rows[0]?.['seq'];
    // Dropped meanwhile by a command beside the server (D94).
    if (typeof seq !== 'number') return;
    const byAddress = new Map(records.map((record) => [record.recipient, record]));
    const isDelivered = (row: Row): boolean =>
      row['state'] === stateNumbers.delivered || byAddress.get(text(row, 'address'))?.outcome.kind === 'delivered';
    if (rows.every(isDelivered)) {
      this.#forget(id, seq, integer(rows[0] ?? {}, 'body_in_file') === 1);
      return;
    }
    for (const row of rows) {
      const record = byAddress.get(text(row, 'address'));
      if (!record || row['state'] === stateNumbers.delivered) continue;
      const { kind, reply, host } = record.outcome;
      this.#statements.record.run(
        stateNumbers[stateAfter(kind)],
        this.#stored(record.nextAttemptAt ?? now),
        kind === 'deferred' ? null : this.#stored(now),
        reply.code,
        reply.enhanced ?? null,
        reply.text,
        host,
        seq,
        integer(row, 'position'),
      );
    }
  }

  #forget(id: string, seq: number, bodyInFile: boolean): void {
    this.#statements.forgetRecipients.run(seq);
    this.#statements.forgetMessage.run(seq);
    if (bodyInFile) this.#gone.push(id);
  }

  #claimDue({ now, limit, claimUntil, lane = '' }: Of<'claimDue'>): readonly DueMessage[] {
    if (now - this.#prunedAt > pruneEveryMilliseconds) this.#prune(now);
    const seqs = new Set<number>();
    let looked = 0;
    for (const row of this.#statements.due.iterate(lane, this.#stored(now))) {
      seqs.add(integer(row, 'message'));
      looked += 1;
      if (seqs.size >= limit || looked >= mostDueRows) break;
    }
    const messages: DueMessage[] = [];
    for (const seq of seqs) {
      const row = this.#statements.entryBySeq.get(seq);
      if (!row) continue;
      const due = this.#statements.dueOf.all(seq, lane, this.#stored(now));
      this.#statements.claim.run(this.#stored(claimUntil), seq, lane, this.#stored(now));
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

  #giveLanes({ given }: Of<'giveLanes'>): null {
    for (const { lane, message, position } of given) this.#statements.giveLane.run(lane, message, position);
    return null;
  }

  #strays({ now, limit, lanes }: Of<'strays'>): readonly Stray[] {
    const strays: Stray[] = [];
    const known = new Set(lanes);
    let lane: unknown = '';
    while (typeof lane === 'string' && strays.length < limit) {
      const rows = known.has(lane)
        ? []
        : this.#statements.dueInLane.all(lane, this.#stored(now), limit - strays.length);
      for (const row of rows) strays.push(strayOf(row));
      lane = this.#statements.nextLane.get(lane)?.['lane'];
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
    this.#prune(now);
    // While another process works on the spool, its claims hold and its unfinished adds have body files without a row.
    this.#lock.whileAlone(() => {
      if (this.#now) this.#clock.begin(this.#now);
      this.#statements.releaseAll.run();
      this.#removeOrphans(new Set(keepBodies));
    });
    return this.#counts().queued;
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
    this.#prunedAt = now;
    for (const row of this.#statements.prunable.all(this.#stored(now) - failedRetentionMilliseconds)) {
      this.#forget(text(row, 'id'), integer(row, 'seq'), integer(row, 'body_in_file') === 1);
    }
  }

  #retry({ id, now, expiresAt }: Of<'retry'>): boolean {
    const row = this.#statements.entry.get(id);
    if (!row) return false;
    const seq = integer(row, 'seq');
    this.#statements.requeueFailed.run(this.#stored(now), seq);
    this.#statements.makeDue.run(this.#stored(now), seq);
    this.#statements.extend.run(this.#stored(expiresAt), seq);
    return true;
  }

  #drop(id: string): boolean {
    const row = this.#statements.entry.get(id);
    if (!row) return false;
    this.#forget(id, integer(row, 'seq'), integer(row, 'body_in_file') === 1);
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

  #counts(): OperationResults['counts'] {
    const row: Row = this.#statements.counts.get() ?? {};
    const queued = integer(row, 'queued');
    return { queued, failed: integer(row, 'messages') - queued };
  }

  #list({ state, search, limit, after }: Of<'list'>): readonly QueueItem[] {
    const stateNumber = state === undefined ? -1 : stateNumbers[state];
    const pattern = search === undefined ? '%' : escapeLike(search);
    return this.#statements.list.all(after ?? '', stateNumber, pattern, limit).map((row) => this.#item(row));
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
