// The journal in a backup: rows, content and the index of the search are those of one moment, however much is written meanwhile.

import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, onTestFinished, test, vi } from 'vitest';
import { tableVersions } from '../../../src/app/wiring/table-versions.ts';
import { openDatabase } from '../../../src/base/database/sqlite-database.ts';
import { uuidv7 } from '../../../src/base/ids.ts';
import { restoreBackup } from '../../../src/spool/backup/backup-file.ts';
import { takeBackup } from '../../../src/spool/backup/take-backup.ts';
import type { Journal } from '../../../src/spool/journal/journal.ts';
import { openSqliteJournal } from '../../../src/spool/journal/store/sqlite-journal-store.ts';
import { SqliteSpool } from '../../../src/spool/sqlite/sqlite-spool.ts';
import { makeSource } from '../../support/moved-source.ts';
import { runCli } from '../../support/run-cli.ts';
import { scratchFolder } from '../../support/scratch.ts';
import { someTime, spoolEntry } from '../../support/spool-entry.ts';

const limits = { keepDays: 30, maxOctets: 1e9, refusals: 10_000, copies: 10_000 };

async function journalOf(file: string): Promise<Journal> {
  const journal = openSqliteJournal(await openDatabase(file), limits);
  onTestFinished(() => journal.close());
  return journal;
}

/** A message whose subject and body name its number. */
function numbered(at: number) {
  const [head, body] = [Buffer.from(`Subject: Nr. w${at}x\r\n\r\n`), Buffer.from(`body ${at}\r\n`.repeat(100))];
  return spoolEntry({
    ...{ acceptedAt: someTime + at, body },
    journal: {
      ...{
        content: 'full',
        fields: [],
        verdicts: '',
        timings: {},
        maxBodyOctets: 262_144,
        subject: `Nr. w${at}x Grüße`,
        body,
      },
      octets: Buffer.concat([head, body]),
    },
  });
}

test('rows, content and index are restored whole, though messages are accepted and refused meanwhile', async () => {
  const folder = scratchFolder();
  const file = join(folder, 'postern.db');
  const spool = await SqliteSpool.open({ file });
  const journal = await journalOf(file);
  for (let at = 0; at < 600; at += 50)
    await Promise.all(Array.from({ length: 50 }, (_, next) => spool.add(numbered(at + next), someTime)));
  // Some rows are in the index, and some are behind it.
  await journal.tend(someTime);
  const refuse = (journalId = uuidv7(someTime)): void =>
    spool.events.refuse({
      ...{ stage: 'message', account: 'dev', credential: 'default', sessionId: 'c0ffee', via: 'smtp', journalId },
      violations: [{ code: 'E_HEADER_NOT_ALLOWED', message: 'no', name: 'User-Agent' }],
    });
  refuse('refused');
  await vi.waitFor(async () => expect(await journal.find('refused')).toBeDefined(), 5000);
  const flowing = new AbortController();
  let added = 600;
  const flow = (async () => {
    for (; !flowing.signal.aborted; added += 1) {
      await spool.add(numbered(added), someTime);
      refuse();
      if (added % 20 === 0) await journal.tend(someTime);
    }
  })();
  await vi.waitFor(() => expect(added).toBeGreaterThan(620), { timeout: 10_000, interval: 5 });
  const backup = join(scratchFolder(), 'backup.db');
  const places = { database: file, bodiesFolder: join(folder, 'bodies'), force: false, progress: () => undefined };
  const made = await takeBackup({ ...places, target: backup, now: someTime });
  flowing.abort();
  await flow;
  await spool.close();

  const data = scratchFolder();
  const restored = { ...places, database: join(data, 'postern.db'), bodiesFolder: join(data, 'bodies') };
  restoreBackup({ ...restored, file: backup, versions: tableVersions });
  const database = new DatabaseSync(restored.database);
  expect(database.prepare('PRAGMA integrity_check').all()).toEqual([{ integrity_check: 'ok' }]);
  database.exec("INSERT INTO journal_words (journal_words) VALUES ('integrity-check')");
  const number = (sql: string): number => Number(Object.values(database.prepare(sql).get() ?? {})[0]);
  const accepted = number('SELECT count(*) FROM journal WHERE outcome < 6');
  expect([accepted, number('SELECT count(*) FROM journal_content')]).toEqual([made.messages, made.messages]);
  expect(number('SELECT count(*) FROM journal WHERE id IN (SELECT id FROM spool_messages)')).toBe(accepted);
  const indexed = number('SELECT indexed FROM journal_state');
  expect(indexed).toBeGreaterThan(0);
  expect(number('SELECT max(rowid) FROM journal_words')).toBe(indexed);
  expect(number('SELECT octets FROM journal_state')).toBe(
    number(`SELECT sum(octets) FROM journal WHERE seq <= ${indexed}`),
  );
  expect(number('SELECT max(seq) FROM journal')).toBeGreaterThan(indexed);
  database.close();

  // What is behind the index, in it, and comes into it later is found alike, with its own content.
  const found = await journalOf(restored.database);
  for (const isTended of [false, true]) {
    if (isTended) while (await found.tend(someTime));
    for (const at of [0, 255, 256, 400, 599, accepted - 1]) {
      const { items } = await found.list({ text: `w${at}x`, limit: 10 });
      expect(items.map(({ facts }) => facts.subject)).toEqual([`Nr. w${at}x Grüße`]);
      const content = await found.content(items[0]?.seq ?? 0);
      expect(content?.sentBody?.toString()).toBe(`body ${at}\r\n`.repeat(100));
    }
  }
  const refusals = await found.list({ field: 'user-agent', limit: 100 });
  expect(refusals.items.map(({ id }) => id)).toContain('refused');
  const checked = await runCli(['db', 'check', '--full'], { env: { POSTERN_DATA_DIR: data } });
  expect(checked.stdout).not.toContain('damage');
  expect([checked.exitCode, checked.stderr]).toEqual([0, '']);
}, 60_000);

test('a folder where a server has started and no mail has come takes a backup without force', async () => {
  const source = makeSource(scratchFolder());
  const backup = join(scratchFolder(), 'backup.db');
  await takeBackup({
    ...{ database: source.file, bodiesFolder: source.bodiesFolder, target: backup, force: false, now: someTime },
    progress: () => undefined,
  });
  const fresh = makeSource(scratchFolder());
  const request = { file: backup, versions: tableVersions, force: false, progress: () => undefined };
  restoreBackup({ ...request, database: fresh.file, bodiesFolder: fresh.bodiesFolder });
  const database = new DatabaseSync(fresh.file);
  database.exec("INSERT INTO journal_content VALUES (1, 0, NULL, NULL, x'00', NULL)");
  database.close();
  expect(() => restoreBackup({ ...request, database: fresh.file, bodiesFolder: fresh.bodiesFolder })).toThrow(
    'has no mail, but rows in journal_content; --force',
  );
});
