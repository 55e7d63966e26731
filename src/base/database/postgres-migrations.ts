// Brings the tables of an owner up to date in PostgreSQL: forward only, step by step, one process at a time, beside gateways that work.

import { randomInt } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { errorMessage, Unavailable } from '../errors.ts';
import type { Migrations, Row, ToldTable } from './database.ts';
import { isLockConflict } from './postgres-errors.ts';

/** The function of the triggers that tell of changes to a table, whoever makes them. */
const toldFunction = `CREATE OR REPLACE FUNCTION postern_changed() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN PERFORM pg_notify(left('postern.' || TG_TABLE_SCHEMA, 63), TG_TABLE_NAME); RETURN NULL; END $$`;

/** Makes the triggers of tables that have none yet; to be called where nobody else does the same. */
async function tellOfTables(client: pg.ClientBase, tables: readonly ToldTable[]): Promise<void> {
  for (const { table, columns } of tables) {
    const trigger = `SELECT 1 FROM pg_trigger WHERE tgrelid = to_regclass($1) AND tgname = 'postern_changed'`;
    if ((await client.query(trigger, [table])).rowCount !== 0) continue;
    const of = columns ? `OF ${columns.join(', ')}` : '';
    await client.query(toldFunction);
    await client.query(
      `CREATE TRIGGER postern_changed AFTER INSERT OR DELETE OR UPDATE ${of} ON ${table} EXECUTE FUNCTION postern_changed()`,
    );
  }
}

/** The key of the advisory lock that migrations hold: the octets of `post`. */
const migrationLock = 0x706f7374;

/** How long a step may work, in milliseconds: a large table may have to be written anew. For anything else the limits are seconds. */
const stepMs = 3_600_000;
/** How many milliseconds a step waits for a lock. Others wait behind it, so it is less than the 5 s that a gateway waits. */
const lockMs = 2000;
/** How often a step that finds its tables locked is tried in a row, and how long it rests in between, in milliseconds. */
const mostTries = 5;
const [leastRestMs, mostRestMs] = [500, 1500];

/**
 * Applies the steps that the database does not have yet. Each is a transaction of its own, so that none holds the locks of another:
 * a step that needs several tables takes them in the order in which those who write do (postgres-schema.ts).
 * @throws Unavailable where others hold a table for longer: what is done stays, and the next call goes on; Error where the tables are
 * newer than this program, or a step is not written for PostgreSQL
 */
export async function migratePostgres(client: pg.PoolClient, migrations: Migrations): Promise<void> {
  for (let tries = 1; ; ) {
    try {
      if (!(await applyNext(client, migrations))) return;
      tries = 1;
    } catch (thrown) {
      if (!isLockConflict(thrown)) throw thrown;
      if (tries === mostTries) {
        const words = `The "${migrations.owner}" tables wait to be brought up to date: others use them, such as pg_dump`;
        const details = { reason: 'store', retryAfterSeconds: 2, cause: thrown } as const;
        throw new Unavailable(`${words} (${errorMessage(thrown)})`, details);
      }
      tries += 1;
      await sleep(randomInt(leastRestMs, mostRestMs));
    }
  }
}

/** Applies one step, or finds that there is none. @returns whether there may be another */
async function applyNext(
  client: pg.PoolClient,
  { owner, steps, postgres, postgresWhere = {}, told = [] }: Migrations,
): Promise<boolean> {
  const own = postgres ?? steps.map(inPostgres);
  // The driver's limit for this statement alone, which its types leave out.
  const slowly = (text: string, values: unknown[] = []) => {
    const query: pg.QueryConfig & { readonly query_timeout: number } = { text, values, query_timeout: stepMs };
    return client.query<{ version: number }>(query);
  };
  await client.query('BEGIN');
  try {
    await client.query(`SET LOCAL statement_timeout = ${stepMs}; SET LOCAL lock_timeout = ${lockMs}`);
    await client.query('SELECT pg_advisory_xact_lock($1)', [migrationLock]);
    await client.query('CREATE TABLE IF NOT EXISTS migrations (owner TEXT PRIMARY KEY, version INTEGER NOT NULL)');
    const { rows } = await slowly('SELECT version FROM migrations WHERE owner = $1', [owner]);
    const version = rows[0]?.version ?? 0;
    if (version > own.length) {
      throw new Error(`The database's "${owner}" tables are of version ${version}, this program knows ${own.length}`);
    }
    const step = own[version];
    if (step === undefined) await tellOfTables(client, told);
    else {
      const where = postgresWhere[version + 1];
      if (where === undefined || (await slowly(where)).rows.length > 0) await slowly(step);
      await client.query(
        'INSERT INTO migrations VALUES ($1, $2) ON CONFLICT (owner) DO UPDATE SET version = excluded.version',
        [owner, version + 1],
      );
    }
    await client.query('COMMIT');
    return step !== undefined;
  } catch (thrown) {
    await client.query('ROLLBACK');
    throw thrown;
  }
}

/** What differs. STRICT types and tables without row ids are what every table of PostgreSQL is. */
const words: readonly (readonly [RegExp, string])[] = [
  [/\)\s*STRICT(?:,\s*WITHOUT ROWID)?/g, ')'],
  [/\bINTEGER PRIMARY KEY AUTOINCREMENT\b/g, 'BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY'],
  [/\bINTEGER\b/g, 'BIGINT'],
  // SQLite compares octets; by default PostgreSQL compares as the language of the database does.
  [/\bTEXT\b/g, 'TEXT COLLATE "C"'],
  [/\bBLOB\b/g, 'BYTEA'],
];

/** Translates a step of SQLite; the result for a released one must not change. @throws Error where it has more than tables, columns and indexes */
export function inPostgres(step: string): string {
  const translated = words.reduce((text, [word, replacement]) => text.replace(word, replacement), step);
  if (/\b(?:TRIGGER|RAISE|AUTOINCREMENT|PRAGMA|VIRTUAL)\b/i.test(translated)) {
    throw new Error(`Write this step for PostgreSQL yourself: ${step.slice(0, 200)}`);
  }
  return translated;
}

/** Asks a server something; values are `$1`, `$2` ... */
export type AskServer = (sql: string, values?: readonly (number | string)[]) => Promise<readonly Row[]>;

/** A partition with the bounds of its key as texts: from the first one on and before the second; null is without a bound. */
export interface Partition {
  readonly name: string;
  readonly from: string | null;
  readonly to: string | null;
  readonly isDefault: boolean;
}

/** How long a change of partitions waits for others, in milliseconds: mail waits behind it meanwhile. It is tried again later. */
const partitionLockMs = 100;

/** Has the rest of a transaction wait no longer than that for a lock. */
export const waitShortly = `SET LOCAL lock_timeout = ${partitionLockMs}`;

const bounds = /^FOR VALUES FROM \((?:'([^']*)'|MINVALUE)\) TO \((?:'([^']*)'|MAXVALUE)\)$/;

/** Whether a table is kept in partitions. It is not where the server has none, or the table was made before there were any. */
export async function isPartitioned(ask: AskServer, table: string): Promise<boolean> {
  const [row] = await ask('SELECT relkind FROM pg_class WHERE oid = to_regclass($1::text)', [table]);
  return row?.['relkind'] === 'p';
}

/** The partitions of a table, in the order of their names; none where it is whole. */
export async function partitionsOf(ask: AskServer, table: string): Promise<readonly Partition[]> {
  const rows = await ask(
    `SELECT c.relname AS name, pg_get_expr(c.relpartbound, c.oid) AS bound FROM pg_inherits i
       JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = to_regclass($1::text) ORDER BY 1`,
    [table],
  );
  return rows.map((row) => {
    const [, from, to] = bounds.exec(String(row['bound'])) ?? [];
    return { name: String(row['name']), from: from ?? null, to: to ?? null, isDefault: row['bound'] === 'DEFAULT' };
  });
}

/** The statements of a transaction that makes a partition and moves rows of DEFAULT into it. @param made.key its column */
export function makePartition(
  table: string,
  made: { readonly name: string; readonly key: string; readonly from: string; readonly to: string },
): readonly string[] {
  const { name, key, from, to } = made;
  return [
    `CREATE TABLE ${name} (LIKE ${table} INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE)`,
    `WITH moved AS (DELETE FROM ${table}_default WHERE ${key} >= '${from}' AND ${key} < '${to}' RETURNING *)
     INSERT INTO ${name} SELECT * FROM moved`,
    `ALTER TABLE ${table} ATTACH PARTITION ${name} FOR VALUES FROM ('${from}') TO ('${to}')`,
  ];
}

/** Finds a row where tables can be partitions: not in CockroachDB, nor where a connection sets `postern.partitions` to `off`. */
export const takesPartitions = `SELECT 1 AS yes WHERE version() NOT LIKE 'CockroachDB%'
  AND coalesce(current_setting('postern.partitions', true), '') <> 'off'`;
