// PostgreSQL behind the interface of every store (D91). Single statements go to any connection of a pool; a transaction has
// one for itself and is SERIALIZABLE, so that nothing that others do comes between what it reads and what it writes.

import { randomInt } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { errorMessage, Unavailable } from '../errors.ts';
import { FaultWatch } from '../fault/fault-watch.ts';
import { Part } from '../part.ts';
import { ServerConnections } from '../postgres/server-connections.ts';
import type { Attempt, Change, Database, Migrations, Row, SqlValue, Transaction } from './database.ts';
import { PostgresChanges } from './postgres-changes.ts';
import { constraintOf, isOutOfReach, isRace, startError, storeError, told } from './postgres-errors.ts';
import { migratePostgres } from './postgres-migrations.ts';
import { driverValue, lookAtServer, type OpenPostgresOptions, openPool, withClient } from './postgres-pool.ts';

/** How many requests may be under way or wait for a connection. Further ones fail with Unavailable. */
const mostWaiting = 10_000;

/** How often the clock is compared with the server's, and which differences do not matter, in milliseconds. */
const comparedMs = 60_000;
const leastDifferenceMs = 1000;

class PostgresDatabase implements Database {
  readonly changes: PostgresChanges;
  // Not of the beginning of the transaction: a statement may have waited for its row.
  readonly timeSql = '(extract(epoch FROM clock_timestamp()) * 1000)::bigint';
  readonly #opened = new ServerConnections();
  readonly #pool: pg.Pool;
  readonly #transactionMs: number;
  readonly #watch: FaultWatch;
  #waiting = 0;
  readonly #now: () => number;
  #aheadMs = 0;
  #comparedAt = Number.NEGATIVE_INFINITY;
  #closing: Promise<void> | undefined;
  #onQuiet: (() => void) | undefined;
  /** The end of the transaction before: those of one process follow one another, so that they do not undo each other. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor({ url, connections, transactionMs = 10_000, now = Date.now, log }: OpenPostgresOptions) {
    this.#now = now;
    this.#transactionMs = transactionMs;
    this.changes = new PostgresChanges({ url, opened: this.#opened });
    this.#pool = openPool({ url, connections, transactionMs, opened: this.#opened });
    this.#watch = new FaultWatch({
      look: (signal) => lookAtServer(this.#pool, { url }, signal),
      log,
    });
  }

  get unavailable(): Unavailable | undefined {
    return this.#watch.fault;
  }

  async aheadMs(): Promise<number> {
    const now = performance.now();
    if (now - this.#comparedAt < comparedMs) return this.#aheadMs;
    const [row] = await this.query('SELECT extract(epoch FROM clock_timestamp())::float8 * 1000 AS time');
    // Clocks that are set right differ by less, and the way takes time.
    const ahead = Math.round(this.#now() - Number(row?.['time']));
    this.#aheadMs = Math.abs(ahead) < leastDifferenceMs ? 0 : ahead;
    this.#comparedAt = now;
    return this.#aheadMs;
  }

  async query(sql: string, params: readonly SqlValue[] = []): Promise<readonly Row[]> {
    return (await this.#asked(() => told(this.#pool.query<Row>(sql, params.map(driverValue))))).rows;
  }

  async run(sql: string, params: readonly SqlValue[] = []): Promise<number> {
    return (await this.#asked(() => told(this.#pool.query(sql, params.map(driverValue))))).rowCount ?? 0;
  }

  runWith({ sql, params = [] }: Change, others: readonly Change[]): Promise<number | undefined> {
    return this.transaction(async (transaction) => {
      const began = performance.now();
      if ((await transaction.run(sql, params)) === 0) return undefined;
      for (const other of others) await transaction.run(other.sql, other.params ?? []);
      return performance.now() - began;
    });
  }

  async migrate(migrations: Migrations): Promise<void> {
    await this.#asked(() => told(withClient(this.#pool, (client) => migratePostgres(client, migrations))));
  }

  transaction<T>(work: (transaction: Transaction) => Promise<T>): Promise<T> {
    return this.#asked(() => {
      const turn = this.#turn.then(() => this.#untilKept(work));
      this.#turn = turn.catch(() => undefined);
      return turn;
    });
  }

  abandon(): void {
    this.#opened.cut();
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#watch.stop();
    await this.changes.close();
    if (this.#waiting > 0) await new Promise<void>((resolve) => (this.#onQuiet = resolve));
    await this.#pool.end();
  }

  /** Makes a request for a caller. It fails where too many wait, and once the database is being closed. Faults are noted first. */
  async #asked<T>(work: () => Promise<T>): Promise<T> {
    if (this.#closing) throw new Error('The database is closed');
    if (this.#waiting >= mostWaiting) {
      throw new Unavailable('Too much is asked of the database at once', { reason: 'store', retryAfterSeconds: 1 });
    }
    this.#waiting += 1;
    try {
      return await work();
    } catch (thrown) {
      if (isOutOfReach(thrown)) this.#watch.failed(thrown);
      throw thrown;
    } finally {
      this.#waiting -= 1;
      if (this.#waiting === 0) this.#onQuiet?.();
    }
  }

  /** Runs a transaction again while others come between, for as long as a transaction may take. */
  async #untilKept<T>(work: (transaction: Transaction) => Promise<T>): Promise<T> {
    const until = performance.now() + this.#transactionMs;
    for (;;) {
      try {
        return await withClient(this.#pool, (client, reasonOf) => this.#once(new Inside({ client, reasonOf }), work));
      } catch (thrown) {
        if (!isRace(thrown)) throw thrown;
        if (performance.now() >= until) throw storeError(thrown);
        await sleep(randomInt(1, 20));
      }
    }
  }

  async #once<T>(inside: Inside, work: (transaction: Transaction) => Promise<T>): Promise<T> {
    await inside.run('BEGIN ISOLATION LEVEL SERIALIZABLE');
    let limit: NodeJS.Timeout | undefined;
    const tooLong = new Promise<never>((_, reject) => {
      const error = new Unavailable('The transaction took too long and was undone', {
        reason: 'store',
        retryAfterSeconds: 1,
      });
      limit = setTimeout(() => reject(error), this.#transactionMs);
    });
    try {
      const result = await Promise.race([work(inside), tooLong]);
      await inside.commit();
      return result;
    } catch (thrown) {
      await inside.undo();
      throw inside.raced ?? thrown;
    } finally {
      clearTimeout(limit);
    }
  }
}

class Inside
  extends Part<{ readonly client: pg.PoolClient; readonly reasonOf: (thrown: unknown) => unknown }>
  implements Transaction
{
  #isEnded = false;
  /** The error by which PostgreSQL broke the transaction off, which the work may have taken for one of its own. */
  raced: unknown;

  async commit(): Promise<void> {
    const committing = this.#told('COMMIT');
    this.#isEnded = true;
    // PostgreSQL answers COMMIT with ROLLBACK, and no error, where a statement had failed before.
    if ((await committing).command !== 'COMMIT')
      throw new Error('A statement of the transaction had failed, so it was undone');
  }

  /** Undoes everything and refuses whatever is asked from now on. */
  async undo(): Promise<void> {
    this.#isEnded = true;
    // Where the connection is lost, PostgreSQL has undone it already.
    await Promise.allSettled([this.parts.client.query('ROLLBACK')]);
  }

  async query(sql: string, params?: readonly SqlValue[]): Promise<readonly Row[]> {
    return (await this.#told(sql, params)).rows;
  }

  async run(sql: string, params?: readonly SqlValue[]): Promise<number> {
    return (await this.#told(sql, params)).rowCount ?? 0;
  }

  async attempt(sql: string, params?: readonly SqlValue[]): Promise<Attempt> {
    // PostgreSQL refuses the rest of a transaction in which a statement has failed, but for what lies behind a savepoint.
    await this.#told('SAVEPOINT attempt');
    try {
      const { rowCount } = await this.#ask(sql, params);
      await this.#told('RELEASE SAVEPOINT attempt');
      return { changes: rowCount ?? 0 };
    } catch (thrown) {
      if (this.raced !== undefined) throw thrown;
      await this.#told('ROLLBACK TO SAVEPOINT attempt');
      const stoppedBy = constraintOf(thrown);
      if (stoppedBy === undefined) throw storeError(thrown);
      return { stoppedBy, text: errorMessage(thrown) };
    }
  }

  async #told(sql: string, params?: readonly SqlValue[]): Promise<pg.QueryResult<Row>> {
    return await told(this.#ask(sql, params));
  }

  async #ask(sql: string, params: readonly SqlValue[] = []): Promise<pg.QueryResult<Row>> {
    if (this.#isEnded) throw new Error('The transaction has ended: it failed or took too long, and was undone');
    try {
      return await this.parts.client.query<Row>(sql, params.map(driverValue));
    } catch (thrown) {
      const reason = this.parts.reasonOf(thrown);
      if (isRace(reason)) this.raced = reason;
      throw reason;
    }
  }
}

/**
 * Opens a database of PostgreSQL. A change is on disk when its promise resolves. A statement may take 5 s, a transaction
 * 10 s; what does not get through because the server is away, busy or full fails with Unavailable.
 * @throws ConfigurationError where the server cannot be used as it is: it refuses the user, is a standby, or would answer before
 * a change is on disk; Unavailable where it cannot be reached
 */
export async function openPostgres(options: OpenPostgresOptions): Promise<Database> {
  const database = new PostgresDatabase(options);
  try {
    // A connection is looked at as it is opened (`openPool`).
    await database.query('SELECT 1');
    return database;
  } catch (thrown) {
    await database.close();
    throw startError(thrown);
  }
}
