// Keeps events in a table of the spool's database. They are written on the spool's connection, in the transaction of the
// change that they report.

import type { Migrations } from '../../base/database/database.ts';
import { type DatabaseSync, migrateSqlite, prepareAll } from '../../base/database/sqlite-file.ts';
import { type EncodedEvent, type EncodedPage, shareNumbers, toldOf } from '../encoded-event.ts';
import { type EventNews, type EventQuery, type EventSearch, newsAtMost } from '../events/event-store.ts';
import { type EventKind, eventKinds } from '../events/mail-event.ts';
import { type EventRow, examinedAtOnce, joinParts, mostAtOnce, type PagePart, readPart } from '../search/event-page.ts';
import { EventSearcher, indexTables, notedEvents, searchTables } from '../search/event-search.ts';

/** The tables. Times are milliseconds since 1970 as the spool stores them (sqlite-clock.ts). */
export const eventMigrations: Migrations = {
  owner: 'events',
  steps: [
    `
    -- AUTOINCREMENT: an id is never given twice, also when the newest events are gone. share: 0 mail, 1 refusals.
    CREATE TABLE mail_events (
      id INTEGER PRIMARY KEY AUTOINCREMENT,
      at INTEGER NOT NULL,
      account TEXT NOT NULL,
      share INTEGER NOT NULL,
      kind TEXT NOT NULL,
      event TEXT NOT NULL
    ) STRICT;
    CREATE INDEX mail_events_by_account ON mail_events (account, share);

    -- How many there are, kept in the transactions that change it.
    CREATE TABLE mail_event_counts (
      account TEXT NOT NULL,
      share INTEGER NOT NULL,
      events INTEGER NOT NULL,
      PRIMARY KEY (account, share)
    ) STRICT, WITHOUT ROWID;
    `,
    `
    -- The message that an event is about, for what is asked about one message; NULL for refusals.
    ALTER TABLE mail_events ADD COLUMN queue_id TEXT;
    UPDATE mail_events SET queue_id = json_extract(event, '$.queueId') WHERE share = 0;
    CREATE INDEX mail_events_by_message ON mail_events (queue_id) WHERE queue_id IS NOT NULL;
    `,
    searchTables,
    indexTables,
    notedEvents,
  ],
};

function prepare(database: DatabaseSync) {
  return prepareAll(database, {
    add: 'INSERT INTO mail_events (at, account, share, kind, queue_id, event) VALUES (?, ?, ?, ?, ?, ?)',
    newest: "SELECT seq FROM sqlite_sequence WHERE name = 'mail_events'",
    news: 'SELECT DISTINCT account, kind FROM mail_events WHERE id > ? AND id <= ?',
    behind: 'SELECT id, kind, event FROM mail_events WHERE id > ? AND id <= ? ORDER BY id',
    first: 'SELECT id FROM mail_events WHERE id > ? ORDER BY id LIMIT 1',
    ofKinds: `SELECT id, kind, event FROM mail_events
      WHERE id > ? AND id <= ? AND kind IN (SELECT value FROM json_each(?)) ORDER BY id`,
  });
}

/** The events of one database. What they are found by is written behind the commits (event-follower.ts). */
export class SqliteEvents {
  readonly #sql: ReturnType<typeof prepare>;
  readonly #searcher: EventSearcher;

  /** Brings the tables up to date. */
  constructor(database: DatabaseSync) {
    migrateSqlite(database, eventMigrations);
    this.#sql = prepare(database);
    this.#searcher = new EventSearcher(database);
  }

  /** Writes an event, in the transaction of the change that it reports. @param at its time as it is stored */
  add({ account, kind, message, json }: EncodedEvent, at: number): void {
    this.#sql.add.run(at, account, shareNumbers[eventKinds[kind].share], kind, message, json);
  }

  newest(): number {
    return Number(this.#sql.newest.get()?.['seq'] ?? 0);
  }

  /** Tells which accounts have events behind a cursor. */
  news(after: number): EventNews {
    const newest = this.newest();
    if (newest <= after) return { newest, told: [] };
    if (newest - after > newsAtMost) return { newest, told: undefined };
    return { newest, told: toldOf(this.#sql.news.all(after, newest)) };
  }

  /** Finds events. Those newer than the newest one at the start of the search are left to the next page. */
  read({ after, limit, kinds, account, message }: EventQuery): EncodedPage {
    const newest = this.newest();
    if (newest <= after) return { events: [], next: after, hasMore: false };
    const most = Math.min(Math.max(1, limit), mostAtOnce);
    const bounds = { low: after + 1, high: newest, limit: most };
    const { events, next } =
      message === undefined && account === undefined
        ? joinParts([this.#readAll({ after, newest, kinds, most })], { order: 'oldest', most, end: newest })
        : this.#searcher.read({ account, message, kinds }, bounds);
    return { events, next, hasMore: next < newest };
  }

  /**
   * Reads events whatever their account. SQLite passes over kinds that are not wanted: who follows the few events of a kind would
   * else cost each of all the others a row.
   */
  #readAll(query: {
    readonly after: number;
    readonly newest: number;
    readonly kinds: readonly EventKind[] | undefined;
    readonly most: number;
  }): PagePart {
    const { after, newest, kinds, most } = query;
    const look = (rows: Iterable<EventRow>, end: number): PagePart => readPart(rows, { most, fits: () => true, end });
    if (!kinds) return look(this.#sql.behind.iterate(after, newest), newest);
    const first = this.#sql.first.get(after)?.['id'];
    // As many ids as another page examines rows, counted from the first that is still there.
    const end = Math.min(newest, Number(first ?? newest) + examinedAtOnce - 1);
    return look(this.#sql.ofKinds.iterate(after, end, JSON.stringify(kinds)), end);
  }

  /** Searches events. @param query its times as they are stored */
  search(query: EventSearch): EncodedPage {
    return this.#searcher.find(query, this.newest());
  }
}
