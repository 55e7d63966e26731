// Searches the events of a SQLite database. Each page reads a bounded part of one index; what the other conditions leave out
// is skipped row by row, so that a page may have few events or none while more follow.

import type { DatabaseSync, StatementSync } from '../../base/database/sqlite-file.ts';
import { searchedKeys } from '../../events/event-keys.ts';
import type { EventSearch } from '../../events/event-store.ts';
import type { PackedPage } from '../packed-event.ts';
import { joinParts, type PagePart, readPart } from './event-page.ts';
import { isSearched, keyNumber, lateMs, searchBounds } from './searched-event.ts';

/** The tables of the search. A key is told by its hash, so that a row is two numbers; who searches compares the event itself. */
export const searchTables = `
  CREATE TABLE mail_event_keys (
    key INTEGER NOT NULL,
    event INTEGER NOT NULL,
    PRIMARY KEY (key, event)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX mail_events_by_kind ON mail_events (account, kind);
`;

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
  find(query: EventSearch, newest: number): PackedPage {
    const { order, cursor, since, until } = query;
    const { low, high, limit, end } = searchBounds(query, {
      low: since === undefined ? 1 : this.#firstFrom(since - lateMs, newest),
      high: until === undefined ? newest : Math.min(newest, this.#firstFrom(until + lateMs, newest)),
      newest,
    });
    if (low > high) return { events: [], next: cursor ?? end, hasMore: false };
    const parts = sourcesOf(query).map((source) => this.#look(source, query, { low, high, limit }));
    const { events, next } = joinParts(parts, { order, most: limit, end: order === 'oldest' ? high : low });
    return { events, next, hasMore: order === 'oldest' ? next < high : next > low };
  }

  #look(
    { sql, values }: Source,
    query: EventSearch,
    bounds: { readonly low: number; readonly high: number; readonly limit: number },
  ): PagePart {
    const isOldest = query.order === 'oldest';
    const id = sql.includes('mail_event_keys') ? 'k.event' : 'e.id';
    const statement = this.#prepared(`${sql} AND ${id} BETWEEN ?1 AND ?2 ORDER BY ${id} ${isOldest ? 'ASC' : 'DESC'}`);
    return readPart(statement.iterate(bounds.low, bounds.high, ...values), {
      most: bounds.limit,
      fits: (row) => isSearched(row, query),
      end: isOldest ? bounds.high : bounds.low,
    });
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
