// The lines in which recipients wait for their turn: one for each transport and account. A line's row tells when its turn may
// come, so that whoever claims looks at lines whose turn it is and at nothing else, however many rows and lines wait.

import type { Send } from './server/postgres-session.ts';

/** What a change of recipients must give back for `inLines`. */
export const lineColumns = 'lane, account, state, hold, due_at';

/**
 * Makes a change of recipients tell their lines when they are due; a line that is not there is made.
 * @param change a statement that changes spool_recipients and ends with RETURNING of `lineColumns`
 */
export function inLines(change: string): string {
  return `WITH changed AS (${change})
  INSERT INTO spool_lines AS line (lane, account, transport, ready_at)
  SELECT lane, account, split_part(lane, '/', 1), min(due_at) FROM changed
  WHERE state = 0 AND hold IS NULL AND lane <> '' GROUP BY lane, account
  ON CONFLICT (lane, account) DO UPDATE SET ready_at = excluded.ready_at WHERE line.ready_at > excluded.ready_at`;
}

/**
 * Splits a line: 0 is what was never tried, 1 what was deferred; each part is in the order in which it is due. It is a number
 * because the planner turns a comparison of `attempts > 0` with false into `attempts <= 0`, for which the index has no order.
 * @param row the name of the row of spool_recipients with a full stop behind it, or ''
 */
export const triedBefore = (row: string): string => `least(${row}attempts, 1)`;

const nextDue = (
  isDeferred: boolean,
): string => `(SELECT due_at FROM spool_recipients r WHERE r.state = 0 AND r.hold IS NULL
  AND r.lane = line.lane AND r.account = line.account AND ${triedBefore('r.')} = ${isDeferred ? 1 : 0} ORDER BY due_at LIMIT 1)`;
const dueNext = `least(${nextDue(false)}, ${nextDue(true)})`;

const forgetEmpty = `DELETE FROM spool_lines line WHERE lane = $1::text AND account = ANY ($2::text[]) AND ${dueNext} IS NULL`;
const endTurns = `UPDATE spool_lines line SET ready_at = greatest($3::bigint, ${dueNext})
  WHERE lane = $1::text AND account = ANY ($2::text[])`;

/**
 * Ends the turns of accounts: the next one comes when the next recipient is due, and behind all lines that wait for theirs. To
 * be sent while this process has its turn to write, so that no recipient comes in between.
 */
export function sendEndOfTurns(
  send: Send,
  { lane, accounts, at }: { readonly lane: string; readonly accounts: readonly string[]; readonly at: number },
): void {
  void send(forgetEmpty, [lane, accounts]);
  void send(endTurns, [lane, accounts, at]);
}
