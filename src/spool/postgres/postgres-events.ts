// Reads and searches the events in PostgreSQL, and removes those that are too many or too old.

import type { Row } from '../../base/database/database.ts';
import { searchedKeys } from '../../events/event-keys.ts';
import type { EventLimits, EventQuery, EventSearch } from '../../events/event-store.ts';
import { type PackedPage, shareNumbers, shares } from '../packed-event.ts';
import {
  examinedAtOnce,
  joinParts,
  mostAtOnce,
  type PageOrder,
  type PagePart,
  PartReader,
} from '../search/event-page.ts';
import { isSearched, keyNumber, keyNumbersOf, lateMs, searchBounds } from '../search/searched-event.ts';
import { integer, text } from '../stored-rows.ts';
import type { DatabaseClock } from './server/database-clock.ts';
import type { PgValue, PostgresSession, Send } from './server/postgres-session.ts';
import { countEvents, takeTurn } from './written-events.ts';

/** Rows that are read at a time for a part of a page. */
const readAtOnce = 250;
/** Events removed in one transaction at most, so that nobody who writes waits long. */
const removedAtOnce = 500;
/** Transactions of one call of `prune` at most. */
const mostSlices = 20;

const newest = 'SELECT last_event FROM spool_state';
const from = 'SELECT id, at FROM mail_events WHERE id >= $1::bigint ORDER BY id LIMIT 1';
const oldest = 'SELECT id, at FROM mail_events ORDER BY id LIMIT 1';
const columns = 'e.id, e.at, e.account, e.kind, e.queue_id, e.event';
const surplus = `SELECT account, share, events - CASE share WHEN ${shareNumbers.mail} THEN $1::bigint ELSE $2::bigint END AS surplus
  FROM mail_event_counts WHERE events > CASE share WHEN ${shareNumbers.mail} THEN $1::bigint ELSE $2::bigint END`;
const removed = 'RETURNING id, account, share, event';
const removeSurplus = `DELETE FROM mail_events WHERE id IN (SELECT id FROM mail_events
  WHERE account = $1::text AND share = $2::smallint ORDER BY id LIMIT $3::integer) ${removed}`;
// The oldest rows, up to the first that is not too old: times are in the order of the ids but for `lateMs`.
const removeAged = `DELETE FROM mail_events WHERE id IN (SELECT id FROM (SELECT id, at FROM mail_events ORDER BY id LIMIT $2::integer)
  AS first WHERE at < $1::bigint) ${removed}`;
const removeKeys = `DELETE FROM mail_event_keys k USING unnest($1::bigint[], $2::bigint[]) AS gone (key, event)
  WHERE k.key = gone.key AND k.event = gone.event`;

/** An index that a part of a page is read from. */
interface Source {
  readonly table: string;
  /** The column with the event's id. */
  readonly id: string;
  readonly where: string;
  readonly values: readonly PgValue[];
}

function plain(where: string, values: readonly PgValue[]): Source {
  return { table: 'mail_events e', id: 'e.id', where, values };
}

/** The sources of all events of a question, of which each event is in one. */
function sourcesOf(
  query: Pick<EventSearch, 'kinds' | 'message'> & { readonly account?: string | undefined },
): readonly Source[] {
  const { account, message, kinds } = query;
  if (message !== undefined) return [plain('e.queue_id = $4::text', [message])];
  if (account === undefined) return [plain('$4::text IS NULL', [null])];
  if (kinds !== undefined)
    return [...new Set(kinds)].map((kind) => plain('e.account = $4::text AND e.kind = $5::text', [account, kind]));
  return shares.map((share) =>
    plain('e.account = $4::text AND e.share = $5::smallint', [account, shareNumbers[share]]),
  );
}

function searchedSources(query: EventSearch): readonly Source[] {
  const [key] = searchedKeys(query);
  if (query.message !== undefined || key === undefined) return sourcesOf(query);
  const table = 'mail_event_keys k JOIN mail_events e ON e.id = k.event';
  return [{ table, id: 'k.event', where: 'k.key = $4::bigint', values: [keyNumber(query.account, key)] }];
}

/** The events of one database. */
export class PostgresEvents {
  readonly #session: PostgresSession;
  readonly #clock: DatabaseClock;
  readonly #limits: EventLimits;

  constructor(parts: {
    readonly session: PostgresSession;
    readonly clock: DatabaseClock;
    readonly limits: EventLimits;
  }) {
    this.#session = parts.session;
    this.#clock = parts.clock;
    this.#limits = parts.limits;
  }

  async newest(): Promise<number> {
    const [row] = await this.#session.query(newest);
    return integer(row ?? {}, 'last_event');
  }

  async read({ after, limit, kinds, account, message }: EventQuery): Promise<PackedPage> {
    const last = await this.newest();
    if (last <= after) return { events: [], next: after, hasMore: false };
    const most = Math.min(Math.max(1, limit), mostAtOnce);
    const wanted = kinds && new Set<unknown>(kinds);
    const fits = (row: Row): boolean =>
      (!wanted || wanted.has(row['kind'])) && (account === undefined || row['account'] === account);
    const bounds = { low: after + 1, high: last, order: 'oldest' as const, most, fits };
    const parts = await Promise.all(sourcesOf({ account, message, kinds }).map((source) => this.#part(source, bounds)));
    const { events, next } = joinParts(parts, { order: 'oldest', most, end: last });
    return { events, next, hasMore: next < last };
  }

  async search(query: EventSearch): Promise<PackedPage> {
    const [since, until] = [query.since, query.until].map((time) =>
      time === undefined ? undefined : this.#clock.stored(time),
    );
    const stored = { ...query, since, until };
    const last = await this.newest();
    const { low, high, limit, end } = searchBounds(stored, {
      low: since === undefined ? 1 : await this.#firstFrom(since - lateMs, last),
      high: until === undefined ? last : Math.min(last, await this.#firstFrom(until + lateMs, last)),
      newest: last,
    });
    const { order, cursor } = query;
    if (low > high) return { events: [], next: cursor ?? end, hasMore: false };
    const bounds = { low, high, order, most: limit, fits: (row: Row) => isSearched(row, stored) };
    const parts = await Promise.all(searchedSources(stored).map((source) => this.#part(source, bounds)));
    const { events, next } = joinParts(parts, { order, most: limit, end: order === 'oldest' ? high : low });
    return { events, next, hasMore: order === 'oldest' ? next < high : next > low };
  }

  /** Reads a part of a page, some rows at a time. */
  async #part(
    { table, id, where, values }: Source,
    query: {
      readonly low: number;
      readonly high: number;
      readonly order: PageOrder;
      readonly most: number;
      readonly fits: (row: Row) => boolean;
    },
  ): Promise<PagePart> {
    const isOldest = query.order === 'oldest';
    const sql = `SELECT ${columns} FROM ${table} WHERE ${where} AND ${id} BETWEEN $1::bigint AND $2::bigint
      ORDER BY ${id} ${isOldest ? 'ASC' : 'DESC'} LIMIT $3::integer`;
    const reader = new PartReader(query.most, query.fits);
    let { low, high } = query;
    for (let examined = 0; examined < examinedAtOnce && low <= high; examined += readAtOnce) {
      const rows = await this.#session.query(sql, [low, high, readAtOnce, ...values]);
      for (const row of rows) {
        if (reader.isFull) break;
        reader.look(row);
      }
      if (reader.isFull || rows.length < readAtOnce) break;
      if (isOldest) low = reader.last + 1;
      else high = reader.last - 1;
    }
    return reader.part(isOldest ? query.high : query.low);
  }

  /** The id of the first event from a stored time on, by halving: times are in the order of the ids but for `lateMs`. */
  async #firstFrom(at: number, last: number): Promise<number> {
    const [first] = await this.#session.query(oldest);
    let low = first ? integer(first, 'id') : 1;
    let high = last + 1;
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      const [row] = await this.#session.query(from, [middle]);
      if (row === undefined || integer(row, 'at') >= at) high = middle;
      else low = integer(row, 'id') + 1;
    }
    return low;
  }

  /** Removes events that are too many or too old, some at a time. */
  async prune(): Promise<void> {
    let slices = 0;
    for (const row of await this.#session.query(surplus, [this.#limits.mail, this.#limits.refusals])) {
      const [account, share] = [text(row, 'account'), integer(row, 'share')];
      for (let left = integer(row, 'surplus'); left > 0 && slices < mostSlices; left -= removedAtOnce, slices += 1)
        await this.#remove(removeSurplus, [account, share, Math.min(left, removedAtOnce)]);
    }
    const limit = this.#clock.stored(this.#clock.now()) - this.#limits.ageMilliseconds;
    for (; slices < mostSlices; slices += 1) {
      const [first] = await this.#session.query(oldest);
      if (!first || integer(first, 'at') >= limit) return;
      await this.#remove(removeAged, [limit, removedAtOnce]);
    }
  }

  async #remove(sql: string, values: readonly PgValue[]): Promise<void> {
    await this.#session.transaction(async (send) => {
      void send(takeTurn, [0]);
      await forget(send, await send(sql, values));
    });
  }
}

/** Removes the keys of events that were removed, and counts them off. */
async function forget(send: Send, rows: readonly Row[]): Promise<void> {
  if (rows.length === 0) return;
  const keys = rows.flatMap((row) =>
    keyNumbersOf(text(row, 'account'), text(row, 'event')).map((key) => ({ key, event: integer(row, 'id') })),
  );
  void send(removeKeys, [keys.map(({ key }) => key), keys.map(({ event }) => event)]);
  const groups = Map.groupBy(rows, (row) => `${integer(row, 'share')} ${text(row, 'account')}`);
  const counts = [...groups.values()].flatMap(([row, ...others]) => (row ? [{ row, events: 1 + others.length }] : []));
  await send(countEvents, [
    counts.map(({ row }) => text(row, 'account')),
    counts.map(({ row }) => integer(row, 'share')),
    counts.map(({ events }) => -events),
  ]);
}
