// Removes events that are too many of an account, one by one, and those that are too old, by dropping whole partitions. One by one go
// those of partitions that are small or span more than a day, those in DEFAULT, and all where the tables are whole.

import type { Row } from '../../../base/database/database.ts';
import { Part } from '../../../base/part.ts';
import { shareNumbers } from '../../encoded-event.ts';
import type { EventLimits } from '../../events/event-store.ts';
import { keyNumbersOf } from '../../search/find-events.ts';
import { integer, text } from '../../stored-rows.ts';
import type { ServerParts } from '../server/database-clock.ts';
import { anew, columnsOf, type PgValue, type Send } from '../server/postgres-session.ts';
import { type EventPartitions, leastEvents } from './event-partitions.ts';
import { EventCounts, takeTurn } from './written-events.ts';

/** Events removed in one transaction at most, so that nobody who writes waits long. */
const removedAtOnce = 500;
/** Transactions of one call of `prune` at most. */
const mostSlices = 20;
/** How much longer than they must be events are kept, so that their partition goes as a whole, in milliseconds. */
const slackMs = 86_400_000;
/** After what time it is looked again where nothing is known of the next event to be removed, in milliseconds. */
const lookAgainMs = 60_000;

const most = `CASE share WHEN ${shareNumbers.mail} THEN $1::bigint WHEN ${shareNumbers.refusals} THEN $2::bigint ELSE $3::bigint END`;
// What is in a partition that is being removed is still counted: meanwhile nobody has too much.
const noRemoval = 'NOT EXISTS (SELECT 1 FROM mail_event_removals)';
const surplus = `SELECT account, share FROM mail_event_counts WHERE events > ${most} AND ${noRemoval}`;
const surplusIds = `SELECT id FROM mail_events WHERE account = $4::text AND share = $5::smallint ORDER BY id LIMIT
  (SELECT least(${removedAtOnce}, greatest(0, max(events - ${most}))) FROM mail_event_counts
   WHERE account = $4::text AND share = $5::smallint AND ${noRemoval})`;
const oldest = 'SELECT id, at FROM mail_events ORDER BY id LIMIT 1';
// The oldest rows, up to the first that is not too old: times are in the order of the ids but for `lateMs`.
const agedIds = `SELECT id FROM (SELECT id, at FROM mail_events WHERE id BETWEEN $2::bigint AND $3::bigint ORDER BY id
  LIMIT ${removedAtOnce}) AS first WHERE at < $1::bigint`;
const remove = 'DELETE FROM mail_events WHERE id = ANY ($1::bigint[]) RETURNING id, account, share, event';
const removeKeys = `DELETE FROM mail_event_keys k USING unnest($1::bigint[], $2::bigint[]) AS gone (key, event)
  WHERE k.key = gone.key AND k.event = gone.event AND k.event BETWEEN $3::bigint AND $4::bigint`;

/** The removal of one database's events. */
export class EventRemoval extends Part<
  ServerParts & { readonly partitions: EventPartitions; readonly limits: EventLimits }
> {
  /** Between these times, as they are stored, no event is removed by its age. */
  #rest: { readonly since: number; readonly until: number } = { since: 0, until: 0 };

  /** Removes events that are too many or too old, some at a time. */
  async prune(): Promise<void> {
    const { mail, refusals, copies, ageMilliseconds } = this.parts.limits;
    let slices = 0;
    for (const row of await this.parts.session.query(surplus, [mail, refusals, copies])) {
      const values = [mail, refusals, copies, text(row, 'account'), integer(row, 'share')];
      while (slices < mostSlices && (await this.#remove(surplusIds, values)) === removedAtOnce) slices += 1;
    }
    const now = this.parts.clock.removalTime();
    // A clock that was set back is looked at anew.
    if (now >= this.#rest.since && now < this.#rest.until) return;
    const limit = now - ageMilliseconds;
    await this.parts.partitions.dropAged(limit);
    for (; slices < mostSlices; slices += 1) {
      const next = await this.#nextAged(limit);
      if ('restMs' in next) {
        this.#rest = { since: now, until: now + next.restMs };
        return;
      }
      await this.#remove(agedIds, [limit, next.low, next.high]);
    }
  }

  /** Between which ids the next events that are too old are removed, or how long there is nothing to do. */
  async #nextAged(
    limit: number,
  ): Promise<{ readonly low: number; readonly high: number } | { readonly restMs: number }> {
    const [first] = await this.parts.session.query(oldest, [], anew);
    if (!first) return { restMs: Math.min(this.parts.limits.ageMilliseconds, lookAgainMs) };
    const [low, at] = [integer(first, 'id'), integer(first, 'at')];
    if (at >= limit) return { restMs: at - limit };
    const partition = this.parts.partitions.holding(low);
    const isLarge = partition !== undefined && partition.to - partition.from > 2 * leastEvents;
    if (isLarge && at >= limit - slackMs) return { restMs: lookAgainMs };
    const next = this.parts.partitions.starts.find((start) => start > low);
    return { low, high: partition ? partition.to - 1 : (next ?? Number.MAX_SAFE_INTEGER) - 1 };
  }

  /** Removes the events that a question finds in the turn to write. @returns how many */
  async #remove(sql: string, values: readonly PgValue[]): Promise<number> {
    return await this.parts.session.transaction(async (send) => {
      void send(takeTurn, [0]);
      const ids = (await send(sql, values, anew)).map((row) => integer(row, 'id'));
      if (ids.length > 0) forget(send, await send(remove, [ids], anew));
      return ids.length;
    });
  }
}

/** Removes the keys of events that were removed, and counts them off. */
function forget(send: Send, rows: readonly Row[]): void {
  let [low, high] = [Number.MAX_SAFE_INTEGER, 0];
  for (const row of rows) [low, high] = [Math.min(low, integer(row, 'id')), Math.max(high, integer(row, 'id'))];
  const keys = rows.flatMap((row) =>
    keyNumbersOf(text(row, 'account'), text(row, 'event')).map((key) => ({ key, event: integer(row, 'id') })),
  );
  void send(removeKeys, [...columnsOf(keys, 'key', 'event'), low, high], anew);
  const counts = new EventCounts();
  for (const row of rows) counts.add(text(row, 'account'), integer(row, 'share'), -1);
  counts.send(send);
}
