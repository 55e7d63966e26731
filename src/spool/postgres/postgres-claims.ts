// Claims on recipients: whose turn it is, who is claimed, and the transports that they wait for. A claim takes rows that nobody else takes
// (SKIP LOCKED), so that nobody waits, and is committed once its rows are here: a process knows what it may have claimed.

import type { Row } from '../../base/database/database.ts';
import { Part } from '../../base/part.ts';
import { BrokenClaim } from '../broken-claim.ts';
import type { ClaimQuery, ClaimTurn, DueMessage, Spool } from '../spool.ts';
import { dueMessage, integer, text } from '../stored-rows.ts';
import { entryColumns, isId } from './postgres-queue.ts';
import type { ProcessRegister } from './process-register.ts';
import type { ServerParts } from './server/database-clock.ts';
import { columnsOf, InDoubt, lostConnection, type Send } from './server/postgres-session.ts';
import {
  changeAnyLine,
  inLines,
  lineColumns,
  lineIsFree,
  recipientHold,
  sendAllLines,
  sendEndOfTurns,
  triedBefore,
} from './spool-lines.ts';

/** Rounds of one claim at most: a round finds fewer messages than asked for where they have many recipients. */
const mostRounds = 20;
/** Of the messages of a claim, the share of those that were deferred before, where both wait: one in so many. */
const deferredShare = 4;

// Steps from account to account in the index, and takes an equal share of the lines of each. Of more accounts than are asked
// for, others come first each time. One free line of each account is looked for by LIMIT 1: the planner may turn EXISTS into a
// join, which reads all lines of the transport.
const turns = `WITH RECURSIVE account AS (
    SELECT (SELECT min(account) FROM spool_lines WHERE transport = $1::text) AS name
    UNION ALL
    SELECT (SELECT min(l.account) FROM spool_lines l WHERE l.transport = $1::text AND l.account > account.name)
    FROM account WHERE account.name IS NOT NULL
  ), ready AS MATERIALIZED (
    SELECT name FROM account WHERE name IS NOT NULL AND name <> ALL ($4::text[]) AND (SELECT 1 FROM spool_lines line
      WHERE line.transport = $1::text AND line.account = name AND line.ready_at <= $2::bigint AND ${lineIsFree}
      ORDER BY line.ready_at LIMIT 1) IS NOT NULL
    ORDER BY random() LIMIT $3::integer
  )
  SELECT turn.lane, turn.account FROM ready CROSS JOIN LATERAL (SELECT line.lane, line.account, line.ready_at FROM spool_lines line
    WHERE line.transport = $1::text AND line.account = ready.name AND line.ready_at <= $2::bigint AND ${lineIsFree}
    ORDER BY line.ready_at LIMIT greatest(1, $3::integer / (SELECT count(*) FROM ready))) AS turn
  ORDER BY turn.ready_at`;
const freeLine = `SELECT 1 AS free FROM spool_lines line WHERE line.lane = $1::text AND line.account = $2::text AND ${lineIsFree}`;
const postpone = 'UPDATE spool_lines SET ready_at = $3::bigint WHERE lane = $1::text AND account = $2::text';

// `first` are the recipients of a line that are due first; `also` are the other due ones of their messages: `+ 0` keeps the
// planner from the index of what is due, which would lead through the whole queue. Rows that another process is about to take
// are passed over, and rows under a hold of their own are set aside.
const claim = `WITH first AS MATERIALIZED (
    SELECT message, position FROM spool_recipients
    WHERE state = 0 AND hold IS NULL AND lane = $1::text AND account = $2::text AND ${triedBefore('')} = $7::integer
      AND due_at <= $3::bigint
    ORDER BY due_at LIMIT $4::integer FOR UPDATE SKIP LOCKED
  ), taken AS MATERIALIZED (
    SELECT message, position FROM first WHERE $8::smallint = 0
      OR EXISTS (SELECT 1 FROM spool_messages m WHERE m.id = first.message AND m.expires_at <= $3::bigint)
  ), also AS MATERIALIZED (
    SELECT message, position FROM spool_recipients
    WHERE message IN (SELECT message FROM taken) AND state + 0 = 0 AND hold IS NULL AND lane || '' = $1::text
      AND account || '' = $2::text AND due_at + 0 <= $3::bigint
    FOR UPDATE SKIP LOCKED
  ), picked AS MATERIALIZED (
    SELECT r.message, r.position, ${recipientHold} AS hold
    FROM (SELECT message, position FROM taken UNION SELECT message, position FROM also) AS row
      JOIN spool_recipients r ON r.message = row.message AND r.position = row.position
  ), claimed AS (
    UPDATE spool_recipients r SET hold = picked.hold,
      due_at = CASE WHEN picked.hold IS NULL THEN $5::bigint ELSE r.due_at END,
      claimed_by = CASE WHEN picked.hold IS NULL THEN $6::bigint ELSE r.claimed_by END
    FROM picked WHERE r.message = picked.message AND r.position = picked.position
    RETURNING r.message, r.position, r.address, r.attempts, r.next_attempt_at, r.hold
  ), due AS (
    SELECT message, min(next_attempt_at) AS first_due,
      json_agg(json_build_object('address', address, 'attempts', attempts) ORDER BY position) AS due_recipients
    FROM claimed WHERE hold IS NULL GROUP BY message
  )
  SELECT ${entryColumns}, due_recipients, (SELECT json_agg(json_build_object('address', address, 'notify', notify,
    'orcpt', orcpt) ORDER BY position) FROM spool_recipients r WHERE r.message = m.id) AS recipients
  FROM due JOIN spool_messages m ON m.id = due.message ORDER BY first_due, id`;

// Steps from transport to transport in the index, so that the lines of those that are there are not read.
const otherLines = `WITH RECURSIVE transport AS (
    SELECT (SELECT min(transport) FROM spool_lines) AS name
    UNION ALL
    SELECT (SELECT min(l.transport) FROM spool_lines l WHERE l.transport > transport.name)
    FROM transport WHERE transport.name IS NOT NULL
  ), others AS MATERIALIZED (
    SELECT ready.lane, ready.account FROM transport CROSS JOIN LATERAL (SELECT lane, account FROM spool_lines
      WHERE spool_lines.transport = transport.name AND ready_at <= $1::bigint ORDER BY ready_at LIMIT $3::integer) AS ready
    WHERE transport.name IS NOT NULL AND transport.name <> ALL ($2::text[]) LIMIT $3::integer
  )`;
// Recipients without a line, and those in the lines of other transports whose turn it is.
const strays = `${otherLines}
  SELECT stray.message, stray.position, stray.address, m.account, line.lane, line.account AS line_account
  FROM (SELECT '' AS lane, '' AS account UNION ALL SELECT lane, account FROM others) AS line
    CROSS JOIN (VALUES (0), (1)) AS part (tried)
    CROSS JOIN LATERAL (SELECT message, position, address FROM spool_recipients r
      WHERE r.state = 0 AND r.hold IS NULL AND r.lane = line.lane AND r.account = line.account
        AND ${triedBefore('r.')} = part.tried AND r.due_at <= $1::bigint
      ORDER BY r.due_at LIMIT $3::integer) AS stray
    JOIN spool_messages m ON m.id = stray.message
  LIMIT $3::integer`;
const readyLines = `${otherLines} SELECT lane, account FROM others`;
/** Lines of other transports that are looked at once no recipient in them is due. */
const mostEmptyLines = 1000;

const give = inLines(`UPDATE spool_recipients r SET lane = new.lane, account = new.account
  FROM (SELECT f.message, f.position, n.lane, n.account
    FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::text[]) AS n (message, position, lane, account)
    JOIN spool_recipients f ON f.message = n.message AND f.position = n.position
    WHERE f.state = 0 AND f.due_at <= $5::bigint FOR UPDATE OF f SKIP LOCKED) AS new
  WHERE r.message = new.message AND r.position = new.position
  RETURNING r.lane, r.account, r.state, r.hold, r.due_at`);

// Whose a row is, is no condition: a claim that was cut off and is still being committed would not be seen. Here it is waited for.
const release = inLines(`UPDATE spool_recipients SET
    claimed_by = CASE WHEN claimed_by = $3::bigint THEN NULL ELSE claimed_by END,
    due_at = CASE WHEN claimed_by = $3::bigint THEN next_attempt_at ELSE due_at END
  WHERE message = $1::uuid AND address = ANY ($2::text[]) AND state = 0
  RETURNING ${lineColumns}`);

type ClaimStep = (limit: number, isDeferred: boolean) => Promise<readonly DueMessage[]>;

/** A column that is a list of objects in JSON. */
function rowList(row: Row, column: string): readonly Row[] {
  const value = row[column];
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the statement makes objects alone
  return Array.isArray(value) ? (value as Row[]) : [];
}

/** The claims of one process; the methods of the same names in `Spool` say what each does. */
export class PostgresClaims extends Part<ServerParts & { readonly register: ProcessRegister }> {
  /** Claims of a single message: every fourth is for a deferred one. */
  #singles = 0;

  async turns({ transport, now, limit, except = [] }: Parameters<Spool['turns']>[0]): Promise<readonly ClaimTurn[]> {
    const rows = await this.parts.session.query(turns, [transport, this.parts.clock.stored(now), limit, except]);
    return rows.map((row) => ({ transport: text(row, 'lane'), account: text(row, 'account') }));
  }

  async postpone({ transport, account }: ClaimTurn, until: number): Promise<void> {
    await this.parts.session.query(postpone, [transport, account, this.parts.clock.stored(until)]);
  }

  async claimDue(query: ClaimQuery): Promise<readonly DueMessage[]> {
    const { transport: lane, account, now } = query;
    if ((await this.parts.session.query(freeLine, [lane, account])).length === 0) return [];
    const messages: DueMessage[] = [];
    try {
      await this.#claimLine(query, messages);
      await this.#endTurns(lane, [account], this.parts.clock.stored(now));
    } catch (thrown) {
      if (messages.length === 0) throw thrown;
      const claimed = messages.map(({ entry: { id }, due }) => ({ id, addresses: due.map(({ address }) => address) }));
      throw new BrokenClaim(claimed, thrown);
    }
    return messages;
  }

  /** Claims of the line, once more as a new process where others took this one for dead. @param claimed gets what may be claimed */
  async #claimLine(query: ClaimQuery, claimed: DueMessage[]): Promise<void> {
    const process = await this.parts.register.id();
    try {
      await this.parts.session.transaction(async (send) => {
        const claimStep: ClaimStep = (limit, isDeferred) => this.#claim(send, query, { limit, isDeferred, process });
        for (const message of await this.#shared(claimStep, query.limit)) claimed.push(message);
        if (claimed.length > 0) this.parts.register.sendPresence(send, process);
      }, true);
    } catch (thrown) {
      if (!(thrown instanceof InDoubt)) claimed.length = 0;
      if (!this.parts.register.isForgotten(thrown)) throw thrown instanceof InDoubt ? lostConnection(thrown) : thrown;
      await this.parts.register.renew(process);
      await this.#claimLine(query, claimed);
    }
  }

  /** Claims of the line: what was never tried comes first, and leaves its share to what was deferred. */
  async #shared(claimStep: ClaimStep, limit: number): Promise<readonly DueMessage[]> {
    if (limit === 1) this.#singles = (this.#singles + 1) % deferredShare;
    const share = limit === 1 && this.#singles === 0 ? 1 : Math.floor(limit / deferredShare);
    const again = await claimStep(share, true);
    const first = await claimStep(limit - again.length, false);
    const room = again.length < share ? 0 : limit - again.length - first.length;
    const more = await claimStep(share === 0 ? limit - first.length : room, true);
    return [...first, ...again, ...more];
  }

  /** Claims messages of one part of the line. @param part.process the number of this process */
  async #claim(
    send: Send,
    { transport, account, now, claimUntil, expiredOnly }: ClaimQuery,
    { limit, isDeferred, process }: { readonly limit: number; readonly isDeferred: boolean; readonly process: number },
  ): Promise<readonly DueMessage[]> {
    const { clock } = this.parts;
    const [at, until] = [clock.stored(now), clock.stored(claimUntil)];
    const flags = [isDeferred ? 1 : 0, expiredOnly ? 1 : 0];
    const messages: DueMessage[] = [];
    for (let round = 0; round < mostRounds && messages.length < limit; round += 1) {
      const left = limit - messages.length;
      const rows = await send(claim, [transport, account, at, left, until, process, ...flags]);
      for (const row of rows)
        messages.push(dueMessage(row, rowList(row, 'recipients'), rowList(row, 'due_recipients'), clock));
      if (rows.length === 0) break;
    }
    return messages;
  }

  async giveTransports(query: Parameters<Spool['giveTransports']>[0]): Promise<number> {
    const { now, limit, transports, transportOf } = query;
    const at = this.parts.clock.stored(now);
    const found = await this.parts.session.query(strays, [at, transports, limit]);
    const empty =
      found.length < limit ? await this.parts.session.query(readyLines, [at, transports, mostEmptyLines]) : [];
    if (found.length === 0 && empty.length === 0) return 0;
    const given = found.map((row) => {
      const [account, address] = [text(row, 'account'), text(row, 'address')];
      return {
        message: text(row, 'message'),
        position: integer(row, 'position'),
        account,
        lane: transportOf({ account, address }),
      };
    });
    const lines = Map.groupBy(empty, (row) => text(row, 'lane'));
    await this.parts.session.transaction(async (send) => {
      sendAllLines(send);
      void send(give, [
        ...columnsOf(given, 'message', 'position', 'lane'),
        given.map(({ account, lane }) => (lane === '' ? '' : account)),
        at,
      ]);
    });
    for (const [lane, rows] of lines) {
      const accounts = rows.map((row) => text(row, 'account'));
      await this.#endTurns(lane, accounts, at);
    }
    return found.length;
  }

  async release(id: string, recipients: readonly string[]): Promise<void> {
    if (!isId(id)) return;
    const process = await this.parts.register.id();
    await changeAnyLine(this.parts.session, release, [id, recipients, process]);
  }

  async #endTurns(lane: string, accounts: readonly string[], at: number): Promise<void> {
    await this.parts.session.transaction(async (send) => sendEndOfTurns(send, lane, accounts, at));
  }
}
