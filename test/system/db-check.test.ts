// What postern db check finds in a PostgreSQL.

import { writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { tableMigrations } from '../../src/app/wiring/table-versions.ts';
import type { DatabaseReport } from '../../src/spool/inspect/database-report.ts';
import { inspectPostgres } from '../../src/spool/inspect/inspect-postgres.ts';
import { PostgresSpool } from '../../src/spool/postgres/postgres-spool.ts';
import { entryOfNow } from '../support/moved-source.ts';
import { type PostgresServer, startPostgres } from '../support/postgres.ts';
import { runCli } from '../support/run-cli.ts';
import { scratchFolder } from '../support/scratch.ts';
import { requirePrograms } from './programs.ts';

let server: PostgresServer;
beforeAll(async () => {
  requirePrograms('runuser', 'pg_ctlcluster');
  server = await startPostgres();
});
afterAll(() => server?.remove());

const soon = { timeout: 30_000, interval: 200 };
const known = new Map(tableMigrations.postgres.map(({ owner, steps, postgres = steps }) => [owner, postgres.length]));
// The tests' server does not sync, which is told each time.
const codes = ({ problems }: DatabaseReport): string[] =>
  problems.map(({ code }) => code).filter((code) => code !== 'not-synced');

async function inspect(url: string, seconds = 10): Promise<DatabaseReport> {
  return await inspectPostgres({ url, shown: 'db.test/postern', known, takeOverSeconds: 1.5, seconds });
}

async function beside(url: string): Promise<pg.Client> {
  const client = new pg.Client(url);
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

test('a database with a gateway has no problems, and shows the queue, sizes and claims', async () => {
  const url = await server.createSchema();
  expect(codes(await inspect(url))).toEqual(['no-tables']);
  const spool = await PostgresSpool.open({ url, patienceMs: 1500 });
  onTestFinished(() => spool.close());
  await spool.add(entryOfNow(), Date.now() + 60_000);
  await spool.add(entryOfNow(), 0);
  // Once what was told is filed.
  await spool.events.newest();
  const report = await inspect(url);
  expect(codes(report)).toEqual([]);
  expect(report.problems.map(({ text }) => text)).toEqual([expect.stringContaining('fsync is off')]);
  expect(report.queue).toMatchObject({ queuedRecipients: 2, claimed: 2, oldestTurnAt: expect.any(Number) as number });
  expect(report.processes).toEqual([
    { name: expect.stringContaining(` ${process.pid}`) as string, claims: 2, isAlive: true },
  ]);
  expect(report.facts).toMatchObject({ standby: false, synchronous_commit: 'on', encoding: 'UTF8' });
  expect(report.tables.find(({ name }) => name === 'spool_messages')?.octets).toBeGreaterThan(0);
  expect(report.tables.find(({ name }) => name === 'mail_events')).toMatchObject({
    ...{
      oldestPartition: 'mail_events_1',
      newestPartition: expect.stringMatching(/^mail_events_1(?:0001)?$/) as string,
    },
    rowsOutside: 0,
  });
  const today = `journal_${new Date().toISOString().slice(0, 10).replaceAll('-', '')}`;
  const journal = report.tables.find(({ name }) => name === 'journal');
  expect([journal?.partitions, today > (journal?.oldestPartition ?? '~')]).toEqual([5, true]);
  expect(journal?.newestPartition && journal.newestPartition > today).toBe(true);
});

test('silent processes, orphaned claims, mail that waits and open transactions are told, without control characters', async () => {
  const url = await server.createSchema();
  const spool = await PostgresSpool.open({ url });
  await spool.add(entryOfNow(), Date.now() + 60_000);
  await spool.close();
  const client = await beside(url);
  await client.query("INSERT INTO spool_processes (name, beats, batch) VALUES (E'host\\u001b[31m 1', 0, 0)");
  await client.query('UPDATE spool_lines SET ready_at = 1; UPDATE spool_recipients SET claimed_by = 99');
  await client.query('UPDATE migrations SET version = 9 WHERE owner = \'spool\'; CREATE TABLE "a\nb" (x INT)');
  const report = await inspect(url);
  expect(codes(report)).toEqual(['newer-tables', 'nobody-delivers', 'silent-process', 'orphaned-claims']);
  expect(report.problems.every(({ text, cure }) => text !== '' && cure !== '')).toBe(true);
  const folder = scratchFolder();
  const config = join(folder, 'postern.yaml');
  writeFileSync(config, JSON.stringify({ development: {}, database: { url, takeOverSeconds: 5 } }));
  const shown = await runCli(['db', 'check', '--config', config], { env: { POSTERN_DATA_DIR: folder } });
  expect([shown.exitCode, shown.stderr, /\p{Cc}/u.test(shown.stdout.replaceAll('\n', ''))]).toEqual([1, '', false]);
  expect(shown.stdout).toContain('The process "host?[31m 1" gives no sign of life');
});

test('without pg_monitor a synchronous standby raises no alarm: what is not seen is said, with the GRANT that shows it', async () => {
  const url = await server.createDatabase();
  const asker = await beside(url);
  await asker.query('CREATE ROLE "The Post" LOGIN');
  const plain = url.replace('postgres@', 'The%20Post@');
  // No standby at all is told whoever asks.
  await server.configure({ synchronous_standby_names: 'none' });
  onTestFinished(() => server.configure({ synchronous_standby_names: '' }));
  expect(codes(await inspect(plain))).toContain('no-synchronous-standby');
  const standby = await server.addStandby();
  onTestFinished(() => standby.remove());
  await server.configure({ synchronous_standby_names: '*' });
  await vi.waitFor(async () => {
    const [seen] = (await inspect(url)).replicas;
    expect(seen).toMatchObject({ state: 'streaming', isSynchronous: true });
  }, soon);

  const unseen = await inspect(plain);
  expect(codes(unseen)).toEqual(['no-tables']);
  expect(unseen.replicas).toMatchObject([{ isSynchronous: null }]);
  expect(unseen.unseen).toMatchObject([{ code: 'unseen', cure: 'As a superuser: GRANT pg_monitor TO "The Post"' }]);
  expect(unseen.facts).not.toHaveProperty('sees_all');
  await asker.query('GRANT pg_monitor TO "The Post"');
  const seen = await inspect(plain);
  expect([seen.unseen, seen.replicas[0]?.isSynchronous]).toEqual([[], true]);
});

test('a standby is told, and a server that is away or hangs is an error within the time', async () => {
  const url = await server.createSchema();
  await server.stop('fast');
  await server.startAsStandby();
  expect(codes(await inspect(url))).toContain('unusable');
  await server.stop('fast');
  await expect(inspect(url)).rejects.toThrow('The database cannot be used now');
  await server.start();
  const hanging = createServer(() => undefined).listen(0, '127.0.0.1');
  await new Promise((listening) => hanging.once('listening', listening));
  onTestFinished(() => void hanging.close());
  const address = hanging.address();
  const port = typeof address === 'object' ? address?.port : 0;
  await expect(inspect(`postgres://nobody@127.0.0.1:${port}/none`, 1)).rejects.toThrow(
    'The database cannot be used now',
  );
});

test('a question that waits for a lock is unanswered, and the others are answered', async () => {
  const url = await server.createSchema();
  const spool = await PostgresSpool.open({ url });
  await spool.close();
  const client = await beside(url);
  await client.query('BEGIN; LOCK TABLE spool_counts IN ACCESS EXCLUSIVE MODE');
  const report = await inspect(url, 1);
  expect(codes(report)).toEqual(['unanswered']);
  expect([report.queue, report.owners.length > 0]).toEqual([null, true]);
  await client.query('ROLLBACK');
});
