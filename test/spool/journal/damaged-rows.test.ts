// Rows that a disk or a hand has damaged in a database in use: they are shown as such or left out, and stop nothing else.

import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, onTestFinished, test } from 'vitest';
import { openDatabase } from '../../../src/base/database/sqlite-database.ts';
import { openSqliteJournal } from '../../../src/spool/journal/store/sqlite-journal-store.ts';
import { SqliteSpool } from '../../../src/spool/sqlite/sqlite-spool.ts';
import { rowJson } from '../../../src/web/admin/journal/entry-json.ts';
import { scratchFolder } from '../../support/scratch.ts';
import { someTime, spoolEntry } from '../../support/spool-entry.ts';

const dayMs = 86_400_000;
const details = {
  content: 'headers',
  fields: [],
  verdicts: '',
  timings: {},
  maxBodyOctets: 262_144,
  subject: 'Hi',
} as const;

async function open() {
  const file = join(scratchFolder(), 'postern.db');
  const spool = await SqliteSpool.open({
    file,
    eventLimits: { mail: 3, refusals: 3, copies: 3, ageMilliseconds: 1e15 },
  });
  const journal = openSqliteJournal(await openDatabase(file), {
    keepDays: 10,
    maxOctets: 1e9,
    refusals: 100,
    copies: 100,
  });
  const raw = new DatabaseSync(file);
  onTestFinished(async () => {
    raw.close();
    await journal.close();
    await spool.close();
  });
  const add = async (at: number): Promise<string> => {
    const entry = spoolEntry({ acceptedAt: someTime + at, journal: details });
    await spool.add(entry, someTime);
    return entry.id;
  };
  return { spool, journal, raw, add };
}

test.each([
  '{"recipients":["bob@exa',
  'null',
  '[]',
  '{"recipients":7,"count":1}',
  '{"recipients":[],"count":1e999}',
  `${'['.repeat(5000)}${']'.repeat(5000)}`,
  '',
])('a row of the journal whose facts are damaged (case %#) is shown as damaged and goes like others', async (facts) => {
  const { journal, raw, add } = await open();
  const first = await add(0);
  const hurt = await add(1);
  const last = await add(2);
  raw.prepare('UPDATE journal SET facts = ? WHERE id = ?').run(facts, hurt);
  for (let round = 0; round < 2; round += 1) {
    const { items } = await journal.list({ limit: 10, account: 'dev' });
    expect(items.map(({ id, isDamaged }) => [id, isDamaged])).toEqual([
      [last, undefined],
      [hurt, true],
      [first, undefined],
    ]);
    expect(items.map((item) => rowJson(item).damaged)).toEqual([false, true, false]);
    expect((await journal.list({ limit: 10, text: 'hi' })).items.map(({ id }) => id)).toEqual([last, first]);
    expect((await journal.rows([hurt, last])).map(({ id }) => id)).toEqual([hurt, last]);
    // The index is filled over it.
    while (await journal.tend(someTime));
    expect((await journal.state()).waiting).toBe(0);
  }
  expect(await journal.find(hurt)).toMatchObject({
    isDamaged: true,
    more: { lacking: expect.stringMatching('damaged') },
  });
  const kept = await add(11 * dayMs);
  while (await journal.tend(someTime + 11 * dayMs));
  expect((await journal.list({ limit: 10 })).items.map(({ id }) => id)).toEqual([kept]);
});

test('an entry whose details are damaged keeps its facts', async () => {
  const { journal, raw, add } = await open();
  const id = await add(0);
  for (const more of ['{', '{"session":"s","reply":{}}', '{"session":"s","reasons":[{}]}']) {
    raw.prepare('UPDATE journal SET more = ? WHERE id = ?').run(more, id);
    expect(await journal.find(id)).toMatchObject({ isDamaged: true, facts: { subject: 'Hi' }, more: { session: '' } });
  }
});

test('a damaged event is left out of what is read, and does not stop mail from being accepted when it is to go', async () => {
  const { spool, raw, add } = await open();
  await add(0);
  const second = await add(1);
  raw.exec("UPDATE mail_events SET event = '{' WHERE id = 1");
  const { events, next } = await spool.events.read({ after: 0, limit: 10 });
  expect([events.map((event) => event.id), next]).toEqual([[2], 2]);
  const found = await spool.events.search({ account: 'dev', order: 'newest', limit: 10, recipient: 'bob@example.org' });
  expect(found.events.map((event) => 'queueId' in event && event.queueId)).toEqual([second]);
  for (let at = 2; at < 8; at += 1) await add(at);
  // What is too much goes behind the commits.
  const first = (): number => Number(raw.prepare('SELECT min(id) AS first FROM mail_events').get()?.['first']);
  await expect.poll(first, { timeout: 10_000 }).toBeGreaterThan(1);
});
