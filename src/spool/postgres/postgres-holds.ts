// Holds in PostgreSQL. A hold on a line, an account, a route or the domain of a whole line is asked for when turns are given; one on a
// message or a domain sets single recipients aside: the message's at once, the domain's when they would be claimed.

import { type Hold, type HoldRule, requireRoom } from '../hold.ts';
import { holdsOf, integer, readHolds } from '../stored-rows.ts';
import { tellDue } from './events/written-events.ts';
import { isId } from './postgres-queue.ts';
import { ServerPart } from './server/database-clock.ts';
import { changeAnyLine, inLines, lineColumns } from './spool-lines.ts';

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
export class PostgresHolds extends ServerPart {
  async read(): Promise<readonly Hold[]> {
    return holdsOf(await this.parts.session.query(readHolds), this.parts.clock);
  }

  /** Makes a hold, or says anew who made it and why. @throws Error where there are too many */
  async add(rule: HoldRule): Promise<void> {
    requireRoom(await this.read(), rule);
    const { kind, value, at, by, why } = rule;
    const madeAt = this.parts.clock.stored(at);
    await this.parts.session.transaction(async (send) => {
      void send(add, [kind, value, madeAt, by, why]);
      if (kind === 'message' && isId(value)) void send(setAside, [value]);
      await send(tellDue);
    });
  }

  /** Lifts a hold, and lets what it had set aside have turns again. @returns false where there is none */
  async lift({ kind, value }: Pick<HoldRule, 'kind' | 'value'>): Promise<boolean> {
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
