// Keeps events in a table of the spool's database. They are written on the spool's connection, in the transaction of the
// change that they report.

import type { Migrations } from '../../base/database/database.ts';
import { type DatabaseSync, migrateSqlite, type StatementSync } from '../../base/database/sqlite-file.ts';
import {
  type EventLimits,
  type EventNews,
  type EventQuery,
  type EventSearch,
  newsAtMost,
} from '../../events/event-store.ts';
import { type EventKind, type EventShare, eventKinds } from '../../events/mail-event.ts';
import { type PackedEvent, type PackedPage, shareNumbers, shares, toldOf } from '../packed-event.ts';
import { type EventRow, examinedAtOnce, joinParts, mostAtOnce, type PagePart, readPart } from '../search/event-page.ts';
import { EventSearcher, searchTables } from '../search/event-search.ts';
import { keyNumber, keyNumbersOf } from '../search/searched-event.ts';

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
  ],
};

/** Events removed in one transaction at most: with no more than these an accept does not wait. */
const removedAtOnce = 256;

/** One number for each account in each share. */
type Numbers = Readonly<Record<EventShare, Map<string, number>>>;

function numbers(): Numbers {
  return { mail: new Map(), refusals: new Map() };
}

/** The events of one database. */
export class SqliteEvents {
  readonly #limits: EventLimits;
  readonly #add: StatementSync;
  readonly #count: StatementSync;
  readonly #newest: StatementSync;
  readonly #news: StatementSync;
  readonly #behind: StatementSync;
  readonly #first: StatementSync;
  readonly #ofKinds: StatementSync;
  readonly #ofAccount: StatementSync;
  readonly #ofMessage: StatementSync;
  readonly #oldest: StatementSync;
  readonly #oldestOf: StatementSync;
  readonly #remove: StatementSync;
  readonly #addKey: StatementSync;
  readonly #removeKey: StatementSync;
  readonly #searcher: EventSearcher;
  /** The changes to the counts in this transaction. */
  readonly #changes = numbers();
  /** By how much each account is over its limit. */
  readonly #surplus = numbers();
  #hasAged = false;

  /** Brings the tables up to date. */
  constructor(database: DatabaseSync, limits: EventLimits) {
    migrateSqlite(database, eventMigrations);
    this.#limits = limits;
    this.#add = database.prepare(
      'INSERT INTO mail_events (at, account, share, kind, queue_id, event) VALUES (?, ?, ?, ?, ?, ?)',
    );
    this.#count = database.prepare(`INSERT INTO mail_event_counts VALUES (?1, ?2, ?3)
      ON CONFLICT (account, share) DO UPDATE SET events = events + ?3 RETURNING events`);
    this.#newest = database.prepare("SELECT seq FROM sqlite_sequence WHERE name = 'mail_events'");
    this.#news = database.prepare('SELECT DISTINCT account, kind FROM mail_events WHERE id > ? AND id <= ?');
    this.#behind = database.prepare('SELECT id, kind, event FROM mail_events WHERE id > ? AND id <= ? ORDER BY id');
    this.#first = database.prepare('SELECT id FROM mail_events WHERE id > ? ORDER BY id LIMIT 1');
    this.#ofKinds = database.prepare(`SELECT id, kind, event FROM mail_events
      WHERE id > ? AND id <= ? AND kind IN (SELECT value FROM json_each(?)) ORDER BY id`);
    this.#ofAccount = database.prepare(`SELECT id, kind, event FROM mail_events
      WHERE id > ? AND id <= ? AND account = ? AND share = ? ORDER BY id`);
    this.#ofMessage = database.prepare(`SELECT id, kind, event FROM mail_events
      WHERE queue_id = ?3 AND id > ?1 AND id <= ?2 AND (?4 IS NULL OR account = ?4) ORDER BY id`);
    this.#oldest = database.prepare('SELECT id, at, account, share FROM mail_events ORDER BY id LIMIT ?');
    this.#oldestOf = database.prepare('SELECT id FROM mail_events WHERE account = ? AND share = ? ORDER BY id LIMIT ?');
    this.#remove = database.prepare('DELETE FROM mail_events WHERE id = ? RETURNING account, event');
    this.#addKey = database.prepare('INSERT INTO mail_event_keys VALUES (?, ?)');
    this.#removeKey = database.prepare('DELETE FROM mail_event_keys WHERE key = ? AND event = ?');
    this.#searcher = new EventSearcher(database);
  }

  /** Writes an event, in the transaction of the change that it reports. @param at its time as it is stored */
  add({ account, kind, message, keys, json }: PackedEvent, at: number): void {
    const { share } = eventKinds[kind];
    const { lastInsertRowid: id } = this.#add.run(at, account, shareNumbers[share], kind, message, json);
    for (const key of keys) this.#addKey.run(keyNumber(account, key), id);
    this.#change(account, share, 1);
  }

  /** Writes the counts, and removes some events that are too many or too old; to be called last before COMMIT. */
  finish(now: number): void {
    this.#removeSurplus();
    if (this.#hasAged) this.#removeAged(now);
    for (const share of shares) {
      for (const [account, change] of this.#changes[share]) {
        const row = this.#count.get(account, shareNumbers[share], change);
        const over = Number(row?.['events'] ?? 0) - this.#limits[share];
        if (over > 0) this.#surplus[share].set(account, over);
        else this.#surplus[share].delete(account);
      }
      this.#changes[share].clear();
    }
  }

  /** Forgets the changes, since the transaction was undone. */
  undo(): void {
    for (const share of shares) this.#changes[share].clear();
  }

  /** Tells whether events have to be removed, by a transaction of its own if no other comes. @param now as stored */
  hasSurplus(now: number): boolean {
    const at = this.#oldest.get(1)?.['at'];
    this.#hasAged = at !== undefined && Number(at) < now - this.#limits.ageMilliseconds;
    return this.#hasAged || shares.some((share) => this.#surplus[share].size > 0);
  }

  newest(): number {
    return Number(this.#newest.get()?.['seq'] ?? 0);
  }

  /** Tells which accounts have events behind a cursor. */
  news(after: number): EventNews {
    const newest = this.newest();
    if (newest <= after) return { newest, told: [] };
    if (newest - after > newsAtMost) return { newest, told: undefined };
    return { newest, told: toldOf(this.#news.all(after, newest)) };
  }

  /** Finds events. Those newer than the newest one at the start of the search are left to the next page. */
  read({ after, limit, kinds, account, message }: EventQuery): PackedPage {
    const newest = this.newest();
    if (newest <= after) return { events: [], next: after, hasMore: false };
    const most = Math.min(Math.max(1, limit), mostAtOnce);
    const wanted = kinds && new Set<unknown>(kinds);
    const look = (rows: Iterable<EventRow>): PagePart =>
      readPart(rows, { most, fits: ({ kind }) => !wanted || wanted.has(kind), end: newest });
    const parts =
      message !== undefined
        ? [look(this.#ofMessage.iterate(after, newest, message, account ?? null))]
        : account === undefined
          ? [kinds ? this.#readKinds({ after, newest, kinds, most }) : look(this.#behind.iterate(after, newest))]
          : shares
              .filter((share) => !kinds || kinds.some((kind) => eventKinds[kind].share === share))
              .map((share) => look(this.#ofAccount.iterate(after, newest, account, shareNumbers[share])));
    const { events, next } = joinParts(parts, { order: 'oldest', most, end: newest });
    return { events, next, hasMore: next < newest };
  }

  /**
   * Reads events of some kinds, whatever their account. SQLite passes over the other kinds: who follows the few events of a
   * kind would else cost each of all the others a row.
   */
  #readKinds({
    after,
    newest,
    kinds,
    most,
  }: {
    readonly after: number;
    readonly newest: number;
    readonly kinds: readonly EventKind[];
    readonly most: number;
  }): PagePart {
    const first = this.#first.get(after)?.['id'];
    // As many ids as another page examines rows, counted from the first that is still there.
    const end = Math.min(newest, Number(first ?? newest) + examinedAtOnce - 1);
    const rows = this.#ofKinds.iterate(after, end, JSON.stringify(kinds));
    return readPart(rows, { most, fits: () => true, end });
  }

  /** Searches events. @param query its times as they are stored */
  search(query: EventSearch): PackedPage {
    return this.#searcher.find(query, this.newest());
  }

  #forget(id: number): void {
    const row = this.#remove.get(id);
    if (!row) return;
    for (const key of keyNumbersOf(String(row['account']), String(row['event']))) this.#removeKey.run(key, id);
  }

  #change(account: string, share: EventShare, by: number): void {
    const changes = this.#changes[share];
    changes.set(account, (changes.get(account) ?? 0) + by);
  }

  #removeSurplus(): void {
    let left = removedAtOnce;
    for (const share of shares) {
      for (const [account, over] of this.#surplus[share]) {
        // Events added in this transaction are over the limit as well.
        const many = Math.min(left, over + (this.#changes[share].get(account) ?? 0));
        if (many <= 0) continue;
        const rows = this.#oldestOf.all(account, shareNumbers[share], many);
        for (const row of rows) this.#forget(Number(row['id']));
        this.#change(account, share, -rows.length);
        left -= rows.length;
      }
    }
  }

  #removeAged(now: number): void {
    const oldest = now - this.#limits.ageMilliseconds;
    for (const row of this.#oldest.all(removedAtOnce)) {
      if (Number(row['at']) >= oldest) {
        this.#hasAged = false;
        return;
      }
      this.#forget(Number(row['id']));
      this.#change(String(row['account']), row['share'] === 1 ? 'refusals' : 'mail', -1);
    }
  }
}
