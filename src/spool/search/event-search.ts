// Searches the events of a SQLite database. Each page reads a bounded part of one index, and of the events behind it that are not
// filed yet; what the other conditions leave out is skipped row by row, so that a page may have few events or none while more follow.

import type { DatabaseSync, StatementSync } from '../../base/database/sqlite-file.ts';
import type { EncodedPage } from '../encoded-event.ts';
import { searchedKeys } from '../events/event-keys.ts';
import type { EventSearch } from '../events/event-store.ts';
import type { EventKind } from '../events/mail-event.ts';
import { keysOfKinds, messageKey } from './event-index.ts';
import { type EventRow, joinParts, type PageOrder, type PagePart, readPart } from './event-page.ts';
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

/**
 * The index of accounts, kinds and messages, filled behind the commits as the keys are (event-follower.ts). indexed: up to which
 * event both are; built: up to which event of an earlier release, whose indexes were SQLite's own.
 */
export const indexTables = `
  DROP INDEX mail_events_by_account;
  DROP INDEX mail_events_by_message;
  DROP INDEX mail_events_by_kind;
  CREATE TABLE mail_event_index (
    key INTEGER NOT NULL,
    event INTEGER NOT NULL,
    PRIMARY KEY (key, event)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE mail_event_state (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    indexed INTEGER NOT NULL,
    built INTEGER NOT NULL
  ) STRICT;
  INSERT INTO mail_event_state SELECT 1, coalesce(max(id), 0), 0 FROM mail_events;
`;

/**
 * noted: up to which event an earlier release noted in the journal what became of messages, in the commits. The events behind it are
 * noted when they are filed.
 */
export const notedEvents = `
  ALTER TABLE mail_event_state ADD COLUMN noted INTEGER NOT NULL DEFAULT 0;
  UPDATE mail_event_state SET noted = (SELECT coalesce(max(id), 0) FROM mail_events);
`;

const columns = 'e.id, e.at, e.account, e.kind, e.queue_id, e.event';

/** The rows of a key: the table that it is in, and the key. */
interface Source {
  readonly table: 'mail_event_index' | 'mail_event_keys';
  readonly key: bigint;
}

/** Between which ids events are looked for, which come first, and which of them fit. */
interface Look {
  readonly low: number;
  readonly high: number;
  readonly order: PageOrder;
  readonly limit: number;
  readonly fits: (row: EventRow) => boolean;
}

function indexed(key: bigint): Source {
  return { table: 'mail_event_index', key };
}

/** The events that belong to one message, or to an account, of some kinds or of all. */
export interface Filed {
  readonly account?: string | undefined;
  readonly message?: string | undefined;
  readonly kinds?: readonly EventKind[] | undefined;
}

function sourcesOf({ account = '', message, kinds }: Filed): readonly Source[] {
  if (message !== undefined) return [indexed(messageKey(message))];
  return keysOfKinds(account, kinds).map(indexed);
}

function searchedSources(query: EventSearch): readonly Source[] {
  const [key] = searchedKeys(query);
  if (query.message !== undefined || key === undefined) return sourcesOf(query);
  return [{ table: 'mail_event_keys', key: keyNumber(query.account, key) }];
}

/** Searches the events of one database. */
export class EventSearcher {
  readonly #database: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();
  readonly #from: StatementSync;
  readonly #indexed: StatementSync;

  /** @param database its tables are up to date */
  constructor(database: DatabaseSync) {
    this.#database = database;
    this.#from = database.prepare('SELECT id, at FROM mail_events WHERE id >= ? ORDER BY id LIMIT 1');
    this.#indexed = database.prepare('SELECT indexed FROM mail_event_state');
  }

  /**
   * Finds events.
   * @param query its times as they are stored
   * @param newest the id of the newest event; later ones are left to the next page
   */
  find(query: EventSearch, newest: number): EncodedPage {
    const { order, cursor, since, until } = query;
    const { low, high, limit, end } = searchBounds(query, {
      low: since === undefined ? 1 : this.#firstFrom(since - lateMs, newest),
      high: until === undefined ? newest : Math.min(newest, this.#firstFrom(until + lateMs, newest)),
      newest,
    });
    if (low > high) return { events: [], next: cursor ?? end, hasMore: false };
    const fits = (row: EventRow): boolean => isSearched(row, query);
    const { events, next } = this.#page(searchedSources(query), { low, high, order, limit, fits });
    return { events, next, hasMore: order === 'oldest' ? next < high : next > low };
  }

  /** Reads a page of the events of a message or an account, the oldest first. */
  read(filed: Filed, bounds: Omit<Look, 'order' | 'fits'>): ReturnType<typeof joinParts> {
    const { account, message, kinds } = filed;
    const wanted = kinds && new Set<unknown>(kinds);
    const fits = (row: EventRow): boolean =>
      (!wanted || wanted.has(row['kind'])) &&
      (message === undefined || row['queue_id'] === message) &&
      (account === undefined || row['account'] === account);
    return this.#page(sourcesOf(filed), { ...bounds, order: 'oldest', fits });
  }

  /** Reads what the sources have, and the events that are not filed yet. */
  #page(sources: readonly Source[], look: Look): ReturnType<typeof joinParts> {
    const { low, high, order, limit } = look;
    const filed = Number(this.#indexed.get()?.['indexed'] ?? 0);
    const end = order === 'oldest' ? high : low;
    const parts = sources.map(({ table, key }) => {
      const from = `${table} k JOIN mail_events e ON e.id = k.event WHERE k.key = ?3 AND k.event`;
      return this.#part(from, { ...look, high: Math.min(high, filed), end }, [key]);
    });
    parts.push(this.#part('mail_events e WHERE e.id', { ...look, low: Math.max(low, filed + 1), end }, []));
    return joinParts(parts, { order, most: limit, end });
  }

  #part(from: string, look: Look & { readonly end: number }, values: readonly bigint[]): PagePart {
    const { low, high, order, limit, fits, end } = look;
    if (low > high) return { events: [], until: end };
    const id = from.endsWith('k.event') ? 'k.event' : 'e.id';
    const direction = order === 'oldest' ? 'ASC' : 'DESC';
    const statement = this.#prepared(`SELECT ${columns} FROM ${from} BETWEEN ?1 AND ?2 ORDER BY ${id} ${direction}`);
    return readPart(statement.iterate(low, high, ...values), { most: limit, fits, end });
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
