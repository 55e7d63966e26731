// The verbs that an engine only passes on: `reads` is told of those alone that leave the database as it is, since what is marked so
// is done outside of the transaction that the others share.

import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, onTestFinished, test } from 'vitest';
import type { PlainVerb } from '../../../src/spool/core/plain-verbs.ts';
import { plainVerbs } from '../../../src/spool/spool.ts';
import { SqliteSpool } from '../../../src/spool/sqlite/sqlite-spool.ts';
import { scratchFolder } from '../../support/scratch.ts';
import { attemptOf, someTime, spoolEntry } from '../../support/spool-entry.ts';

test('a verb is marked as reading where it changes nothing in the database, and no other is', async () => {
  const file = join(scratchFolder(), 'postern.db');
  const clock = { now: () => someTime, monotonic: () => performance.now() };
  const spool = await SqliteSpool.open({ file, clock });
  const watcher = new DatabaseSync(file);
  onTestFinished(async () => {
    watcher.close();
    await spool.close();
  });
  /** Another number once another connection has changed something. */
  const version = (): unknown => watcher.prepare('PRAGMA data_version').get()?.['data_version'];

  const reports = { failure: true, delay: false, success: false };
  const idempotency = { key: 'order-1', digest: 'ab12' };
  const waits = spoolEntry({ transports: ['lane'], idempotency });
  const fails = spoolEntry({ reports });
  const turn = { transport: 'lane', account: 'dev' };
  const rule = { kind: 'account', value: 'dev', at: someTime, by: 'test', why: '' } as const;
  const reply = { code: 550, enhanced: '5.1.1', text: 'no' };
  const prepare = async () => {
    await spool.add(waits, someTime + 60_000);
    await spool.add(fails, someTime + 60_000);
    await spool.record([attemptOf(fails, { kind: 'failed', reply, host: 'x' })]);
    const [due] = await spool.reportsDue({ now: someTime, limit: 1 });
    return due?.key ?? { seq: 0, version: 0 };
  };
  // Those that read come first: nothing has been written then that the spool might go on with by itself.
  const calls: { readonly [Verb in PlainVerb]: () => Promise<unknown> } = {
    usedKey: () => spool.usedKey('dev', 'order-1'),
    replacedIds: () => spool.replacedIds('dev', ['<a@x>']),
    reportsDue: () => spool.reportsDue({ now: someTime, limit: 1 }),
    list: () => spool.list({ limit: 1 }),
    show: () => spool.show(waits.id),
    oldest: () => spool.oldest(),
    waiting: () => spool.waiting(1),
    holds: () => spool.holds(),
    answered: () => spool.answered('dev', 'order-1', '{}'),
    release: () => spool.release(waits.id, waits.recipients),
    postpone: () => spool.postpone(turn, someTime + 1000),
    endReport: async () => spool.endReport(key),
    addHold: () => spool.addHold(rule),
    liftHold: () => spool.liftHold(rule),
  };
  let key = { seq: 0, version: 0 };
  const changing: string[] = [];
  for (const [verb, call] of Object.entries(calls)) {
    if (verb === 'answered') key = await prepare();
    const before = version();
    await call();
    if (version() !== before) changing.push(verb);
  }
  const marked = Object.entries(plainVerbs).filter(([, { reads }]) => !reads);
  expect(changing.toSorted()).toEqual(marked.map(([verb]) => verb).toSorted());
});

test('a hold of a message takes its queued recipients out of their line at once, and leaves those alone that have ended', async () => {
  const file = join(scratchFolder(), 'postern.db');
  const clock = { now: () => someTime, monotonic: () => performance.now() };
  const spool = await SqliteSpool.open({ file, clock });
  const watcher = new DatabaseSync(file);
  onTestFinished(async () => {
    watcher.close();
    await spool.close();
  });
  const [waits, fails] = ['waits@example.org', 'fails@example.org'];
  const entry = spoolEntry({ recipients: [waits, fails] });
  await spool.add(entry, someTime + 60_000);
  const reply = { code: 550, enhanced: '5.1.1', text: 'no' };
  await spool.record([{ ...attemptOf(entry, { kind: 'failed', reply, host: 'x' }), recipient: fails }]);
  await spool.addHold({ kind: 'message', value: entry.id, at: someTime, by: 'test', why: '' });
  const rows = watcher.prepare('SELECT address, line < 0 AS isAside FROM spool_recipients ORDER BY position').all();
  expect(rows.map(({ address, isAside }) => [address, isAside])).toEqual([
    [waits, 1],
    [fails, 0],
  ]);
});
