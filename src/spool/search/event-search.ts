// Searches the events of a SQLite database. Each page reads a bounded part of one index; what the other conditions leave out
// is skipped row by row, so that a page may have few events or none while more follow.

import { hash } from 'node:crypto';
import type { Row } from '../../base/database/database.ts';
import type { DatabaseSync, StatementSync } from '../../base/database/sqlite-file.ts';
import { eventKeys, searchedKeys } from '../../events/event-keys.ts';
import type { EventSearch } from '../../events/event-store.ts';
import { type EventFacts, type EventKind, isEventKind } from '../../events/mail-event.ts';

/** The tables of the search. A key is told by its hash, so that a row is two numbers; who searches compares the event itself. */
export const searchTables = `
  CREATE TABLE mail_event_keys (
    key INTEGER NOT NULL,
    event INTEGER NOT NULL,
    PRIMARY KEY (key, event)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX mail_events_by_kind ON mail_events (account, kind);
`;

/** Rows that are examined for one page, in each part of an index. */
const examinedAtOnce = 2000;
/** Characters of JSON after which a page is full. */
const pageCharacters = 2_097_152;
const mostAtOnce = 1000;
/**
 * How much later than its time an event may be written, in milliseconds: a commit waits 5 s for a lock, an outcome somewhat
 * longer. Ids are given in the order of the commits, so times are in order but for this.
 */
const lateMs = 60_000;

/** The number under which a key of an account's events is kept: 64 bits of SHA-256. */
export function keyNumber(account: string, key: string): bigint {
  return hash('sha256', `${account}\0${key}`, 'buffer').readBigInt64BE(0);
}

interface Found {
  readonly id: number;
  readonly json: string;
}

/** A page that was found; `next` is the last id that was examined. */
export interface FoundPage {
  readonly events: readonly Found[];
  readonly next: number;
  readonly hasMore: boolean;
}

/** The part of an index that holds everything that is searched for. */
interface Source {
  readonly sql: string;
  readonly values: readonly (string | bigint)[];
}

const columns = 'e.id, e.at, e.account, e.kind, e.queue_id, e.event';

function sourcesOf(query: EventSearch): readonly Source[] {
  const { account, message, kinds } = query;
  const [key] = searchedKeys(query);
  if (message !== undefined) {
    return [{ sql: `SELECT ${columns} FROM mail_events e WHERE e.queue_id = ?3`, values: [message] }];
  }
  if (key !== undefined) {
    const sql = `SELECT ${columns} FROM mail_event_keys k JOIN mail_events e ON e.id = k.event WHERE k.key = ?3`;
    return [{ sql, values: [keyNumber(account, key)] }];
  }
  if (kinds !== undefined) {
    const sql = `SELECT ${columns} FROM mail_events e INDEXED BY mail_events_by_kind WHERE e.account = ?3 AND e.kind = ?4`;
    return [...new Set(kinds)].map((kind) => ({ sql, values: [account, kind] }));
  }
  const sql = `SELECT ${columns} FROM mail_events e INDEXED BY mail_events_by_account WHERE e.account = ?3 AND e.share`;
  return ['0', '1'].map((share) => ({ sql: `${sql} = ${share}`, values: [account] }));
}

/** Whether an event that an index led to is one of those searched for. */
function fits(row: Row, query: EventSearch, kinds: ReadonlySet<string> | undefined): boolean {
  const [kind, at] = [String(row['kind']), Number(row['at'])];
  if (!isEventKind(kind) || row['account'] !== query.account) return false;
  if (kinds && !kinds.has(kind)) return false;
  if (query.message !== undefined && row['queue_id'] !== query.message) return false;
  if (at < (query.since ?? Number.NEGATIVE_INFINITY) || at >= (query.until ?? Number.POSITIVE_INFINITY)) return false;
  const wanted = searchedKeys(query);
  if (wanted.length === 0) return true;
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- only `packEvent` writes them
  const keys = eventKeys(JSON.parse(String(row['event'])) as EventFacts);
  return wanted.every((key) => keys.includes(key));
}

/** Searches the events of one database. */
export class EventSearcher {
  readonly #database: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();
  readonly #from: StatementSync;

  /** @param database its tables are up to date */
  constructor(database: DatabaseSync) {
    this.#database = database;
    this.#from = database.prepare('SELECT id, at FROM mail_events WHERE id >= ? ORDER BY id LIMIT 1');
  }

  /**
   * Finds events.
   * @param query its times as they are stored
   * @param newest the id of the newest event; later ones are left to the next page
   */
  find(query: EventSearch, newest: number): FoundPage {
    const { order, cursor, since, until } = query;
    let low = since === undefined ? 1 : this.#firstFrom(since - lateMs, newest);
    let high = until === undefined ? newest : Math.min(newest, this.#firstFrom(until + lateMs, newest));
    if (cursor !== undefined && order === 'oldest') low = Math.max(low, cursor + 1);
    if (cursor !== undefined && order === 'newest') high = Math.min(high, cursor - 1);
    // Who reads on from the oldest waits behind the newest event; who reads from the newest is at the end.
    const end = order === 'oldest' ? Math.max(cursor ?? 0, high) : Math.min(cursor ?? newest + 1, low);
    if (low > high) return { events: [], next: cursor ?? end, hasMore: false };
    const limit = Math.min(Math.max(1, query.limit), mostAtOnce);
    const parts = sourcesOf(query).map((source) => this.#look(source, query, { low, high, limit }));
    const isBefore = (left: number, right: number): boolean => (order === 'oldest' ? left < right : left > right);
    // The parts have been examined to different ids; what is behind the nearest of them is left to the next page.
    const reached = parts.reduce(
      (near, { until: id }) => (isBefore(id, near) ? id : near),
      order === 'oldest' ? high : low,
    );
    const events = parts
      .flatMap((part) => part.events)
      .filter(({ id }) => !isBefore(reached, id))
      .toSorted((left, right) => (order === 'oldest' ? left.id - right.id : right.id - left.id))
      .slice(0, limit);
    const next = events.length === limit ? (events.at(-1)?.id ?? reached) : reached;
    return { events, next, hasMore: order === 'oldest' ? next < high : next > low };
  }

  #look(
    { sql, values }: Source,
    query: EventSearch,
    bounds: { readonly low: number; readonly high: number; readonly limit: number },
  ): { readonly events: Found[]; readonly until: number } {
    const isOldest = query.order === 'oldest';
    const id = sql.includes('mail_event_keys') ? 'k.event' : 'e.id';
    const statement = this.#prepared(`${sql} AND ${id} BETWEEN ?1 AND ?2 ORDER BY ${id} ${isOldest ? 'ASC' : 'DESC'}`);
    const kinds = query.kinds && new Set<EventKind>(query.kinds);
    const events: Found[] = [];
    let examined = 0;
    let characters = 0;
    for (const row of statement.iterate(bounds.low, bounds.high, ...values)) {
      examined += 1;
      if (fits(row, query, kinds)) {
        const found = { id: Number(row['id']), json: String(row['event']) };
        events.push(found);
        characters += found.json.length;
      }
      const isFull = events.length === bounds.limit || examined === examinedAtOnce || characters >= pageCharacters;
      if (isFull) return { events, until: Number(row['id']) };
    }
    return { events, until: isOldest ? bounds.high : bounds.low };
  }

  /** The id of the first event from a time on, by halving: times are in the order of the ids but for `lateMs`. */
  #firstFrom(at: number, newest: number): number {
    let low = Number(this.#from.get(0)?.['id'] ?? 1);
    let high = newest + 1;
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      const row = this.#from.get(middle);
      if (row === undefined || Number(row['at']) >= at) high = middle;
      else low = Number(row['id']) + 1;
    }
    return low;
  }

  #prepared(sql: string): StatementSync {
    const statement = this.#statements.get(sql) ?? this.#database.prepare(sql);
    this.#statements.set(sql, statement);
    return statement;
  }
}
