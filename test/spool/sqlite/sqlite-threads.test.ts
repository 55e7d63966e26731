// The bounds of the replaced Message-IDs: an account never has many more than its share, and old ones go in small steps.

import { DatabaseSync } from 'node:sqlite';
import { afterEach, expect, test } from 'vitest';
import { SqliteThreads, threadTables } from '../../../src/spool/threads/sqlite-threads.ts';

const day = 86_400_000;
const database = new DatabaseSync(':memory:');
database.exec(threadTables);
afterEach(() => database.exec('DELETE FROM spool_threads; DELETE FROM spool_thread_counts'));

function rows(): Record<string, number> {
  const counted = database.prepare('SELECT account, count(*) AS n FROM spool_threads GROUP BY account').all();
  const kept = database.prepare('SELECT account, ids FROM spool_thread_counts WHERE ids > 0').all();
  const found = Object.fromEntries(counted.map(({ account, n }) => [String(account), Number(n)]));
  expect(Object.fromEntries(kept.map(({ account, ids }) => [String(account), Number(ids)]))).toEqual(found);
  return found;
}

test('an account that has its share loses its oldest id with each new one; another account loses none', () => {
  const threads = new SqliteThreads(database, 100);
  threads.add('pay', '<first@c.test>', { messageId: '<p@x>', storedAt: 0 });
  for (let at = 0; at < 250; at += 1) threads.add('dev', `<${at}@c.test>`, { messageId: `<m${at}@x>`, storedAt: at });
  expect(rows()).toEqual({ dev: 100, pay: 1 });
  expect(threads.find('dev', ['<149@c.test>', '<150@c.test>'], 250)).toEqual(new Map([['<150@c.test>', '<m150@x>']]));
  // One that the other has is new to this one.
  threads.add('pay', '<249@c.test>', { messageId: '<p@x>', storedAt: 250 });
  expect(rows()).toEqual({ dev: 100, pay: 2 });
  threads.add('pay', '<249@c.test>', { messageId: '<p@x>', storedAt: 250 });
  threads.add('dev', '<first@c.test>', { messageId: '<m@x>', storedAt: 250 });
  expect(rows()).toEqual({ dev: 100, pay: 2 });
  // Each has as many as it may have.
  for (let at = 0; at < 150; at += 1) threads.add('pay', `<${at}@p.test>`, { messageId: '<p@x>', storedAt: 260 + at });
  expect(rows()).toEqual({ dev: 100, pay: 100 });
  // One that is used again is not counted twice.
  for (let at = 0; at < 10; at += 1) threads.add('dev', '<same@c.test>', { messageId: '<m@x>', storedAt: 300 });
  expect(rows()).toEqual({ dev: 100, pay: 100 });
});

test('old ids go in slices, and by the messages that come', () => {
  const threads = new SqliteThreads(database);
  for (let at = 0; at < 50; at += 1) threads.add('dev', `<${at}@c.test>`, { messageId: '<m@x>', storedAt: at });
  expect(threads.prune(200 * day, 30)).toBe(true);
  expect(rows()).toEqual({ dev: 20 });
  threads.add('dev', '<new@c.test>', { messageId: '<n@x>', storedAt: 200 * day });
  expect(rows()).toEqual({ dev: 19 });
  expect(threads.prune(200 * day, 30)).toBe(false);
  expect(rows()).toEqual({ dev: 1 });
});
