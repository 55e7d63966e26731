// What is made behind the commits where it cannot be made: on damaged pages, while nothing can be written, and again when it can.

import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { spoolMetrics } from '../../../src/app/wiring/metrics/spool-metrics.ts';
import { openSqliteFile } from '../../../src/base/database/sqlite-file.ts';
import { uuidv7 } from '../../../src/base/ids.ts';
import { encodeEvent } from '../../../src/spool/encoded-event.ts';
import type { EventFacts } from '../../../src/spool/events/mail-event.ts';
import { SqliteJournal } from '../../../src/spool/journal/writer/journal-tables.ts';
import { examinedAtOnce } from '../../../src/spool/search/find-events.ts';
import { acceptedEvent } from '../../../src/spool/spool-events.ts';
import { EventFollower } from '../../../src/spool/sqlite/event-follower.ts';
import { SpoolLock } from '../../../src/spool/sqlite/file/sqlite-lock.ts';
import { SqliteSpool } from '../../../src/spool/sqlite/sqlite-spool.ts';
import { SqliteStore } from '../../../src/spool/sqlite/sqlite-store.ts';
import { logLines } from '../../support/log-lines.ts';
import { attemptOf, someTime, spoolEntry } from '../../support/spool-entry.ts';
import { sqliteEvents } from '../../support/sqlite-events.ts';

const limits = { ageMilliseconds: 1000, mail: 1_000_000, refusals: 1_000_000, copies: 1_000_000 };
const reply = { code: 250, text: 'ok' };
const outcome = { kind: 'delivered', reply, host: 'out (h:25)' } as const;
const waiting = { timeout: 10_000, interval: 20 };
let folder: string;
let file: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'postern-'));
  file = join(folder, 'spool.db');
});
afterEach(() => rmSync(folder, { recursive: true }));

function eventOf(number: number, account = 'dev'): EventFacts {
  const entry = spoolEntry({ id: uuidv7(someTime + number), account, recipients: [`user${number}@example.org`] });
  return attemptOf(entry, outcome);
}

function opened() {
  const database = openSqliteFile(file);
  const events = sqliteEvents(database);
  const add = (from: number, to: number, at = someTime): void => {
    database.exec('BEGIN');
    for (let number = from; number < to; number += 1) events.add(encodeEvent(eventOf(number)), at);
    database.exec('COMMIT');
  };
  return { database, events, add };
}

/** Overwrites a leaf of a table, of which nobody has the file open: the first or the last one. */
function damage(table: string, which: 'first' | 'last'): void {
  const { database } = opened();
  database.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  const order = which === 'first' ? 'ASC' : 'DESC';
  const leaf = database
    .prepare(`SELECT pageno, pgsize FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY path ${order} LIMIT 1`)
    .get(table);
  database.close();
  const size = Number(leaf?.['pgsize']);
  const descriptor = openSync(file, 'r+');
  writeSync(descriptor, Buffer.alloc(size, 0xff), 0, size, (Number(leaf?.['pageno']) - 1) * size);
  closeSync(descriptor);
}

describe('damage', () => {
  for (const [table, which] of [
    ['mail_event_index', 'last'],
    ['mail_event_keys', 'first'],
    ['mail_events', 'first'],
  ] as const) {
    test(`of the ${which} page of ${table} holds nothing up behind it`, () => {
      const before = opened();
      before.add(0, 2000);
      const first = new EventFollower({ database: before.database, limits });
      while (first.follow(someTime));
      before.database.close();
      damage(table, which);
      const { database, events, add } = opened();
      add(2000, 3000, someTime + 5000);
      const follower = new EventFollower({ database, limits });
      // The old ones go, and the new ones are filed.
      for (let slices = 0; slices < 100 && follower.follow(someTime + 5500); slices += 1);
      expect(follower.unfiled).toBe(0);
      expect(follower.passedOver).toBeGreaterThan(0);
      const left = database.prepare('SELECT count(*) AS n FROM mail_events WHERE id > 100').get();
      expect(left).toEqual({ n: 1000 });
      expect(events.read({ after: 2000, limit: 1000 }).events).toHaveLength(1000);
      database.close();
    });
  }

  test('of the text of an event loses its keys alone, and is counted', () => {
    const { database, events, add } = opened();
    add(0, 3);
    database.exec("UPDATE mail_events SET event = '{' WHERE id = 2");
    const follower = new EventFollower({ database, limits });
    follower.follow(someTime);
    expect(follower.passedOver).toBe(1);
    const search = (recipient: string) =>
      events.search({ account: 'dev', order: 'newest', limit: 5, recipient }).events;
    expect(['user0', 'user1', 'user2'].map((name) => search(`${name}@example.org`).length)).toEqual([1, 0, 1]);
    database.close();
  });

  test('of messages that wait keeps no event from being filed, and is not told as if it did', async () => {
    const before = await SqliteSpool.open({ file });
    for (let number = 0; number < 70; number += 1) await before.add(spoolEntry({ acceptedAt: someTime }), 0);
    await before.close();
    damage('spool_messages', 'first');
    const database = openSqliteFile(file);
    using lock = new SpoolLock(file);
    const store = new SqliteStore({ database, lock, bodies: join(folder, 'bodies') });
    const now = { wall: Date.now(), monotonic: performance.now() };
    store.write([{ kind: 'writeEvents', args: [[encodeEvent(eventOf(1))]] }], now);
    while (store.follow());
    expect(store.behind).toMatchObject({ unfiled: 0, fault: undefined });
    database.close();
  });

  test('or a full disk while messages are put into blocks leaves none of them out', async () => {
    const before = await SqliteSpool.open({ file });
    for (let number = 0; number < 140; number += 1) await before.add(spoolEntry({ acceptedAt: someTime }), 0);
    await before.close();
    const database = openSqliteFile(file);
    using lock = new SpoolLock(file);
    const store = new SqliteStore({ database, lock, bodies: join(folder, 'bodies') });
    database.exec(`CREATE TRIGGER full BEFORE INSERT ON spool_blocks WHEN (SELECT count(*) FROM spool_blocks) = 1
      BEGIN SELECT RAISE(ABORT, 'there is no room'); END`);
    const now = { wall: Date.now(), monotonic: performance.now() };
    store.write([{ kind: 'writeEvents', args: [[encodeEvent(eventOf(1))]] }], now);
    while (store.follow());
    expect(store.behind.fault).toContain('there is no room');
    const count = database.prepare('SELECT count(*) AS n FROM spool_blocks');
    expect(count.get()).toEqual({ n: 0 });
    database.exec('DROP TRIGGER full');
    await vi.waitFor(() => {
      store.follow();
      expect(count.get()).toEqual({ n: 2 });
    }, waiting);
    database.close();
  });

  test('is told apart from what is wrong with the program, which is not passed over', () => {
    const { database, events } = opened();
    const journal = new SqliteJournal(database);
    database.exec("CREATE TRIGGER broken BEFORE UPDATE ON journal BEGIN SELECT raise(ABORT, 'broken'); END");
    const entry = spoolEntry();
    for (const event of [acceptedEvent(entry), attemptOf(entry, outcome)]) events.add(encodeEvent(event), someTime);
    journal.add({
      row: { id: entry.id, at: 1, account: 'dev', outcome: 1, waiting: 1, octets: 0, facts: '{}', more: '{}' },
      ...{ isSameBody: false, receivedHead: undefined, receivedBody: undefined },
      ...{ sentHead: undefined, sentBody: undefined },
    });
    const follower = new EventFollower({ database, limits, journal });
    expect(() => follower.follow(someTime)).toThrow('broken');
    expect(follower.unfiled).toBe(2);
    database.close();
  });
});

test('a fault is told in the log and in a metric, once when it begins and once when it has ended', async () => {
  const { log, lines } = logLines();
  const spool = await SqliteSpool.open({ file, log });
  const families = spoolMetrics(spool, { removedFailures: () => 0, takesMail: () => true, clock: Date });
  const unfiled = async () => {
    const numbers = await families.find(({ name }) => name === 'postern_events_unfiled')?.read();
    return [...(numbers ?? [])][0]?.[1];
  };
  const { database } = opened();
  database.exec("CREATE TRIGGER broken BEFORE UPDATE ON mail_event_state BEGIN SELECT raise(ABORT, 'no room'); END");
  await spool.recover();
  await spool.add(spoolEntry({ acceptedAt: Date.now() }), Date.now() + 60_000);
  const told = (text: string) => lines.filter(({ msg }) => String(msg).startsWith(text));
  await expect.poll(() => told('events cannot be filed'), waiting).toMatchObject([{ reason: 'no room' }]);
  await expect.poll(unfiled, waiting).toBe(1);
  // Mail is taken, and readers of the journal do not wait for what cannot be.
  await spool.add(spoolEntry({ acceptedAt: Date.now() }), Date.now() + 60_000);
  await spool.events.caughtUp();
  expect((await spool.events.search({ account: 'dev', order: 'newest', limit: 5 })).events).toHaveLength(2);
  database.exec('DROP TRIGGER broken');
  await expect.poll(() => told('events are filed again'), waiting).toHaveLength(1);
  await expect.poll(unfiled, waiting).toBe(0);
  expect(told('events cannot be filed')).toHaveLength(1);
  database.close();
  await spool.close();
});

test('a question reads a bounded part of what is not filed, and its cursor leads on', () => {
  const { database, events, add } = opened();
  add(0, examinedAtOnce * 2 + 500);
  const pages: number[] = [];
  for (let cursor: number | undefined, hasMore = true; hasMore; ) {
    const page = events.search({ account: 'dev', order: 'newest', limit: 5, recipient: 'user7@example.org', cursor });
    pages.push(page.events.length);
    ({ next: cursor, hasMore } = page);
  }
  expect(pages).toEqual([0, 0, 1]);
  database.close();
});

describe('what became of a message', () => {
  function prepared(recipients: number) {
    const { database, events } = opened();
    const journal = new SqliteJournal(database);
    const addresses = Array.from({ length: recipients }, (_, number) => `user${number}@example.org`);
    const entry = spoolEntry({ recipients: addresses });
    const { id, account } = entry;
    journal.add({
      row: { id, at: someTime, account, outcome: 1, waiting: recipients, octets: 0, facts: '{}', more: '{}' },
      ...{ isSameBody: false, receivedHead: undefined, receivedBody: undefined },
      ...{ sentHead: undefined, sentBody: undefined },
    });
    database.exec(`CREATE TABLE writes (one INTEGER);
      CREATE TRIGGER counted AFTER UPDATE ON journal BEGIN INSERT INTO writes VALUES (1); END`);
    const write = (...told: EventFacts[]): void => {
      for (const event of told) events.add(encodeEvent(event), someTime);
    };
    return {
      ...{ database, journal, entry, write },
      writes: () => Number(database.prepare('SELECT count(*) AS n FROM writes').get()?.['n']),
      row: () => database.prepare('SELECT waiting, outcome FROM journal').get(),
    };
  }
  const at = (recipient: number) => ({ recipient: `user${recipient}@example.org` });

  test('is written once for all events of a slice', () => {
    const { database, journal, entry, write, writes, row } = prepared(2);
    const follower = new EventFollower({ database, limits, journal });
    write(acceptedEvent(entry), attemptOf(entry, { ...outcome, kind: 'deferred' }, at(0)));
    write(attemptOf(entry, outcome, at(0)), attemptOf(entry, outcome, at(1)));
    follower.follow(someTime);
    expect([writes(), row()]).toEqual([1, { waiting: 0, outcome: 2 }]);
    database.close();
  });

  test('goes on from the row in the next slice, and a message without a row is passed over', () => {
    const { database, journal, entry, write, writes, row } = prepared(2);
    const follower = new EventFollower({ database, limits, journal });
    write(acceptedEvent(entry), attemptOf(entry, outcome, at(0)), eventOf(5));
    follower.follow(someTime);
    expect([writes(), row()]).toEqual([1, { waiting: 1, outcome: 1 }]);
    write(attemptOf(entry, outcome, at(1)));
    follower.follow(someTime);
    expect([writes(), row()]).toEqual([2, { waiting: 0, outcome: 2 }]);
    database.close();
  });

  test('that an earlier release noted in its commits is not noted again', () => {
    const { database, journal, entry, write, row } = prepared(2);
    // As an earlier release left it that had filed the acceptance alone.
    write(attemptOf(entry, outcome, at(0)));
    database.exec('UPDATE journal SET waiting = 1; UPDATE mail_event_state SET noted = 1');
    const follower = new EventFollower({ database, limits, journal });
    follower.follow(someTime);
    expect(row()).toEqual({ waiting: 1, outcome: 1 });
    write(attemptOf(entry, outcome, at(1)));
    follower.follow(someTime);
    expect(row()).toEqual({ waiting: 0, outcome: 2 });
    database.close();
  });
});
