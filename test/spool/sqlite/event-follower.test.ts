// What is made of events behind the commits: it is there soon, is made again after a crash or of an older file, and nothing is
// missing from a search meanwhile.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { migrateSqlite, openSqliteFile } from '../../../src/base/database/sqlite-file.ts';
import { uuidv7 } from '../../../src/base/ids.ts';
import { encodeEvent } from '../../../src/spool/encoded-event.ts';
import type { EventFacts } from '../../../src/spool/events/mail-event.ts';
import { EventFollower, fileEvents, followedAtOnce } from '../../../src/spool/sqlite/event-follower.ts';
import { eventMigrations, keysOfKinds, messageKey } from '../../../src/spool/sqlite/sqlite-events.ts';
import { SqliteSpool } from '../../../src/spool/sqlite/sqlite-spool.ts';
import { attemptOf, someTime, spoolEntry } from '../../support/spool-entry.ts';
import { sqliteEvents } from '../../support/sqlite-events.ts';

const limits = { ageMilliseconds: 1000, mail: 1_000_000, refusals: 1_000_000, copies: 1_000_000 };
const reply = { code: 250, text: 'ok' };
const waiting = { timeout: 10_000, interval: 20 };
let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'postern-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

function eventOf(number: number, account = 'dev'): EventFacts {
  const entry = spoolEntry({ id: uuidv7(someTime), account, recipients: [`user${number}@example.org`] });
  return attemptOf(entry, { kind: number % 100 === 0 ? 'failed' : 'delivered', reply, host: 'out (h:25)' });
}

function opened(name = 'spool.db') {
  const database = openSqliteFile(join(folder, name));
  return { database, events: sqliteEvents(database) };
}

function count(database: ReturnType<typeof opened>['database'], sql: string): number {
  return Number(database.prepare(`SELECT count(*) AS n FROM ${sql}`).get()?.['n']);
}

describe('filing', () => {
  test('a spool files what it has written by itself, and counts it', async () => {
    const file = join(folder, 'spool.db');
    const spool = await SqliteSpool.open({ file });
    const { database } = opened();
    const entry = spoolEntry({ acceptedAt: Date.now(), clientMessageId: '<1@box.example>' });
    await spool.recover();
    await spool.add(entry, Date.now() + 60_000);
    await spool.record([attemptOf(entry, { kind: 'failed', reply, host: 'out (h:25)' })]);
    await expect
      .poll(() => database.prepare('SELECT indexed FROM mail_event_state').get(), waiting)
      .toEqual({ indexed: 2 });
    // Account and message of both, and the kind of the failure; recipient of both, sender and the client's id of the first.
    expect(count(database, 'mail_event_index')).toBe(5);
    expect(count(database, 'mail_event_keys')).toBe(4);
    expect(database.prepare('SELECT account, share, events FROM mail_event_counts').all()).toEqual([
      { account: 'dev', share: 0, events: 2 },
    ]);
    database.close();
    await spool.close();
  });

  test('goes on, slice by slice, and finds events before and behind its cursor alike', () => {
    const { database, events } = opened();
    const all = Array.from({ length: followedAtOnce * 2 + 300 }, (_, number) => eventOf(number));
    database.exec('BEGIN');
    for (const event of all) events.add(encodeEvent(event), someTime);
    database.exec('COMMIT');
    const follower = new EventFollower({ database, limits });
    const search = (order: 'newest' | 'oldest', recipient: string) =>
      events.search({ account: 'dev', limit: 10, order, recipient }).events.map(({ id }) => id);
    const failed = (): number[] => {
      const found: number[] = [];
      for (let after = 0, hasMore = true; hasMore; ) {
        const page = events.read({ after, limit: 5, kinds: ['failed'], account: 'dev' });
        found.push(...page.events.map(({ id }) => id));
        ({ next: after, hasMore } = page);
      }
      return found;
    };
    const expected = all.flatMap(({ kind }, at) => (kind === 'failed' ? [at + 1] : []));
    for (const isMore of [true, true, false]) {
      expect(search('newest', 'user7@example.org')).toEqual([8]);
      expect(search('oldest', 'user1200@example.org')).toEqual([1201]);
      expect(failed()).toEqual(expected);
      expect(follower.follow(someTime)).toBe(isMore);
    }
    expect(failed()).toEqual(expected);
    expect(count(database, 'mail_event_index')).toBe(all.length * 2 + expected.length);
    // The index alone gives these: no page reads so many rows one by one.
    expect(search('newest', 'user7@example.org')).toEqual([8]);
    database.close();
  });

  test('a slice that is interrupted is done again, and nothing is counted twice', () => {
    const { database, events } = opened();
    for (let number = 0; number < 10; number += 1) events.add(encodeEvent(eventOf(number)), someTime);
    database.exec(
      "CREATE TRIGGER broken BEFORE UPDATE ON mail_event_state BEGIN SELECT raise(ABORT, 'the disk is full'); END",
    );
    const follower = new EventFollower({ database, limits });
    expect(() => follower.follow(someTime)).toThrow('the disk is full');
    expect(count(database, 'mail_event_index')).toBe(0);
    expect(database.prepare('PRAGMA synchronous').get()).toEqual({ synchronous: 2 });
    database.exec('DROP TRIGGER broken');
    follower.follow(someTime);
    follower.follow(someTime);
    expect(database.prepare('SELECT sum(events) AS events FROM mail_event_counts').get()).toEqual({ events: 10 });
    database.close();
  });

  test('removes what is too old with every trace of it, and leaves what is not filed', () => {
    const { database, events } = opened();
    for (let number = 0; number < 3; number += 1) events.add(encodeEvent(eventOf(number)), someTime + number * 600);
    const follower = new EventFollower({ database, limits });
    expect(follower.follow(someTime + 1300)).toBe(true);
    expect(follower.follow(someTime + 1300)).toBe(false);
    expect(events.read({ after: 0, limit: 10 }).events.map(({ id }) => id)).toEqual([2, 3]);
    expect(count(database, 'mail_event_index WHERE event = 1')).toBe(0);
    expect(count(database, 'mail_event_keys WHERE event = 1')).toBe(0);
    expect(database.prepare('SELECT events FROM mail_event_counts').get()).toEqual({ events: 2 });
    database.close();
  });

  test('events of an account that has too many go, and nobody else’s, where a key is the same by mischance', () => {
    const { database, events } = opened();
    for (let number = 0; number < 4; number += 1)
      events.add(encodeEvent(eventOf(number, number === 0 ? 'other' : 'dev')), someTime);
    const follower = new EventFollower({ database, limits: { ...limits, mail: 2 } });
    const [key] = keysOfKinds('dev', ['delivered']);
    database.prepare('INSERT INTO mail_event_index VALUES (?, 1)').run(key ?? 0n);
    while (follower.follow(someTime));
    expect(events.read({ after: 0, limit: 10 }).events.map(({ id }) => id)).toEqual([1, 3, 4]);
    database.close();
  });
});

test('a file whose indexes were SQLite’s own is filed anew, and nothing is counted twice', () => {
  const old = openSqliteFile(join(folder, 'spool.db'));
  migrateSqlite(old, { ...eventMigrations, steps: eventMigrations.steps.slice(0, 3) });
  const add = old.prepare("INSERT INTO mail_events VALUES (NULL, ?, 'dev', 0, 'delivered', ?, NULL)");
  for (let number = 1; number <= 3; number += 1) add.run(someTime, encodeEvent(eventOf(number)).json);
  old.exec("INSERT INTO mail_event_counts VALUES ('dev', 0, 3); INSERT INTO mail_event_keys VALUES (7, 1)");
  old.close();
  const { database, events } = opened();
  const search = () => events.search({ account: 'dev', limit: 10, order: 'oldest', recipient: 'user2@example.org' });
  const found = search();
  expect(found.events.map(({ id }) => id)).toEqual([2]);
  fileEvents(database);
  expect(search()).toEqual(found);
  expect([count(database, 'mail_event_index'), count(database, 'mail_event_keys')]).toEqual([3, 3]);
  expect(database.prepare('SELECT events FROM mail_event_counts').all()).toEqual([{ events: 3 }]);
  database.close();
});

test('ids of messages have keys in the order of their times, and others have one too', () => {
  const ids = [1, 2, 3, 4].map((ms) => uuidv7(someTime + ms));
  const keys = ids.map(messageKey);
  expect(keys.toSorted((left, right) => (left < right ? -1 : 1))).toEqual(keys);
  expect(messageKey('not-an-id')).not.toBe(messageKey('another'));
});
