// What postern db check finds in a SQLite file.

import { closeSync, openSync, statSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, test } from 'vitest';
import { tableVersions } from '../../../src/app/wiring/table-versions.ts';
import { writeMovedMark } from '../../../src/base/database/sqlite-file.ts';
import { inspectSqlite } from '../../../src/spool/inspect/inspect-sqlite.ts';
import { entryOfNow, fillQueue, makeSource, openSourceSpool } from '../../support/moved-source.ts';
import { runCli } from '../../support/run-cli.ts';
import { scratchFolder } from '../../support/scratch.ts';

const looking = { known: tableVersions, isFull: true, seconds: 20 };
const codes = ({ problems }: { readonly problems: readonly { readonly code: string }[] }): string[] =>
  problems.map(({ code }) => code);

test('a sound file has no problems, beside a gateway and without one', async () => {
  const source = makeSource(scratchFolder());
  await fillQueue(source);
  const alone = await inspectSqlite({ ...looking, file: source.file });
  expect(alone).toMatchObject({
    engine: 'SQLite',
    problems: [],
    processes: [],
    facts: { checked: true, journal: 'wal' },
  });
  expect(alone.queue).toMatchObject({ queuedRecipients: 5, failedMessages: 1, claimed: 0 });
  expect(alone.owners.every(({ version, known }) => version === known)).toBe(true);
  const octets = alone.tables.reduce((sum, table) => sum + table.octets, 0);
  // A page in some hundreds says where others belong (auto_vacuum).
  expect(octets).toBe((Number(alone.facts['pages']) - 1) * Number(alone.facts['pageOctets']));
  const spool = await openSourceSpool(source);
  await spool.recover();
  await spool.add(entryOfNow(), Date.now() + 60_000);
  const served = await inspectSqlite({ ...looking, file: source.file });
  expect([served.processes.length, served.queue?.claimed, served.problems]).toEqual([1, 1, []]);
  await spool.close();
});

test('mail that nobody delivers, tables of a later release, and a file that was moved are told', async () => {
  const source = makeSource(scratchFolder());
  await fillQueue(source);
  const database = new DatabaseSync(source.file);
  database.exec("UPDATE spool_lines SET ready_at = 1; UPDATE migrations SET version = 77 WHERE owner = 'proxy'");
  expect(codes(await inspectSqlite({ ...looking, file: source.file }))).toEqual(['newer-tables', 'nobody-delivers']);
  writeMovedMark(database, { id: 'm', target: 'db.test/\u001b[31mpostern', at: 1, isDone: true });
  database.close();
  expect(codes(await inspectSqlite({ ...looking, file: source.file }))).toEqual(['newer-tables', 'moved']);
  const env = { POSTERN_DATA_DIR: join(source.file, '..') };
  const shown = await runCli(['db', 'check'], { env });
  expect([shown.exitCode, shown.stderr, /\p{Cc}/u.test(shown.stdout.replaceAll('\n', ''))]).toEqual([1, '', false]);
  expect(shown.stdout).toContain('- moved: This file was moved to db.test/?[31mpostern');
  const json = await runCli(['db', 'check', '--json'], { env });
  expect(codes(JSON.parse(json.stdout) as { problems: { code: string }[] })).toEqual(['newer-tables', 'moved']);
});

test('a damaged file is told, with what could be read', async () => {
  const source = makeSource(scratchFolder());
  const spool = await openSourceSpool(source);
  await Promise.all(Array.from({ length: 200 }, () => spool.add(entryOfNow({ body: Buffer.alloc(4000, 'x') }), 0)));
  await spool.close();
  const { size } = statSync(source.file);
  const handle = openSync(source.file, 'r+');
  for (let at = Math.floor(size / 8192) * 4096; at < size; at += 4096)
    writeSync(handle, Buffer.alloc(4096, 0xff), 0, 4096, at);
  closeSync(handle);
  const report = await inspectSqlite({ ...looking, file: source.file });
  expect(new Set(codes(report))).toEqual(new Set(['damaged']));
  expect(report.facts['version']).toEqual(expect.any(String));
});

test('the time is bounded, and what is no database is an error', async () => {
  const source = makeSource(scratchFolder());
  await expect(inspectSqlite({ ...looking, file: source.file, seconds: 0.001 })).rejects.toThrow(
    'nothing was answered',
  );
  await expect(inspectSqlite({ ...looking, file: `${source.file}.none` })).rejects.toThrow('There is no database');
  await expect(inspectSqlite({ ...looking, file: import.meta.filename })).rejects.toThrow('not a database');
});
