// Finds where a time lies among the rows, whose numbers are in the order of the commits.

import type { Queryable } from '../../base/database/database.ts';

/** How much later than its time a row may be written, in milliseconds. */
export const lateMs = 60_000;

/** Gives what rows of a range of numbers are read from, in place of a table's name. */
export type RowSource = (low: number, high: number) => Promise<string>;

/**
 * The number of the first row from a time on, by halving.
 * @param last the newest row's number
 * @param source absent: the table `journal`
 */
export async function firstFrom(
  database: Queryable,
  at: number,
  last: number,
  source: RowSource = async () => 'journal',
): Promise<number> {
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
