// Suppression by what happened: which events put an address on a list, by which account's wish, and across restarts (D51).

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Account, SuppressSettings } from '../../../src/accounts/account.ts';
import { systemClock } from '../../../src/base/clock.ts';
import type { Database } from '../../../src/base/database/database.ts';
import { openDatabase } from '../../../src/base/database/sqlite-database.ts';
import { suppressByEvents } from '../../../src/delivery/feedback/suppress-by-events.ts';
import { openSuppressionStore, type SuppressionStore } from '../../../src/delivery/feedback/suppression-store.ts';
import type { BouncedEvent, ComplainedEvent } from '../../../src/spool/events/mail-event.ts';
import { logLines } from '../../support/log-lines.ts';
import { MemorySpool } from '../../support/memory-spool/memory-spool.ts';
import { devAccount } from '../../support/policy-fixtures.ts';
import { attemptOf, spoolEntry } from '../../support/spool-entry.ts';

let folder: string;
let database: Database;
let spool: MemorySpool;
let suppressions: SuppressionStore;
let suppress: SuppressSettings | undefined;
const following: { readonly end: AbortController; readonly ended: Promise<void> }[] = [];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'postern-suppress-'));
  database = await openDatabase(join(folder, 'test.db'));
  spool = new MemorySpool(systemClock);
  suppressions = await openSuppressionStore(database, systemClock);
  suppress = undefined;
});

afterEach(async () => {
  await stop();
  await spool.close();
  await database.close();
  rmSync(folder, { recursive: true });
});

/** Starts following; resolves once it follows, which an event that suppresses shows. */
async function start(): Promise<void> {
  const end = new AbortController();
  const account = (name: string): Account | undefined =>
    name === 'dev' ? { ...devAccount, name, id: 'd'.repeat(32), ...(suppress ? { suppress } : {}) } : undefined;
  const { log } = logLines();
  const parts = { database, events: spool.events, suppressions, account, clock: systemClock, log };
  following.push({ end, ended: suppressByEvents(parts, end.signal) });
  const cursor = () => database.query('SELECT after_event FROM feedback_cursor').catch(() => []);
  await expect.poll(async () => (await cursor()).length).toBe(1);
}

async function stop(): Promise<void> {
  for (const { end, ended } of following.splice(0)) {
    end.abort();
    await ended;
  }
}

async function listed(): Promise<readonly string[]> {
  const { entries } = await suppressions.list('d'.repeat(32), { limit: 100 });
  return entries.map(({ address, reason, note }) => `${address} ${reason} ${note ?? ''}`);
}

const entry = spoolEntry({ recipients: ['bob@example.org'] });
const facts = {
  ...{ at: 1, account: 'dev', sessionId: 's', queueId: entry.id, messageId: entry.messageId },
  ...{ acceptedAt: 1, reportedBy: '192.0.2.9' },
};

function bounced(recipient: string, changes: Partial<BouncedEvent> = {}): BouncedEvent {
  return {
    kind: 'bounced',
    ...facts,
    recipient,
    bounceClass: 'hard',
    rule: 'no-such-user',
    status: '5.1.1',
    ...changes,
  };
}

function complained(recipient?: string): ComplainedEvent {
  return { kind: 'complained', ...facts, feedbackType: 'abuse', ...(recipient === undefined ? {} : { recipient }) };
}

function failed(recipient: string, code: number, enhanced: string | undefined, text: string): Promise<void> {
  const reply = { code, text, ...(enhanced === undefined ? {} : { enhanced }) };
  return spool.record([attemptOf(entry, { kind: 'failed', reply, host: 'default (h:25)' }, { recipient })]);
}

test('hard bounces, complaints and refusals that say that nobody is there suppress; nothing else does', async () => {
  await start();
  await spool.events.write([
    bounced('soft@x.test', { bounceClass: 'soft' }),
    bounced('policy@x.test', { bounceClass: 'policy' }),
    complained(),
    bounced('hard@x.test', { diagnostic: 'no such user' }),
    complained('angry@x.test'),
  ]);
  await failed('spam@x.test', 550, '5.7.1', 'looks like spam');
  await failed('late@x.test', 550, '4.4.7', 'Given up after 5 days');
  await failed('full@x.test', 552, '5.2.2', 'mailbox full');
  await failed('sender@x.test', 550, undefined, 'Sender address rejected: Domain not found');
  await failed('gone@x.test', 550, '5.1.1', 'no such user');
  await failed('words@x.test', 550, undefined, 'User unknown');
  await expect.poll(async () => (await listed()).length).toBe(4);
  expect((await listed()).toSorted((one, other) => one.localeCompare(other))).toEqual([
    `angry@x.test complaint complaint: abuse (message ${entry.id})`,
    `gone@x.test hard_bounce refused: 550 5.1.1 no such user (message ${entry.id})`,
    `hard@x.test hard_bounce reported: 5.1.1 no such user (message ${entry.id})`,
    `words@x.test hard_bounce refused: 550  User unknown (message ${entry.id})`,
  ]);
  const { events } = await spool.events.read({ after: 0, limit: 100, kinds: ['suppressed'] });
  expect(events).toMatchObject([
    { recipient: 'hard@x.test', source: 'bounced', reason: 'hard_bounce', rule: 'no-such-user', cause: 4 },
    { recipient: 'angry@x.test', source: 'complained', reason: 'complaint' },
    { recipient: 'gone@x.test', source: 'failed', rule: 'no-such-user' },
    { recipient: 'words@x.test', source: 'failed', rule: 'words-no-such-user' },
  ]);
});

test.each([
  { off: 'hardBounces', left: ['angry@x.test', 'gone@x.test'] },
  { off: 'complaints', left: ['hard@x.test', 'gone@x.test'] },
  { off: 'failures', left: ['hard@x.test', 'angry@x.test'] },
] as const)('an account may do without $off', async ({ off, left }) => {
  suppress = { hardBounces: true, complaints: true, failures: true, [off]: false };
  await start();
  await spool.events.write([bounced('hard@x.test'), complained('angry@x.test')]);
  await failed('gone@x.test', 550, '5.1.1', 'no such user');
  await expect.poll(async () => (await listed()).length).toBe(2);
  expect(new Set((await listed()).map((line) => line.split(' ')[0]))).toEqual(new Set(left));
});

test('an entry that is there stays as it is, and the event of another account’s name does nothing', async () => {
  await suppressions.add({ account: 'd'.repeat(32), address: 'Hard@x.test', reason: 'manual', note: 'asked by phone' });
  await start();
  await spool.events.write([
    bounced('hard@x.test'),
    bounced('hard@x.test', { account: 'gone' }),
    bounced('last@x.test'),
  ]);
  await expect.poll(async () => (await listed()).length).toBe(2);
  expect(await listed()).toContain('hard@x.test manual asked by phone');
});

test('what came while it did not run is dealt with at the next start; what was before the very first start is not', async () => {
  await spool.events.write([bounced('before@x.test')]);
  await start();
  await spool.events.write([bounced('first@x.test')]);
  await expect.poll(async () => (await listed()).length).toBe(1);
  await stop();
  const { entries } = await suppressions.list('d'.repeat(32), { limit: 9 });
  await suppressions.remove('d'.repeat(32), entries[0]?.id ?? '');
  await spool.events.write([bounced('meanwhile@x.test')]);
  await start();
  await expect.poll(async () => (await listed()).length).toBe(1);
  // What a person took off the list is not put on it again by the same event.
  expect((await listed())[0]).toMatch(/^meanwhile@x\.test /);
});
