// Statements and transactions of the spool in PostgreSQL. The statements of a transaction are sent without waiting for the
// answers to those before, so that a group of messages costs one journey to the server and back.

import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import type { Row } from '../../../base/database/database.ts';
import { hasNoCode, storeError, told } from '../../../base/database/postgres-errors.ts';
import { driverValue, lookAtServer, openPool, withClient } from '../../../base/database/postgres-pool.ts';
import { errorCode, Unavailable } from '../../../base/errors.ts';
import { Part } from '../../../base/part.ts';
import { ServerConnections } from '../../../base/postgres/server-connections.ts';
import type { ServerUrl } from '../../../base/postgres/server-hosts.ts';
import type { Step, StoreSteps } from '../../core/steps.ts';

type Scalar = null | number | bigint | string;

/** A value of a statement; a list is an array of PostgreSQL. */
export type PgValue = Scalar | Uint8Array | readonly Scalar[];

/** Lists for `unnest` of what rows have under some names, one list for each; NULL where a row has nothing. */
export function columnsOf<Name extends string, Named extends { readonly [One in Name]?: Scalar | undefined }>(
  rows: readonly Named[],
  ...names: readonly (Name & keyof Named)[]
): readonly (readonly Scalar[])[] {
  const all: readonly { readonly [One in Name]?: Scalar | undefined }[] = rows;
  return names.map((name) => all.map((row) => row[name] ?? null));
}

/** Lists for `unnest` of rows whose values have one order. */
export function listsOf(rows: readonly (readonly Scalar[])[]): readonly (readonly Scalar[])[] {
  return (rows[0] ?? []).map((_, at) => rows.map((row) => row[at] ?? null));
}

/** Plans a statement for its values, with the partitions that they leave, and keeps it not: also for a text that is no constant. */
export const anew = true;

/** Sends a statement of a transaction. The answer need not be waited for: a statement that fails ends the transaction. */
export type Send = (sql: string, values?: readonly PgValue[], isPlannedAnew?: boolean) => Promise<readonly Row[]>;

/** The connection was lost before the answer to COMMIT came: the transaction may be kept, or not. */
export class InDoubt extends Error {
  override readonly name = 'InDoubt';
}

/** Says of a transaction in doubt that the server went away. */
export function lostConnection(cause: InDoubt): Unavailable {
  const lost = new Unavailable('The connection to the database was lost', { reason: 'store', retryAfterSeconds: 2 });
  lost.cause = cause;
  return lost;
}

/**
 * Every statement here finds its rows by an index, and in the order of that index. The planner would not always: a queue grows
 * from nothing to a million rows before it is analysed, tables that it takes for empty it reads whole, and of a line that it
 * takes for short it reads every row and sorts them. Settings that the server does not have are passed over.
 */
const planByIndexes = `SELECT set_config(name, 'off', false) FROM pg_settings WHERE name IN ('enable_seqscan',
  'enable_bitmapscan', 'enable_hashjoin', 'enable_mergejoin', 'jit')`;

/** SQLSTATE in_failed_sql_transaction: a statement before it had failed. */
const followsFailure = '25P02';

/** The names of prepared statements, by their text; every text is a constant of this room. */
const names = new Map<string, string>();

function nameOf(sql: string): string {
  const name = names.get(sql) ?? `postern_${names.size + 1}`;
  names.set(sql, name);
  return name;
}

function queryOf(sql: string, values: readonly PgValue[] = [], isPlannedAnew = false): pg.QueryConfig {
  const query = { text: sql, values: values.map(driverValue) };
  return isPlannedAnew ? query : { ...query, name: nameOf(sql) };
}

const translated = new Map<string, string>();

function inPostgres(sql: string): string {
  const text = translated.get(sql) ?? sql.replaceAll(/\?(\d+)/g, '$$$1');
  translated.set(sql, text);
  return text;
}

/** Runs what is written once for every engine (core/steps.ts). @param send sends a statement of a transaction, or one of its own */
export async function stepsOver<Result>(send: Send, steps: StoreSteps<Result>): Promise<Result> {
  const sent = ({ sql, values, isPlannedAnew }: Step) => send(inPostgres(sql), values, isPlannedAnew);
  let next = steps.next();
  while (next.done !== true) next = steps.next(await Promise.all(next.value.map(sent)));
  return next.value;
}

/** The connections of one spool. */
export class PostgresSession extends Part<{ readonly url: ServerUrl; readonly connections: number }> {
  readonly #opened = new ServerConnections();
  #pool: pg.Pool = this.#openPool();
  /** Pools of before, until their connections are closed. */
  readonly #leaving = new Set<Promise<void>>();
  #isClosed = false;

  /** Runs one statement by itself. @throws Unavailable while the server is away; Error for a fault of the statement */
  readonly query: Send = async (sql, values, isPlannedAnew) => {
    this.#checkOpen();
    return (await told(this.#pool.query<Row>(queryOf(sql, values, isPlannedAnew)))).rows;
  };

  /** Runs work that both engines have in common, each statement by itself. @throws what `query` throws */
  steps<Result>(work: StoreSteps<Result>): Promise<Result> {
    return stepsOver(this.query, work);
  }

  /**
   * Runs a transaction (READ COMMITTED). It is undone where `work` throws or a statement fails, waited for or not.
   * @param tellsDoubt whether a failure of COMMIT is InDoubt; else the transaction does no harm when it is run twice
   * @throws what `query` throws; InDoubt
   */
  async transaction<T>(work: (send: Send) => Promise<T>, tellsDoubt = false): Promise<T> {
    this.#checkOpen();
    try {
      return await withClient(
        this.#pool,
        (client, reasonOf) =>
          runOn(client, work, tellsDoubt).catch((thrown: unknown) => {
            throw thrown instanceof InDoubt ? thrown : reasonOf(thrown);
          }),
        hasNoCode,
      );
    } catch (thrown) {
      throw thrown instanceof InDoubt ? thrown : storeError(thrown);
    }
  }

  /** Uses new connections from now on, since settings of before may hold for the old ones, which close once they are idle. */
  renew(): void {
    if (this.#isClosed) return;
    const leaving = endOnceIdle(this.#pool).finally(() => this.#leaving.delete(leaving));
    this.#leaving.add(leaving);
    this.#pool = this.#openPool();
  }

  /** Looks whether connections can be opened, or those that are open are enough. @throws Unavailable where they cannot be used */
  async tryConnecting(): Promise<void> {
    this.#checkOpen();
    await told(lookAtServer(this.#pool, { url: this.parts.url, opened: this.#opened }));
  }

  /** What waits for the server was given up (`abandon`). */
  get isAbandoned(): boolean {
    return this.#opened.isCut;
  }

  /** Gives up what waits for the server: it fails with Unavailable, and so does what is asked from now on. */
  abandon(): void {
    this.#opened.cut();
  }

  /** Waits for what is under way and closes the connections. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await Promise.all([this.#pool.end(), ...this.#leaving]);
  }

  #openPool(): pg.Pool {
    const settings = { connections: this.parts.connections, pipeline: true, begin: planByIndexes };
    return openPool({ url: this.parts.url, ...settings, opened: this.#opened });
  }

  #checkOpen(): void {
    if (this.#isClosed) throw Object.assign(new Error('The spool is closed'), { code: '00000' });
  }
}

/** Closes a pool of which nobody asks anything more. One that is closed forgets those who wait for a connection. */
async function endOnceIdle(pool: pg.Pool): Promise<void> {
  while (pool.waitingCount > 0) await sleep(100);
  await pool.end();
}

/** Runs a transaction on a connection; see `PostgresSession.transaction`. */
async function runOn<T>(client: pg.PoolClient, work: (send: Send) => Promise<T>, tellsDoubt: boolean): Promise<T> {
  const sent: Promise<pg.QueryResult<Row>>[] = [];
  const ask = (...statement: Parameters<Send>): Promise<pg.QueryResult<Row>> => {
    const answer = client.query<Row>(queryOf(...statement));
    sent.push(answer);
    answer.catch(() => undefined);
    return answer;
  };
  void ask('BEGIN');
  const send: Send = async (...statement) => (await ask(...statement)).rows;
  let result: T;
  try {
    result = await work((...statement) => {
      const rows = send(...statement);
      // Where nobody waits for the answer, `firstFailure` finds it among what was sent.
      rows.catch(() => undefined);
      return rows;
    });
  } catch (thrown) {
    void ask('ROLLBACK');
    throw (await firstFailure(sent)) ?? thrown;
  }
  // Somebody has cancelled the wait for a synchronous standby, which a warning alone tells: only the primary has it.
  let isUnsure = false;
  const onNotice = ({ severity }: { readonly severity?: string | undefined }): void => {
    isUnsure ||= severity === 'WARNING';
  };
  client.on('notice', onNotice);
  const committing = ask('COMMIT');
  const failure = await firstFailure(sent);
  client.off('notice', onNotice);
  const end = await committing.catch(() => undefined);
  if (failure === undefined && !isUnsure && end?.command === 'COMMIT') return result;
  if ((end === undefined || isUnsure) && tellsDoubt)
    throw new InDoubt('The connection was lost before the answer to COMMIT', { cause: failure });
  throw failure ?? new Error('The transaction was undone');
}

/** Waits for all answers; gives the error of the first statement that failed by itself. */
async function firstFailure(sent: readonly Promise<unknown>[]): Promise<unknown> {
  const ends = await Promise.allSettled(sent);
  const reasons = ends.flatMap((end): unknown[] => (end.status === 'rejected' ? [end.reason] : []));
  return reasons.find((reason) => errorCode(reason) !== followsFailure) ?? reasons[0];
}
