// Keeps events in the spool's database, written in the transaction of the change that they report.

import type { Migrations, Row } from '../../base/database/database.ts';
import { type DatabaseSync, migrateSqlite } from '../../base/database/sqlite-file.ts';
import { ask, type StoreSteps } from '../core/steps.ts';
import { type EncodedEvent, shareNumbers, shares } from '../encoded-event.ts';
import type { EventQuery } from '../events/event-store.ts';
import { type EventKind, type EventShare, eventKinds } from '../events/mail-event.ts';
import { type EventSource, type EventTables, examinedAtOnce, keyNumber } from '../search/find-events.ts';
import { integer } from '../stored-rows.ts';

/** Kinds that most events of their share have: they are found among the events of the account. */
const common: ReadonlySet<string> = new Set(['accepted', 'delivered', 'refused'] satisfies EventKind[]);

// The keys of mail_event_index: the events of an account, of a message, and of a kind that is rare. Each is a number, so that a row is
// two numbers and one tree serves all three; who searches compares the event itself.

/** The key of all events of an account in a share. */
export function accountKey(account: string, share: EventShare): bigint {
  return keyNumber(account, `a ${share}`);
}

const isRare = (kind: string): boolean => !common.has(kind);
const kindKey = (account: string, kind: string): bigint => keyNumber(account, `k ${kind}`);

/** The keys under which all events of an account are that may be of these kinds; absent: of any. Each event is under one of them. */
export function keysOfKinds(account: string, kinds: readonly EventKind[] | undefined): readonly bigint[] {
  if (kinds?.every(isRare)) return [...new Set(kinds)].map((kind) => kindKey(account, kind));
  return shares
    .filter((share) => !kinds || kinds.some((kind) => eventKinds[kind].share === share))
    .map((share) => accountKey(account, share));
}

/** The key of a message's events: time and last 16 bits of a UUIDv7, so that new ones stand together; events tell equal ones apart. */
export function messageKey(id: string): bigint {
  if (/^[\da-f]{8}-[\da-f]{4}-7[\da-f]{3}-[\da-f]{4}-[\da-f]{12}$/.test(id))
    return BigInt.asIntN(64, BigInt(`0x${id.slice(0, 8)}${id.slice(9, 13)}${id.slice(-4)}`));
  return keyNumber('', `m ${id}`);
}

/** The keys under which the event of a row is. */
export function indexKeysOf({ account, share, kind, queue_id: message }: Row): bigint[] {
  const name = String(account);
  const keys = [accountKey(name, shares[Number(share)] ?? 'mail')];
  if (isRare(String(kind))) keys.push(kindKey(name, String(kind)));
  if (typeof message === 'string') keys.push(messageKey(message));
  return keys;
}

/** The index of accounts, kinds and messages. indexed: up to which event all is filed, which begins anew; built: nothing reads it any more. */
const indexTables = `
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
  DELETE FROM mail_event_counts;
  DELETE FROM mail_event_keys;
  INSERT INTO mail_event_state VALUES (1, 0, 0);
`;

/** noted: up to which event an earlier release has noted the outcomes in the journal itself. Those behind it are noted when filed. */
const notedEvents = `
  ALTER TABLE mail_event_state ADD COLUMN noted INTEGER NOT NULL DEFAULT 0;
  UPDATE mail_event_state SET noted = (SELECT coalesce(max(id), 0) FROM mail_events);
`;

/** The tables. Times are milliseconds since 1970 as the spool stores them (sqlite-clock.ts). */
export const eventMigrations: Migrations = {
  owner: 'events',
  steps: [
    `
    -- AUTOINCREMENT: an id is never given twice, also when the newest events are gone. share: 0 mail, 1 refusals, 2 copies. queue_id: the
    -- message that an event is about; NULL for refusals.
    CREATE TABLE mail_events (
      id INTEGER PRIMARY KEY AUTOINCREMENT,
      at INTEGER NOT NULL,
      account TEXT NOT NULL,
      share INTEGER NOT NULL,
      kind TEXT NOT NULL,
      event TEXT NOT NULL,
      queue_id TEXT
    ) STRICT;
    CREATE INDEX mail_events_by_account ON mail_events (account, share);
    CREATE INDEX mail_events_by_kind ON mail_events (account, kind);
    CREATE INDEX mail_events_by_message ON mail_events (queue_id) WHERE queue_id IS NOT NULL;

    -- How many there are, kept in the transactions that change it.
    CREATE TABLE mail_event_counts (
      account TEXT NOT NULL,
      share INTEGER NOT NULL,
      events INTEGER NOT NULL,
      PRIMARY KEY (account, share)
    ) STRICT, WITHOUT ROWID;

    -- The keys of the search. A key is told by its hash, so that a row is two numbers; who searches compares the event itself.
    CREATE TABLE mail_event_keys (
      key INTEGER NOT NULL,
      event INTEGER NOT NULL,
      PRIMARY KEY (key, event)
    ) STRICT, WITHOUT ROWID;
    `,
    // No release had tables of versions 1 and 2.
    ...['', ''],
    indexTables,
    notedEvents,
  ],
};

const firstId = 'SELECT id FROM mail_events WHERE id > ?1 ORDER BY id LIMIT 1';
const indexedId = 'SELECT indexed FROM mail_event_state';
const plain = { from: 'mail_events e WHERE e.id BETWEEN ?1 AND ?2', id: 'e.id', values: [] } as const;

/** The events under keys of an index, and those that are not filed yet. */
function* underKeys(table: 'mail_event_index' | 'mail_event_keys', keys: readonly bigint[]) {
  const [row = {}] = yield* ask(indexedId);
  const filed = integer(row, 'indexed');
  const from = `${table} k JOIN mail_events e ON e.id = k.event WHERE k.key = ?4 AND k.event BETWEEN ?1 AND ?2`;
  const sources = keys.map((key): EventSource => ({ from, id: 'k.event', values: [key], high: filed }));
  return [...sources, { ...plain, low: filed + 1 }];
}

/** Events of any account. SQLite passes over unwanted kinds: who follows few events would else pay a row for each other one. */
function* ofKinds(kinds: EventQuery['kinds'], after: number): StoreSteps<readonly EventSource[]> {
  if (!kinds) return [plain];
  const [first] = yield* ask(firstId, after);
  if (!first) return [plain];
  // As many ids as another page examines rows, counted from the first that is still there.
  const until = integer(first, 'id') + examinedAtOnce - 1;
  const from = `${plain.from} AND e.kind IN (SELECT value FROM json_each(?4))`;
  return [{ ...plain, from, values: [JSON.stringify(kinds)], high: until, until }];
}

/** What SQLite's events are read from. What they are found by is written behind the commits (event-follower.ts). */
export const sqliteEventTables: EventTables = {
  newest: "SELECT seq AS newest FROM sqlite_sequence WHERE name = 'mail_events'",
  filed: ({ account, message, kinds }, { low }) =>
    message === undefined && account === undefined
      ? ofKinds(kinds, low - 1)
      : underKeys(
          'mail_event_index',
          message === undefined ? keysOfKinds(account ?? '', kinds) : [messageKey(message)],
        ),
  keyed: (key) => underKeys('mail_event_keys', [key]),
  spans: (span) => [span],
};

/** Makes what writes an event in the transaction of the change that it reports, once the tables are up to date. `at`: as it is stored */
export function eventWriter(database: DatabaseSync) {
  migrateSqlite(database, eventMigrations);
  const add = database.prepare(
    'INSERT INTO mail_events (at, account, share, kind, queue_id, event) VALUES (?, ?, ?, ?, ?, ?)',
  );
  return ({ account, kind, message, json }: EncodedEvent, at: number): void =>
    void add.run(at, account, shareNumbers[eventKinds[kind].share], kind, message, json);
}
