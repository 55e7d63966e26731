// Runs the requests on the embedded database's thread. Reads are answered at once, on a connection of their own. Changes and
// transactions run one after another, and wait for locks of other programs without blocking the thread.

import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { SqliteFiles } from '../fault/sqlite-files.ts';
import { RecentMap } from '../recent-map.ts';
import type { Attempt, Change, Row } from './database.ts';
import type { DatabaseReply, DatabaseRequest, DatabaseTimes, DatabaseWorkerData, Wanted } from './sqlite-database.ts';
import { constraintOf, type DatabaseFailure, failureOf, isBusy, isUnreadable } from './sqlite-errors.ts';
import { migrateSqlite, openSqliteFile } from './sqlite-file.ts';

/** How many prepared statements are kept. All stores together use about half as many. */
const mostPrepared = 256;

/** A connection that runs statements with numbered parameters. */
class SqliteConnection {
  readonly database: DatabaseSync;
  readonly #prepared = new RecentMap<string, StatementSync>(mostPrepared);

  constructor(database: DatabaseSync) {
    this.database = database;
  }

  /** Runs a statement. @throws what SQLite throws, except that an attempt returns a violated constraint */
  run({ sql, params = [] }: Change, wanted: Wanted): readonly Row[] | number | Attempt {
    if (wanted === 'rows') return this.#prepare(sql).all(...params);
    if (wanted !== 'attempt') return Number(this.#prepare(sql).run(...params).changes);
    try {
      return { changes: Number(this.#prepare(sql).run(...params).changes) };
    } catch (thrown) {
      const stoppedBy = constraintOf(thrown);
      if (!stoppedBy || !(thrown instanceof Error)) throw thrown;
      return { stoppedBy, text: thrown.message };
    }
  }

  #prepare(sql: string): StatementSync {
    // `$1` would be a name for SQLite, which looks for each among all of the statement: a million comparisons for a thousand.
    const statement = this.#prepared.get(sql) ?? this.database.prepare(sql.replaceAll(/\$(?=\d)/g, '?'));
    this.#prepared.set(sql, statement);
    return statement;
  }
}

/** How long a read waits where another program locks out readers, too, as it does for a moment during recovery. */
const readPatienceMs = 1000;
/** Milliseconds between two tries for a lock that another program holds. SQLite's own wait would block reads, too. */
const lockPauseMs = 2;
/** For how many milliseconds changes follow one another, and how long then none does: questions and other processes come through. */
const sliceMs = 50;
const restMs = 2 * lockPauseMs;
/** Milliseconds between two checks whether a request has waited too long behind a transaction of our own. */
const queuePauseMs = 50;
/** How many changes share one transaction, and so one sync, at most. */
const mostTogether = 256;

type Of<Kind extends DatabaseRequest['kind']> = Extract<DatabaseRequest, { readonly kind: Kind }>;
type Waiting = (Of<'write'> | Of<'begin'> | Of<'migrate'>) & { readonly until: number };

const locked: DatabaseFailure = {
  message: 'Another program holds the lock on the database',
  unavailable: 'store',
  stopsChanges: true,
};
const crowded: DatabaseFailure = { message: 'Other changes of the database took too long', unavailable: 'store' };
const undone: DatabaseFailure = { message: 'The transaction has ended: it failed or took too long, and was undone' };

/** Runs requests on one database. */
export class SqliteExecutor {
  readonly #writing: SqliteConnection;
  /** The connection for reads. For a database in memory, which no second connection can open, it is the writing one. */
  readonly #reading: SqliteConnection;
  /** Absent for a database in memory. */
  readonly #files: SqliteFiles | undefined;
  readonly #times: DatabaseTimes;
  readonly #post: (replies: readonly DatabaseReply[]) => void;
  /** Changes and transactions that wait, in the order in which they came, which is also the order of `until`. */
  readonly #queue: Waiting[] = [];
  /** Reads of a database in memory that came during a transaction. */
  #postponed: Of<'read'>[] = [];
  #replies: DatabaseReply[] = [];
  #open: { readonly id: number; readonly limit: NodeJS.Timeout } | undefined;
  #again: NodeJS.Timeout | undefined;
  /** Since when changes follow one another, on the monotonic clock; undefined: none has begun that others wait behind. */
  #sliceBegan: number | undefined;
  /** Until when nothing is changed, on the monotonic clock. */
  #restsUntil = 0;

  /** @throws Error where the file cannot be opened */
  constructor({ file, isDurable, ...times }: DatabaseWorkerData, post: (replies: readonly DatabaseReply[]) => void) {
    const database = openSqliteFile(file);
    // In WAL mode this leaves out the sync of each commit alone: the file is never damaged, and the next commit of another
    // connection that syncs takes these along.
    if (!isDurable) database.exec('PRAGMA synchronous = NORMAL');
    // SQLite does not wait for locks; we try again instead: see lockPauseMs.
    database.exec('PRAGMA busy_timeout = 0');
    this.#writing = new SqliteConnection(database);
    this.#reading = this.#writing;
    if (file !== ':memory:') {
      // A connection that writes does not block one that only reads (WAL).
      this.#reading = new SqliteConnection(new DatabaseSync(file, { readOnly: true, timeout: readPatienceMs }));
      this.#files = new SqliteFiles(file);
    }
    this.#times = times;
    this.#post = post;
  }

  /** Takes requests. Each is answered, now or later. */
  receive(requests: readonly DatabaseRequest[]): void {
    const until = performance.now() + this.#times.patienceMs;
    for (const request of requests) this.#take(request, until);
    // Replies that are ready do not wait for the changes that follow.
    this.#flush();
    this.#pump();
    this.#flush();
  }

  /** Rolls back what is under way and closes the file. */
  close(): void {
    clearTimeout(this.#again);
    clearTimeout(this.#open?.limit);
    for (const { database } of new Set([this.#reading, this.#writing])) database.close();
  }

  #take(request: DatabaseRequest, until: number): void {
    if (request.kind === 'inside') this.#inside(request);
    else if (request.kind === 'end') this.#end(request);
    else if (request.kind !== 'read') this.#queue.push({ ...request, until });
    else if (this.#open && this.#reading === this.#writing) this.#postponed.push(request);
    else this.#answerQuestion(request);
  }

  #inside(request: Of<'inside'>): void {
    // SQLite itself rolls a transaction back where the disk is full or fails. Nothing may be written after that.
    if (this.#open?.id !== request.transaction || !this.#database.isTransaction) return this.#fail(request.id, undone);
    try {
      this.#reply({ id: request.id, value: this.#writing.run(request, request.wanted) });
    } catch (thrown) {
      this.#fail(request.id, failureOf(thrown));
    }
  }

  #end({ id, transaction, keep }: Of<'end'>): void {
    const isOpen = this.#open?.id === transaction;
    const isUndone = !isOpen || (keep && !this.#database.isTransaction);
    const failure = isUndone ? undone : keep ? this.#commit() : undefined;
    this.#reply(failure ? { id, failure } : { id, value: undefined });
    if (isOpen) this.#close();
  }

  /** Ends the transaction under way, and rolls back what was not committed. */
  #close(): void {
    clearTimeout(this.#open?.limit);
    this.#open = undefined;
    if (this.#database.isTransaction) this.#database.exec('ROLLBACK');
    for (const request of this.#postponed.splice(0)) this.#take(request, 0);
  }

  #pump(): void {
    clearTimeout(this.#again);
    let isLocked = false;
    while (!this.#open && !isLocked && this.#hasTime()) {
      const [head] = this.#queue;
      if (!head) break;
      isLocked = !(head.kind === 'migrate' ? this.#migrate(head) : this.#serve(head));
    }
    const now = performance.now();
    while (this.#queue[0] && this.#queue[0].until <= now) this.#fail(this.#next(), isLocked ? locked : crowded);
    if (this.#queue.length === 0 || isLocked) this.#sliceBegan = undefined;
    if (this.#queue.length === 0) return;
    const rest = this.#restsUntil - now;
    this.#again = setTimeout(
      () => {
        this.#pump();
        this.#flush();
      },
      isLocked ? lockPauseMs : rest > 0 ? rest : queuePauseMs,
    );
  }

  /** Whether a change may begin now. Once changes have followed one another for long enough, the rest begins here. */
  #hasTime(): boolean {
    const now = performance.now();
    if (now < this.#restsUntil) return false;
    this.#sliceBegan ??= now;
    if (now - this.#sliceBegan < sliceMs) return true;
    this.#sliceBegan = undefined;
    this.#restsUntil = now + restMs;
    return false;
  }

  /** Removes the first request of the queue. @returns its id */
  #next(): number {
    return this.#queue.shift()?.id ?? -1;
  }

  /** Begins a transaction for the first request, and runs it. @returns false where another program holds the lock */
  #serve(head: Exclude<Waiting, Of<'migrate'>>): boolean {
    const misplaced = this.#misplaced();
    try {
      if (!misplaced) this.#database.exec('BEGIN IMMEDIATE');
    } catch (thrown) {
      if (isBusy(thrown)) return false;
      this.#fail(this.#next(), { ...failureOf(thrown), stopsChanges: true });
      return true;
    }
    if (misplaced) this.#fail(this.#next(), misplaced);
    else if (head.kind === 'write') this.#writeTogether();
    else {
      this.#next();
      this.#begin(head);
    }
    return true;
  }

  #begin({ id }: Of<'begin'>): void {
    const limit = setTimeout(() => {
      this.#close();
      this.#fail(id, { message: `A transaction took longer than ${this.#times.transactionMs} ms and was undone` });
      this.#pump();
      this.#flush();
    }, this.#times.transactionMs);
    this.#open = { id, limit };
    this.#reply({ id, value: undefined });
  }

  /** @returns false where another program holds the lock */
  #migrate({ migrations }: Of<'migrate'>): boolean {
    try {
      migrateSqlite(this.#database, migrations);
      this.#reply({ id: this.#next(), value: undefined });
    } catch (thrown) {
      if (isBusy(thrown)) return false;
      this.#fail(this.#next(), failureOf(thrown));
    }
    return true;
  }

  /** Runs the changes at the head of the queue in one transaction. A change that fails is rolled back alone. */
  #writeTogether(): void {
    const replies: DatabaseReply[] = [];
    for (let head = this.#queue[0]; head?.kind === 'write'; head = this.#queue[0]) {
      if (replies.length >= mostTogether) break;
      this.#next();
      replies.push(this.#savepoint(head));
      if (!this.#database.isTransaction) break;
    }
    const last = replies.at(-1);
    // SQLite has rolled everything back where the disk is full or fails.
    const failure = last && 'failure' in last && !this.#database.isTransaction ? last.failure : this.#commit();
    for (const reply of replies) this.#reply(failure ? { id: reply.id, failure } : reply);
  }

  #savepoint(request: Of<'write'>): DatabaseReply {
    const { id, wanted, more } = request;
    const began = performance.now();
    try {
      this.#database.exec('SAVEPOINT one');
      const value = this.#writing.run(request, wanted);
      if (value !== 0) for (const other of more ?? []) this.#writing.run(other, 'changes');
      this.#database.exec('RELEASE one');
      return { id, value: !more ? value : value === 0 ? undefined : performance.now() - began };
    } catch (thrown) {
      if (this.#database.isTransaction) this.#database.exec('ROLLBACK TO one; RELEASE one');
      return { id, failure: failureOf(thrown) };
    }
  }

  #answerQuestion(request: Of<'read'>): void {
    try {
      this.#reply({ id: request.id, value: this.#reading.run(request, 'rows') });
    } catch (thrown) {
      this.#fail(request.id, { ...failureOf(thrown), ...(isUnreadable(thrown) ? { isUnreadable: true } : {}) });
    }
  }

  /** Why a change would be lost with this process: a file of the database is no longer the one that is open. */
  #misplaced(): DatabaseFailure | undefined {
    const misplaced = this.#files?.misplaced();
    return misplaced && { message: misplaced.text, unavailable: 'store', stopsChanges: true };
  }

  /** Commits. @returns why nothing was kept for good; undefined where everything is on disk */
  #commit(): DatabaseFailure | undefined {
    try {
      this.#database.exec('COMMIT');
      return this.#misplaced();
    } catch (thrown) {
      if (this.#database.isTransaction) this.#database.exec('ROLLBACK');
      return failureOf(thrown);
    }
  }

  get #database(): DatabaseSync {
    return this.#writing.database;
  }

  #fail(id: number, failure: DatabaseFailure): void {
    this.#reply({ id, failure });
  }

  #reply(reply: DatabaseReply): void {
    this.#replies.push(reply);
  }

  #flush(): void {
    if (this.#replies.length === 0) return;
    const replies = this.#replies;
    this.#replies = [];
    this.#post(replies);
  }
}
