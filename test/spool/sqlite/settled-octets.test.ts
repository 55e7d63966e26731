// Messages that wait for long are kept in blocks: they leave unchanged, take less room, and a block goes with its last message.

import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openSqliteFile } from '../../../src/base/database/sqlite-file.ts';
import type { SpoolEntry } from '../../../src/spool/spool.ts';
import { SettledOctets, unsettle } from '../../../src/spool/sqlite/file/settled-octets.ts';
import { SqliteSpool } from '../../../src/spool/sqlite/sqlite-spool.ts';
import { attemptOf, someTime, spoolEntry } from '../../support/spool-entry.ts';

const settledAt = someTime + 60_000;
const reply = { code: 250, text: 'ok' };
const outcome = { kind: 'delivered', reply, host: 'out (h:25)' } as const;
let folder: string;
let file: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'postern-'));
  file = join(folder, 'spool.db');
});
afterEach(() => rmSync(folder, { recursive: true }));

function entries(count: number, changes: Partial<SpoolEntry> = {}): SpoolEntry[] {
  const head = Buffer.from(`From: alice@example.com\r\nX-Filler: ${'x'.repeat(1000)}\r\n\r\n`);
  return Array.from({ length: count }, (_, at) =>
    spoolEntry({
      head,
      body: Buffer.from(randomBytes(1500).toString('base64')),
      acceptedAt: someTime + at,
      ...changes,
    }),
  );
}

async function filled(all: readonly SpoolEntry[]): Promise<void> {
  const spool = await SqliteSpool.open({ file });
  await Promise.all(all.map((entry) => spool.add(entry, 0)));
  await spool.close();
}

/** Puts into blocks what can be, beside no other program. */
function settle(now = settledAt): { readonly blocks: number; readonly settled: number; readonly left: number } {
  const database = openSqliteFile(file);
  database.exec('BEGIN');
  const settled = new SettledOctets(database);
  while (settled.settle(now));
  database.exec('COMMIT');
  const count = (from: string): number => Number(database.prepare(`SELECT count(*) AS n FROM ${from}`).get()?.['n']);
  const found = {
    blocks: count('spool_blocks'),
    settled: count('spool_messages WHERE body_in_file = 2'),
    left: count('spool_messages WHERE length(head) > 0'),
  };
  database.close();
  return found;
}

async function expectUnchanged(spool: SqliteSpool, all: readonly SpoolEntry[]): Promise<void> {
  for (const { id, head, body } of all) expect(await spool.load(id)).toEqual({ head, body });
}

test('messages of a block leave as they came, in any order, also after a start', async () => {
  const all = entries(100);
  await filled(all);
  const { blocks, settled, left } = settle();
  expect(blocks).toBeGreaterThan(2);
  expect(settled + left).toBe(100);
  expect(left).toBeLessThan(25);
  const spool = await SqliteSpool.open({ file });
  await expectUnchanged(spool, all);
  await expectUnchanged(spool, all.toReversed());
  expect((await spool.tallies())[0]?.octets.queued).toBe(
    all.reduce((sum, { head, body }) => sum + head.length + body.length, 0),
  );
  await spool.close();
});

test('a block goes with its last message, and not before', async () => {
  const all = entries(60);
  await filled(all);
  const { blocks } = settle();
  const spool = await SqliteSpool.open({ file });
  const database = openSqliteFile(file);
  const left = (): number => Number(database.prepare('SELECT count(*) AS n FROM spool_blocks').get()?.['n']);
  const [first, ...others] = all;
  for (const entry of others) await spool.record([attemptOf(entry, outcome)]);
  expect(left()).toBe(1);
  expect(blocks).toBeGreaterThan(1);
  await expectUnchanged(spool, all.slice(0, 1));
  if (first) await spool.drop(first.id);
  expect(left()).toBe(0);
  // Numbers begin anew: what comes now is found as well.
  const again = entries(40);
  await Promise.all(again.map((entry) => spool.add(entry, 0)));
  await spool.close();
  database.close();
  expect(settle().settled).toBeGreaterThan(20);
  const next = await SqliteSpool.open({ file });
  await expectUnchanged(next, again);
  await next.close();
});

test('messages that came a moment ago, few ones, and bodies in files stay where they are', async () => {
  await filled([...entries(5), ...entries(3, { body: randomBytes(300_000) })]);
  expect(settle().settled).toBe(0);
  await filled(entries(100, { acceptedAt: settledAt }));
  expect(settle().settled).toBe(0);
});

test('messages whose numbers begin anew are put into blocks, too', async () => {
  await filled(entries(60));
  const database = openSqliteFile(file);
  const settled = new SettledOctets(database);
  const inBlocks = (): number => {
    while (settled.settle(settledAt));
    return Number(database.prepare('SELECT count(*) AS n FROM spool_messages WHERE body_in_file = 2').get()?.['n']);
  };
  expect(inBlocks()).toBeGreaterThan(20);
  const spool = await SqliteSpool.open({ file });
  const { items } = await spool.list({ limit: 100 });
  for (const { entry } of items) await spool.drop(entry.id);
  const again = entries(30);
  await Promise.all(again.map((entry) => spool.add(entry, 0)));
  expect(inBlocks()).toBeGreaterThan(20);
  await expectUnchanged(spool, again);
  await spool.close();
  database.close();
});

test('messages in flight stay where they are: they go without a look at their rows', async () => {
  const spool = await SqliteSpool.open({ file });
  await Promise.all(entries(60).map((entry) => spool.add(entry, Date.now() + 600_000)));
  expect(settle().settled).toBe(0);
  await spool.close();
});

test('a failure of a message in a block is reported with its header section', async () => {
  const all = entries(40, { reports: { success: false, failure: true, delay: false } });
  await filled(all);
  settle();
  const spool = await SqliteSpool.open({ file });
  const [first] = all;
  if (first) await spool.record([attemptOf(first, { ...outcome, kind: 'failed' })]);
  const [report] = await spool.reportsDue({ now: Number.MAX_SAFE_INTEGER, limit: 5 });
  expect(Buffer.from(report?.head ?? [])).toEqual(first?.head);
  await spool.close();
});

test('a damaged block fails its messages alone', async () => {
  const all = entries(100);
  await filled(all);
  settle();
  const database = openSqliteFile(file);
  database.exec("UPDATE spool_blocks SET octets = x'00112233' WHERE id = 1");
  database.close();
  const spool = await SqliteSpool.open({ file });
  await expect(spool.load(all[0]?.id ?? '')).rejects.toThrow('The spool failed');
  await expectUnchanged(spool, all.slice(60));
  await spool.close();
});

test('who moves a file has all octets back in their rows', async () => {
  const all = entries(100);
  await filled(all);
  settle();
  const database = openSqliteFile(file);
  unsettle(database);
  const rows = database.prepare('SELECT head, body FROM spool_messages WHERE body_in_file = 0 ORDER BY seq').all();
  expect(rows.map(({ head, body }) => [head, body])).toEqual(
    all.map(({ head, body }) => [new Uint8Array(head), new Uint8Array(body)]),
  );
  expect(database.prepare('SELECT count(*) AS n FROM spool_blocks').get()).toEqual({ n: 0 });
  database.close();
});
