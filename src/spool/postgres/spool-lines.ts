// The lines in which recipients wait for their turn: one for each transport and account. A line's row tells when its turn may
// come, so that whoever claims looks at lines whose turn it is and at nothing else, however many rows and lines wait.

import { Part } from '../../base/part.ts';
import { type Hold, type HoldRule, requireRoom } from '../hold.ts';
import { holdsOf, integer, readHolds } from '../stored-rows.ts';
import { tellDue } from './events/written-events.ts';
import { isId } from './postgres-queue.ts';
import type { ServerParts } from './server/database-clock.ts';
import { columnsOf, type PgValue, type PostgresSession, type Send } from './server/postgres-session.ts';

/** What a change of recipients must give back for `inLines`. */
export const lineColumns = 'lane, account, state, hold, due_at';

/** Groups of lines that are locked as one, so that a transaction never holds more locks than the server has room for. */
const lineGroups = 128;
const locksOf = "hashtext('postern lines ' || current_schema())";
const groupOf = `mod(hashtext(lane || ' ' || account)::bigint + 2147483648, ${lineGroups})::integer`;
/** The key of all lines together; groups have those below it. */
const allLines = `${locksOf}, ${lineGroups}`;

/** The groups of lines in one order, so that no two wait for each other. @param of what gives rows with lane and account */
const groupsOf = (of: string): string => `(SELECT DISTINCT ${groupOf} AS part FROM ${of} ORDER BY 1) AS parts`;
const shareLines = `SELECT pg_advisory_xact_lock_shared(${locksOf}, part)
  FROM ${groupsOf("unnest($1::text[], $2::text[]) AS line (lane, account) WHERE lane <> ''")}`;
const lockLines = `SELECT pg_advisory_xact_lock(${locksOf}, part)
  FROM ${groupsOf('(SELECT $1::text AS lane, account FROM unnest($2::text[]) AS own (account)) AS line')}`;
const shareAll = `SELECT pg_advisory_xact_lock_shared(${allLines})`;
const lockAll = `SELECT pg_advisory_xact_lock(${allLines})`;

/** Waits for the turn to write where a gateway of an earlier release works: it expects that nobody else changes what it has read. */
export const turnBesideEarlier =
  'SELECT 1 FROM spool_state WHERE EXISTS (SELECT 1 FROM spool_processes WHERE form IS NULL) FOR UPDATE';

/** To be sent before `inLines` whose lines are known: nobody ends their turns until the commit, and other writers wait for nothing. */
export function sendLinesShared(
  send: Send,
  lines: readonly { readonly lane: string; readonly account: string }[],
): void {
  if (lines.length > 0) void send(shareLines, columnsOf(lines, 'lane', 'account'));
}

/** To be sent first in a transaction that changes recipients of any line by `inLines`: nobody ends a turn until its commit. */
export function sendAllLines(send: Send): void {
  void send(turnBesideEarlier);
  void send(lockAll);
}

/** Runs a change of recipients of any line by itself, and tells others that mail may be due. It does no harm where it is run twice. */
export async function changeAnyLine(session: PostgresSession, sql: string, values: readonly PgValue[]): Promise<void> {
  await session.transaction(async (send) => {
    sendAllLines(send);
    void send(sql, values);
    await send(tellDue);
  });
}

/**
 * Makes a change of recipients tell their lines when they are due; a line that is not there is made. The row of a line that comes
 * early enough is not touched. The lines must have been locked by a statement before.
 * @param change a statement that changes spool_recipients and ends with RETURNING of `lineColumns`
 */
export function inLines(change: string): string {
  return `WITH changed AS (${change}), due AS (
    SELECT lane, account, min(due_at) AS ready_at FROM changed WHERE state = 0 AND hold IS NULL AND lane <> ''
    GROUP BY lane, account)
  INSERT INTO spool_lines AS line (lane, account, transport, ready_at)
  SELECT lane, account, split_part(lane, '/', 1), ready_at FROM due WHERE NOT EXISTS (SELECT 1 FROM spool_lines known
    WHERE known.lane = due.lane AND known.account = due.account AND known.ready_at <= due.ready_at) ORDER BY lane, account
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
 * Ends the turns of accounts, in a transaction of its own that waits for no answer: the next one comes when the next recipient is
 * due, and behind all lines that wait for theirs. It waits for those who write to these lines and keeps others waiting, each for
 * some milliseconds, so that no recipient comes in between. A crash may take it back, which costs a look.
 */
export function sendEndOfTurns(send: Send, lane: string, accounts: readonly string[], at: number): void {
  void send('SET LOCAL synchronous_commit = off');
  void send(turnBesideEarlier);
  void send(shareAll);
  void send(lockLines, [lane, accounts]);
  void send(forgetEmpty, [lane, accounts]);
  void send(endTurns, [lane, accounts, at]);
}

/** Recipients that go back to their lines in one transaction, at most, and transactions of one call. */
const liftedAtOnce = 1000;
const mostSlices = 2000;

/** A condition on a row `line` of spool_lines: no hold keeps all of it waiting. */
export const lineIsFree = `NOT EXISTS (SELECT 1 FROM spool_holds h WHERE (h.kind = 'account' AND h.value = line.account)
  OR (h.kind = 'route' AND h.value = split_part(line.lane, '#', 1))
  OR (h.kind = 'destination' AND h.value = split_part(line.lane, '/', 2))
  OR (h.kind = 'line' AND h.value = line.account || ' ' || regexp_replace(line.lane, '#[^/]*', '')))`;

/** The hold on a row `r` of spool_recipients by itself, or NULL. */
export const recipientHold = `(SELECT min(h.id) FROM spool_holds h WHERE (h.kind = 'message' AND h.value = r.message::text)
  OR (h.kind = 'destination' AND h.value = lower(substring(r.address FROM '[^@]*$'))))`;

const add = `INSERT INTO spool_holds AS kept (kind, value, made_at, made_by, why)
  VALUES ($1::text, $2::text, $3::bigint, $4::text, $5::text)
  ON CONFLICT (kind, value) DO UPDATE SET made_at = excluded.made_at, made_by = excluded.made_by, why = excluded.why`;
const setAside = `UPDATE spool_recipients SET hold = (SELECT id FROM spool_holds WHERE kind = 'message' AND value = $1::text)
  WHERE message = $1::uuid AND state = 0`;
const lift = 'DELETE FROM spool_holds WHERE kind = $1::text AND value = $2::text RETURNING id';
const isKeeping = 'SELECT 1 AS one FROM spool_recipients WHERE hold = $1::bigint LIMIT 1';
const backInLine = inLines(`UPDATE spool_recipients SET hold = NULL WHERE (message, position) IN
  (SELECT message, position FROM spool_recipients WHERE hold = $1::bigint LIMIT ${liftedAtOnce} FOR UPDATE) RETURNING ${lineColumns}`);
// Steps from one hold to the next in the index, without reading what each keeps.
const lifted = `WITH RECURSIVE kept AS (
    SELECT (SELECT min(hold) FROM spool_recipients WHERE hold IS NOT NULL) AS hold
    UNION ALL
    SELECT (SELECT min(r.hold) FROM spool_recipients r WHERE r.hold > kept.hold) FROM kept WHERE kept.hold IS NOT NULL
  ) SELECT hold FROM kept WHERE hold IS NOT NULL AND hold NOT IN (SELECT id FROM spool_holds)`;

/** The holds of one database; the methods of the same names in `Spool` say what each does. */
export class PostgresHolds extends Part<ServerParts> {
  async holds(): Promise<readonly Hold[]> {
    return holdsOf(await this.parts.session.query(readHolds), this.parts.clock);
  }

  /** Makes a hold, or says anew who made it and why. @throws Error where there are too many */
  async addHold(rule: HoldRule): Promise<void> {
    requireRoom(await this.holds(), rule);
    const { kind, value, at, by, why } = rule;
    const madeAt = this.parts.clock.stored(at);
    await this.parts.session.transaction(async (send) => {
      void send(add, [kind, value, madeAt, by, why]);
      if (kind === 'message' && isId(value)) void send(setAside, [value]);
      await send(tellDue);
    });
  }

  /** Lifts a hold, and lets what it had set aside have turns again. @returns false where there is none */
  async liftHold({ kind, value }: Pick<HoldRule, 'kind' | 'value'>): Promise<boolean> {
    const [row] = await this.parts.session.transaction(async (send) => {
      const rows = send(lift, [kind, value]);
      void send(tellDue);
      return await rows;
    });
    if (row) await this.#giveBack(integer(row, 'id'));
    return row !== undefined;
  }

  /** Gives back what holds had set aside that are gone, where whoever lifted them did not come to the end. */
  async settle(): Promise<void> {
    for (const row of await this.parts.session.query(lifted)) await this.#giveBack(integer(row, 'hold'));
  }

  async #giveBack(hold: number): Promise<void> {
    for (let slice = 0; slice < mostSlices; slice += 1) {
      if ((await this.parts.session.query(isKeeping, [hold])).length === 0) return;
      await changeAnyLine(this.parts.session, backInLine, [hold]);
    }
  }
}
