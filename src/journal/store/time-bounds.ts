// Finds where a time lies among the rows, whose numbers are in the order of the commits.

import type { Queryable } from '../../base/database/database.ts';

/** How much later than its time a row may be written, in milliseconds. */
export const lateMs = 60_000;

/** The number of the first row from a time on, by halving. @param last the newest row's number */
export async function firstFrom(database: Queryable, at: number, last: number): Promise<number> {
  const [first] = await database.query('SELECT seq FROM journal ORDER BY seq LIMIT 1');
  let low = first ? Number(first['seq']) : 1;
  let high = last + 1;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const [row] = await database.query('SELECT seq, at FROM journal WHERE seq >= $1 ORDER BY seq LIMIT 1', [middle]);
    if (row === undefined || Number(row['at']) >= at) high = middle;
    else low = Number(row['seq']) + 1;
  }
  return low;
}
