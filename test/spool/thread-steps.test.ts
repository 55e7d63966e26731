// The bounds of the replaced Message-IDs: an account keeps its share of the newest, and old ones go in small steps.

import { DatabaseSync } from 'node:sqlite';
import { beforeEach, expect, test } from 'vitest';
import { findThreads, ThreadRemoval, threadKey } from '../../src/spool/core/thread-steps.ts';
import { stepsOn } from '../../src/spool/sqlite/file/sqlite-steps.ts';
import { tablesOf } from '../../src/spool/sqlite/sqlite-tables.ts';

const day = 86_400_000;
const database = new DatabaseSync(':memory:');
const { keepThread } = tablesOf(database).statements;
const steps = stepsOn(database);
beforeEach(() => database.exec('DELETE FROM spool_threads'));

function add(account: string, clientId: string, messageId: string, storedAt: number): void {
  keepThread.run(account, threadKey(clientId), messageId, storedAt);
}

function find(account: string, ids: readonly string[], storedNow: number): ReadonlyMap<string, string> {
  return steps(findThreads(threadKey, account, ids, storedNow));
}

function rows(): Record<string, number> {
  const counted = database.prepare('SELECT account, count(*) AS n FROM spool_threads GROUP BY account').all();
  return Object.fromEntries(counted.map(({ account, n }) => [String(account), Number(n)]));
}

test('an account that has more than its share loses its oldest ids; another account loses none', () => {
  const removal = new ThreadRemoval(100);
  add('pay', '<first@c.test>', '<p@x>', 0);
  for (let at = 0; at < 250; at += 1) add('dev', `<${at}@c.test>`, `<m${at}@x>`, at);
  for (let at = 0; at < 100; at += 1) add('zoo', `<${at}@c.test>`, `<m${at}@x>`, at);
  expect(steps(removal.prune(250, 100))).toBe(true);
  expect(rows()).toEqual({ dev: 150, pay: 1, zoo: 100 });
  expect(steps(removal.prune(250, 100))).toBe(false);
  expect(rows()).toEqual({ dev: 100, pay: 1, zoo: 100 });
  expect(find('dev', ['<149@c.test>', '<150@c.test>'], 250)).toEqual(new Map([['<150@c.test>', '<m150@x>']]));
  expect(find('pay', ['<150@c.test>'], 250)).toEqual(new Map());
  // One that is used again is not counted twice, and stands for the newer message.
  for (let at = 0; at < 10; at += 1) add('dev', '<150@c.test>', '<again@x>', 300);
  expect(steps(removal.prune(300, 100))).toBe(false);
  expect(rows()).toEqual({ dev: 100, pay: 1, zoo: 100 });
  expect(find('dev', ['<150@c.test>'], 300)).toEqual(new Map([['<150@c.test>', '<again@x>']]));
});

test('old ids of every account go in slices', () => {
  const removal = new ThreadRemoval();
  for (let at = 0; at < 50; at += 1) add('dev', `<${at}@c.test>`, '<m@x>', at);
  for (let at = 0; at < 10; at += 1) add('pay', `<${at}@c.test>`, '<m@x>', at);
  add('dev', '<new@c.test>', '<n@x>', 200 * day);
  expect(steps(removal.prune(200 * day, 30))).toBe(true);
  expect(rows()).toEqual({ dev: 21, pay: 10 });
  expect(steps(removal.prune(200 * day, 30))).toBe(true);
  expect(steps(removal.prune(200 * day, 30))).toBe(false);
  expect(rows()).toEqual({ dev: 1 });
  expect(find('dev', ['<1@c.test>', '<new@c.test>'], 200 * day)).toEqual(new Map([['<new@c.test>', '<n@x>']]));
});
