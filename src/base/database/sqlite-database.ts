// The main thread's side of the embedded database (D90). Requests made in one turn of the event loop go to the worker together.

import { Worker } from 'node:worker_threads';
import { errorMessage, Unavailable } from '../errors.ts';
import { FaultWatch } from '../fault/fault-watch.ts';
import { environmentOfThread } from '../load/compiled-code.ts';
import type { Logger } from '../log.ts';
import type { Attempt, Change, Database, Migrations, Row, SqlValue, Transaction } from './database.ts';
import { type DatabaseFailure, errorOf } from './sqlite-errors.ts';

// What the two threads say to each other: requests and replies, many in one message.

/** Which result of a statement is wanted: its rows, the number of rows it changed, or an Attempt. */
export type Wanted = 'rows' | 'changes' | 'attempt';

/** A request of the main thread to the worker. The reply has the same `id`. */
export type DatabaseRequest = { readonly id: number } & (
  | ({ readonly kind: 'read' } & Change)
  /** A change outside a transaction, with what `runWith` runs besides. What waits together shares a transaction. */
  | ({ readonly kind: 'write'; readonly wanted: Wanted; readonly more?: readonly Change[] } & Change)
  /** Begins a transaction, whose id is the request's. The reply comes once it has begun. */
  | { readonly kind: 'begin' }
  | ({ readonly kind: 'inside'; readonly transaction: number; readonly wanted: Wanted } & Change)
  | { readonly kind: 'end'; readonly transaction: number; readonly keep: boolean }
  | { readonly kind: 'migrate'; readonly migrations: Migrations }
);

/** A reply of the worker. A second reply to `begin` says that the transaction took too long and was rolled back. */
export type DatabaseReply = { readonly id: number } & (
  | { readonly value: unknown }
  | { readonly failure: DatabaseFailure }
);

/** A message of the main thread to the worker. */
export type ToWorker = readonly DatabaseRequest[] | 'close';
/** A message of the worker to the main thread. */
export type FromWorker = readonly DatabaseReply[] | 'open';

/** What the worker is started with. */
export interface DatabaseWorkerData extends DatabaseTimes {
  /** A path, or `:memory:`. */
  readonly file: string;
  /** As `OpenDatabaseOptions.isDurable`. */
  readonly isDurable: boolean;
}

/** How long things may wait, in milliseconds. */
export interface DatabaseTimes {
  /** How long a change waits for a lock that another program holds, and for transactions before it. */
  readonly patienceMs: number;
  /** How long a transaction may take. */
  readonly transactionMs: number;
}

/** How many requests may wait for an answer. Further ones fail with Unavailable. */
const mostWaiting = 10_000;
/** Retry-After, in seconds: where another program holds the lock or too many wait; and where the disk is full or fails. */
const busyRetrySeconds = 1;
const roomRetrySeconds = 30;

/** How a database is opened. */
export interface OpenDatabaseOptions extends Partial<DatabaseTimes> {
  /** Called once if the thread ends though nobody closed the database. Every request fails from then on. */
  readonly onLost?: (error: Error) => void;
  /** Whether a change is on disk when it is answered; absent: yes. Otherwise a power failure may undo the last transactions. */
  readonly isDurable?: boolean;
  /** Told when nothing can be changed, and when it can be again; absent: nobody is. */
  readonly log?: Logger | undefined;
}

type DistributiveOmit<T, Key extends PropertyKey> = T extends unknown ? Omit<T, Key> : never;
type Asked = DistributiveOmit<DatabaseRequest, 'id'>;

/** A SQLite file with a thread of its own. Several processes may have the same file open (D94). */
class SqliteDatabase implements Database {
  /** SQLite tells nobody of a change. */
  readonly changes = { on: () => () => undefined };

  /** All processes on a file are on one host. */
  readonly aheadMs = () => Promise.resolve(0);
  readonly #watch: FaultWatch;
  readonly #worker: Worker;
  readonly #onLost: ((error: Error) => void) | undefined;
  readonly #pending = new Map<
    number,
    Pick<PromiseWithResolvers<unknown>, 'resolve' | 'reject'> & { readonly asked: Asked }
  >();
  /** For each transaction, the function that ends it after the worker has rolled it back. */
  readonly #transactions = new Map<number, (error: Error) => void>();
  /** How many transactions are under way, from their first request to their end. */
  #underWay = 0;
  #outbox: DatabaseRequest[] = [];
  /** The last question that failed because the file cannot be read. */
  #unread: Asked | undefined;
  #lastId = 0;
  #broken: Error | undefined;
  #isOpen = false;
  #closing: Promise<void> | undefined;
  #exited = false;
  #onQuiet: (() => void) | undefined;
  readonly #opening = Promise.withResolvers<void>();
  readonly opened = this.#opening.promise;

  constructor(file: string, options: OpenDatabaseOptions) {
    const { onLost, isDurable = true, patienceMs = 5000, transactionMs = 10_000, log } = options;
    this.#onLost = onLost;
    this.#watch = new FaultWatch({ look: () => this.#look(), log });
    this.#worker = new Worker(new URL('./database-worker.ts', import.meta.url), {
      workerData: { file, isDurable, patienceMs, transactionMs } satisfies DatabaseWorkerData,
      env: environmentOfThread(),
    });
    this.#worker.on('message', (message: FromWorker) => this.#receive(message));
    this.#worker.on('error', (error) =>
      this.#break(
        this.#isOpen ? new Error(`The database's thread failed: ${errorMessage(error)}`, { cause: error }) : error,
      ),
    );
    this.#worker.on('exit', () => {
      this.#exited = true;
      this.#break(new Error(this.#closing ? 'The database is closed' : "The database's thread ended unexpectedly"));
    });
  }

  get unavailable(): Unavailable | undefined {
    return this.#watch.fault;
  }

  async query(sql: string, params: readonly SqlValue[] = []): Promise<readonly Row[]> {
    const isQuestion = /^\s*select\b/i.test(sql);
    const asked: Asked = isQuestion ? { kind: 'read', sql, params } : { kind: 'write', wanted: 'rows', sql, params };
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the worker answers each kind with its own result
    return (await this.#fromOutside(asked)) as readonly Row[];
  }

  async run(sql: string, params: readonly SqlValue[] = []): Promise<number> {
    return Number(await this.#fromOutside({ kind: 'write', wanted: 'changes', sql, params }));
  }

  async runWith(first: Change, others: readonly Change[]): Promise<number | undefined> {
    const took = await this.#fromOutside({ kind: 'write', wanted: 'changes', ...first, more: others });
    return typeof took === 'number' ? took : undefined;
  }

  async migrate(migrations: Migrations): Promise<void> {
    await this.#fromOutside({ kind: 'migrate', migrations });
  }

  async transaction<T>(work: (transaction: Transaction) => Promise<T>): Promise<T> {
    this.#underWay += 1;
    try {
      const begun = this.#fromOutside({ kind: 'begin' });
      const id = this.#lastId;
      await begun;
      return await this.#work(id, work);
    } finally {
      this.#underWay -= 1;
      this.#tellQuiet();
    }
  }

  /** Runs the work of a transaction that has begun, and ends it. */
  async #work<T>(id: number, work: (transaction: Transaction) => Promise<T>): Promise<T> {
    const givenUp = new Promise<never>((_, reject) => this.#transactions.set(id, reject));
    try {
      const result = await Promise.race([work(this.#inside(id)), givenUp]);
      await this.#ask({ kind: 'end', transaction: id, keep: true });
      return result;
    } catch (thrown) {
      // The transaction may have ended already; then this request fails, which does not matter.
      await Promise.allSettled([this.#ask({ kind: 'end', transaction: id, keep: false })]);
      throw thrown;
    } finally {
      this.#transactions.delete(id);
    }
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#watch.stop();
    if (this.#pending.size + this.#underWay > 0 && !this.#broken) {
      await new Promise<void>((resolve) => (this.#onQuiet = resolve));
    }
    if (this.#exited) return;
    const exited = new Promise((resolve) => this.#worker.once('exit', resolve));
    this.#worker.postMessage('close' satisfies ToWorker, []);
    await exited;
  }

  /** Looks whether the database can be used. @throws what keeps it from being used */
  async #look(): Promise<void> {
    await this.run('SELECT 1');
    // A file may be damaged in one place alone: what could not be read there is asked again.
    const unread = this.#unread;
    if (!unread) return;
    await this.#ask(unread);
    if (this.#unread === unread) this.#unread = undefined;
  }

  #inside(transaction: number): Transaction {
    const ask = (wanted: Wanted, sql: string, params: readonly SqlValue[]): Promise<unknown> =>
      this.#ask({ kind: 'inside', transaction, wanted, sql, params });
    return {
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the worker answers with rows
      query: async (sql, params = []) => (await ask('rows', sql, params)) as readonly Row[],
      run: async (sql, params = []) => Number(await ask('changes', sql, params)),
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the worker answers with an attempt
      attempt: async (sql, params = []) => (await ask('attempt', sql, params)) as Attempt,
    };
  }

  /** Makes a request for a caller. It fails where too many wait, and once the database is being closed. */
  #fromOutside(asked: Asked): Promise<unknown> {
    if (this.#closing) return Promise.reject(new Error('The database is closed'));
    if (this.#pending.size >= mostWaiting) {
      return Promise.reject(storeError({ message: 'Too much is asked of the database at once', unavailable: 'store' }));
    }
    return this.#ask(asked);
  }

  #ask(asked: Asked): Promise<unknown> {
    if (this.#broken) return Promise.reject(this.#broken);
    this.#lastId += 1;
    const id = this.#lastId;
    if (this.#outbox.length === 0) setImmediate(() => this.#send());
    this.#outbox.push({ ...asked, id });
    return new Promise((resolve, reject) => this.#pending.set(id, { resolve, reject, asked }));
  }

  #send(): void {
    const requests = this.#outbox;
    this.#outbox = [];
    if (this.#broken) return;
    try {
      this.#worker.postMessage(requests satisfies ToWorker, []);
    } catch (thrown) {
      // A value cannot be sent to another thread, or memory has run out. The worker has got nothing.
      for (const { id } of requests) this.#settle({ id, failure: { message: errorMessage(thrown) } });
    }
  }

  #receive(message: FromWorker): void {
    if (message === 'open') {
      this.#isOpen = true;
      this.#opening.resolve();
      return;
    }
    for (const reply of message) this.#settle(reply);
    this.#tellQuiet();
  }

  #settle(reply: DatabaseReply): void {
    const pending = this.#pending.get(reply.id);
    this.#pending.delete(reply.id);
    if ('value' in reply) pending?.resolve(reply.value);
    else {
      const error = storeError(reply.failure);
      const { stopsChanges, isUnreadable } = reply.failure;
      if (isUnreadable) this.#unread = pending?.asked;
      if ((stopsChanges || isUnreadable) && error instanceof Unavailable) this.#watch.failed(error);
      (pending?.reject ?? this.#transactions.get(reply.id))?.(error);
    }
  }

  #tellQuiet(): void {
    if (this.#pending.size + this.#underWay === 0) this.#onQuiet?.();
  }

  #break(error: Error): void {
    if (this.#broken) return;
    this.#broken = error;
    const isLost = this.#isOpen && !this.#closing;
    this.#opening.reject(error);
    for (const { reject } of this.#pending.values()) reject(error);
    this.#pending.clear();
    for (const giveUp of this.#transactions.values()) giveUp(error);
    this.#onQuiet?.();
    if (isLost) this.#onLost?.(error);
  }
}

/**
 * Opens a SQLite file on a thread of its own: WAL, and a change is on disk when its promise resolves (D90). Changes wait
 * for a lock that another program holds, 5 s if not said otherwise, and fail with Unavailable then; questions do not wait
 * for it. A transaction may take 10 s. At most 10,000 requests wait at once; one more fails with Unavailable.
 * @param file a path, or `:memory:`
 * @throws Error of the system or of SQLite, with the path in its message
 */
export async function openDatabase(file: string, options: OpenDatabaseOptions = {}): Promise<Database> {
  const database = new SqliteDatabase(file, options);
  await database.opened;
  return database;
}

function storeError(failure: DatabaseFailure): Error {
  return errorOf(failure, failure.unavailable === 'room' ? roomRetrySeconds : busyRetrySeconds);
}
