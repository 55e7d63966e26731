// Brings the tables of an owner up to date in PostgreSQL: forward only, in one transaction, one process at a time.

import type pg from 'pg';
import type { Migrations } from './database.ts';
import { tellOfTables } from './postgres-changes.ts';
import { inPostgres } from './postgres-dialect.ts';

/** The key of the advisory lock that migrations hold: the octets of `post`. */
const migrationLock = 0x706f7374;

/**
 * How long a step may take, in milliseconds, and so how long another process that starts waits for it: a large table may have to
 * be written anew. For anything else the limits are seconds.
 */
const stepMs = 3_600_000;

/**
 * Applies the steps that the database does not have yet.
 * @throws Error where the tables are newer than this program, or a step is not written for PostgreSQL
 */
export async function migratePostgres(
  client: pg.PoolClient,
  { owner, steps, postgres, postgresWhere = {}, told = [] }: Migrations,
): Promise<void> {
  const own = postgres ?? steps.map(inPostgres);
  // The driver's limit for this statement alone, which its types leave out.
  const slowly = (text: string, values: unknown[] = []) => {
    const query: pg.QueryConfig & { readonly query_timeout: number } = { text, values, query_timeout: stepMs };
    return client.query<{ version: number }>(query);
  };
  await client.query('BEGIN');
  try {
    await client.query(`SET LOCAL statement_timeout = ${stepMs}; SET LOCAL lock_timeout = ${stepMs}`);
    await slowly('SELECT pg_advisory_xact_lock($1)', [migrationLock]);
    await client.query('CREATE TABLE IF NOT EXISTS migrations (owner TEXT PRIMARY KEY, version INTEGER NOT NULL)');
    const { rows } = await slowly('SELECT version FROM migrations WHERE owner = $1', [owner]);
    const version = rows[0]?.version ?? 0;
    if (version > own.length) {
      throw new Error(`The database's "${owner}" tables are of version ${version}, this program knows ${own.length}`);
    }
    for (const [at, step] of own.entries()) {
      const where = postgresWhere[at + 1];
      const isWanted = at >= version && (where === undefined || (await slowly(where)).rows.length > 0);
      if (isWanted) await slowly(step);
    }
    await client.query(
      'INSERT INTO migrations VALUES ($1, $2) ON CONFLICT (owner) DO UPDATE SET version = excluded.version',
      [owner, own.length],
    );
    await tellOfTables(client, told);
    await client.query('COMMIT');
  } catch (thrown) {
    await client.query('ROLLBACK');
    throw thrown;
  }
}
