// Reads and searches the events in PostgreSQL.

import type { Row } from '../../../base/database/database.ts';
import { type EncodedPage, shareNumbers, shares, toldOf } from '../../encoded-event.ts';
import { searchedKeys } from '../../events/event-keys.ts';
import { type EventNews, type EventQuery, type EventSearch, newsAtMost } from '../../events/event-store.ts';
import { joinParts, mostAtOnce, type PageOrder, type PagePart, PartReader } from '../../search/event-page.ts';
import { isSearched, keyNumber, lateMs, searchBounds } from '../../search/searched-event.ts';
import { integer } from '../../stored-rows.ts';
import { ServerPart, type ServerParts } from '../server/database-clock.ts';
import { anew, type PgValue } from '../server/postgres-session.ts';
import { type EventPartitions, firstEventFrom } from './event-partitions.ts';

/** Rows that are read at a time for a part of a page. */
const readAtOnce = 250;
const newest = 'SELECT last_event FROM spool_state';
const news = 'SELECT DISTINCT account, kind FROM mail_events WHERE id BETWEEN $1::bigint AND $2::bigint';
const columns = 'e.id, e.at, e.account, e.kind, e.queue_id, e.event';

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

/** A range of ids, both included. */
export interface IdSpan {
  readonly low: number;
  readonly high: number;
}

/**
 * The ranges of ids in which a page looks for its events, one after another: first those of one partition, then of two, of four ...
 * A page that is soon full touches one partition, whatever their number; one that finds little touches all with few questions.
 * @param starts the first ids of the partitions, in order; without any the range stays whole
 */
export function* spansOf(
  { low, high }: IdSpan,
  { starts, isOldest }: { readonly starts: readonly number[]; readonly isOldest: boolean },
): Generator<IdSpan> {
  let [bottom, top] = [low, high];
  for (let count = 1; bottom <= top; count *= 2) {
    if (isOldest) {
      const end = starts[starts.findLastIndex((start) => start <= bottom) + count];
      const until = end === undefined ? top : Math.min(top, end - 1);
      yield { low: bottom, high: until };
      bottom = until + 1;
    } else {
      const begin = starts[starts.findLastIndex((start) => start <= top) - count + 1];
      const since = begin === undefined ? bottom : Math.max(bottom, begin);
      yield { low: since, high: top };
      top = since - 1;
    }
  }
}

/** The events of one database. */
export class PostgresEvents extends ServerPart<ServerParts & { readonly partitions: EventPartitions }> {
  async newest(): Promise<number> {
    const [row] = await this.parts.session.query(newest);
    return integer(row ?? {}, 'last_event');
  }

  /** Tells which accounts have events behind a cursor. */
  async news(after: number): Promise<EventNews> {
    const last = await this.newest();
    if (last <= after) return { newest: last, told: [] };
    if (last - after > newsAtMost) return { newest: last, told: undefined };
    return {
      newest: last,
      told: toldOf(await this.parts.session.query(news, [after + 1, last], anew)),
    };
  }

  async read({ after, limit, kinds, account, message }: EventQuery): Promise<EncodedPage> {
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

  async search(query: EventSearch): Promise<EncodedPage> {
    const [since, until] = [query.since, query.until].map((time) =>
      time === undefined ? undefined : this.parts.clock.stored(time),
    );
    const stored = { ...query, since, until };
    const last = await this.newest();
    const { low, high, limit, end } = searchBounds(stored, {
      low: since === undefined ? 1 : await firstEventFrom(this.parts.session, since - lateMs, last),
      high: until === undefined ? last : Math.min(last, await firstEventFrom(this.parts.session, until + lateMs, last)),
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
    // The bounds of both tables are named, so that the partitions of both are found before anything is read.
    const between = '$1::bigint AND $2::bigint';
    const sql = `SELECT ${columns} FROM ${table} WHERE ${where} AND ${id} BETWEEN ${between} AND e.id BETWEEN ${between}
      ORDER BY ${id} ${isOldest ? 'ASC' : 'DESC'} LIMIT $3::integer`;
    const reader = new PartReader(query.most, query.fits);
    for (const span of spansOf(query, { starts: this.parts.partitions.starts, isOldest })) {
      let { low, high } = span;
      for (let isMore = true; isMore && low <= high; ) {
        const rows = await this.parts.session.query(sql, [low, high, readAtOnce, ...values], anew);
        for (const row of rows) {
          if (reader.isFull) break;
          reader.look(row);
        }
        if (isOldest) low = reader.last + 1;
        else high = reader.last - 1;
        isMore = !reader.isFull && rows.length === readAtOnce;
      }
      if (reader.isFull) break;
    }
    return reader.part(isOldest ? query.high : query.low);
  }
}
