// Finds where a time lies among the events, whose ids are given in the order of the commits.

import { integer } from '../../stored-rows.ts';
import type { PostgresSession } from '../server/postgres-session.ts';

const from = 'SELECT id, at FROM mail_events WHERE id >= $1::bigint AND id <= $2::bigint ORDER BY id LIMIT 1';

/** The id of the first event from a stored time on, by halving. @param last the newest event's id */
export async function firstEventFrom(session: PostgresSession, at: number, last: number): Promise<number> {
  const find = (low: number, high: number) => session.query(from, [low, high], { isPlannedAnew: true });
  const [first] = await find(1, last);
  let low = first ? integer(first, 'id') : 1;
  let high = last + 1;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const [row] = await find(middle, high - 1);
    if (row === undefined || integer(row, 'at') >= at) high = middle;
    else low = integer(row, 'id') + 1;
  }
  return low;
}
