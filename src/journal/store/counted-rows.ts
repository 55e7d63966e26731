// How many rows a partition of PostgreSQL has that goes as a whole.

import type { Database } from '../../base/database/database.ts';
import { Unavailable } from '../../base/errors.ts';

/** Counts the rows of a table; one that is too large to be counted in the time of a statement is estimated. */
export async function countedRows(database: Database, name: string): Promise<number> {
  try {
    const [row] = await database.query(`SELECT count(*) AS rows FROM ${name}`);
    return Number(row?.['rows'] ?? 0);
  } catch (thrown) {
    if (!(thrown instanceof Unavailable)) throw thrown;
    const [row] = await database.query(
      'SELECT greatest(reltuples, 0) AS rows FROM pg_class WHERE oid = to_regclass($1::text)',
      [name],
    );
    return Number(row?.['rows'] ?? 0);
  }
}
