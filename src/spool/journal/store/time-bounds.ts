// Finds where a time lies among the rows, whose numbers are in the order of the commits.

import type { Queryable } from '../../../base/database/database.ts';
import type { JournalQuery } from '../journal.ts';

/** How much later than its time a row may be written, in milliseconds. */
const lateMs = 60_000;

/** Gives what rows of a range of numbers are read from, in place of a table's name. */
type RowSource = (low: number, high: number) => Promise<string>;

/**
 * The number of the first row from a time on, by halving.
 * @param last the newest row's number
 */
async function firstFrom(database: Queryable, at: number, last: number, source: RowSource): Promise<number> {
  let low = 1;
  let high = last + 1;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const [row] = await database.query(
      `SELECT j.seq, j.at FROM ${await source(middle, high - 1)} j WHERE j.seq BETWEEN $1 AND $2 ORDER BY j.seq LIMIT 1`,
      [middle, high - 1],
    );
    if (row === undefined || Number(row['at']) >= at) high = middle;
    else low = Number(row['seq']) + 1;
  }
  return low;
}

/**
 * The first and the last number that a query looks at; the last is the lesser one where there is nothing.
 * @param newest the newest row's number
 * @param source absent: the table `journal`
 */
export async function rangeOf(
  database: Queryable,
  { since, until, cursor }: JournalQuery,
  { newest, source = async () => 'journal' }: { readonly newest: number; readonly source?: RowSource },
): Promise<readonly [low: number, high: number]> {
  const low = since === undefined ? 1 : await firstFrom(database, since - lateMs, newest, source);
  const last = until === undefined ? newest : await firstFrom(database, until + lateMs, newest, source);
  return [low, Math.min(newest, last, (cursor ?? Number.MAX_SAFE_INTEGER) - 1)];
}
