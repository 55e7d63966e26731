// Tables of PostgreSQL that are kept in partitions, each a range of a key that is a time as well: what is too old goes by dropping
// a partition, whatever it has in it. A partition DEFAULT takes what has none, so that no row is ever refused.

import type { Row } from './database.ts';

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
const lockMs = 100;

/** Has the rest of a transaction wait no longer than that for a lock. */
export const waitShortly = `SET LOCAL lock_timeout = ${lockMs}`;

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

/**
 * The statements that make a partition, to be run in one transaction. What DEFAULT has of its range moves into it. Nobody who
 * writes elsewhere waits: the table itself is only kept from other changes of its form.
 * @param made.key the column of the ranges
 */
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
