// What one gateway changes, the others on the same PostgreSQL hear of at once (LISTEN, NOTIFY), and by themselves later.

import pg from 'pg';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import type { Database } from '../../src/base/database/database.ts';
import { openPostgres } from '../../src/base/database/postgres-database.ts';
import { uuidv7 } from '../../src/base/ids.ts';
import { PostgresSpool } from '../../src/spool/postgres/postgres-spool.ts';
import { type PostgresServer, startPostgres } from '../support/postgres.ts';
import { spoolEntry } from '../support/spool-entry.ts';
import { requirePrograms } from './programs.ts';

const waiting = { timeout: 20_000, interval: 20 };

let server: PostgresServer;
beforeAll(async () => {
  requirePrograms('runuser', 'pg_ctlcluster');
  server = await startPostgres();
});
afterAll(() => server?.remove());

async function open(url: string): Promise<Database> {
  const database = await openPostgres({ url });
  onTestFinished(() => database.close());
  return database;
}

/** A client of PostgreSQL as another program would be. */
async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client(url);
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

/** Listens, and gives how often it was called; waits until the connection that listens is open. */
async function count(database: Database, subject: string, client: pg.Client): Promise<() => number> {
  let calls = 0;
  database.changes.on(subject, () => (calls += 1));
  const listening = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'";
  await expect.poll(async () => (await client.query(listening)).rowCount, waiting).toBe(1);
  // It is called once when the connection is open, for what was changed before.
  await expect.poll(() => calls, waiting).toBe(1);
  return () => calls;
}

const told = {
  owner: 'numbers',
  told: [{ table: 'numbers', columns: ['n'] }],
  steps: ['CREATE TABLE numbers (n INTEGER NOT NULL, other INTEGER) STRICT'],
};

test('a change is told in its commit, whoever makes it, and only of the columns that matter', async () => {
  const url = await server.createDatabase();
  const [database, client] = [await open(url), await connect(url)];
  await database.migrate(told);
  await database.migrate(told);
  const calls = await count(database, 'numbers', client);
  await client.query('BEGIN; INSERT INTO numbers VALUES (1, 0)');
  // A look by another statement is answered after what the server had to tell before.
  await database.query('SELECT 1');
  expect(calls()).toBe(1);
  await client.query('COMMIT');
  await expect.poll(calls, waiting).toBe(2);
  await client.query('UPDATE numbers SET other = 5');
  await client.query('UPDATE numbers SET n = 5');
  await expect.poll(calls, waiting).toBe(3);
});

test('a connection that breaks is opened again, and what was changed meanwhile is told of', async () => {
  const url = await server.createDatabase();
  const [database, client] = [await open(url), await connect(url)];
  await database.migrate(told);
  const calls = await count(database, 'numbers', client);
  await client.query(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'",
  );
  await client.query('INSERT INTO numbers VALUES (1, 0)');
  await expect.poll(calls, waiting).toBe(2);
  await client.query('INSERT INTO numbers VALUES (2, 0)');
  await expect.poll(calls, waiting).toBe(3);
});

test('two databases of one server hear nothing of each other', async () => {
  const [own, others] = [await server.createSchema(), await server.createSchema()];
  const [database, client] = [await open(own), await connect(others)];
  await database.migrate(told);
  await (await open(others)).migrate(told);
  let calls = 0;
  database.changes.on('numbers', () => (calls += 1));
  await expect.poll(() => calls, waiting).toBe(1);
  await client.query('INSERT INTO numbers VALUES (1, 0)');
  await (await connect(own)).query('INSERT INTO numbers VALUES (1, 0)');
  await expect.poll(() => calls, waiting).toBe(2);
});

test('another process hears of mail that is due, of holds and of events, and a process not of its own', async () => {
  const url = await server.createDatabase();
  const client = await connect(url);
  const spool = await PostgresSpool.open({ url });
  onTestFinished(() => spool.close());
  const heard: string[] = [];
  client.on('notification', ({ payload = '' }) => heard.push(payload.split(' ', 1)[0] ?? ''));
  await client.query('LISTEN "postern.public"');
  const listener = await open(url);
  let own = 0;
  listener.changes.on('mail_events', () => (own += 1));
  await expect.poll(() => own, waiting).toBe(1);
  const now = Date.now();
  const entry = spoolEntry({ id: uuidv7(now), acceptedAt: now, expiresAt: now + 3_600_000 });
  await spool.add(entry, now + 60_000);
  await expect.poll(() => heard, waiting).toEqual(['mail_events']);
  const rule = { kind: 'account', value: 'dev' } as const;
  const steps = [
    () => spool.release(entry.id, entry.recipients),
    () => spool.addHold({ ...rule, at: now, by: 'test', why: '' }),
    () => spool.liftHold(rule),
    () => spool.retryMany([{ id: entry.id }], { now, expiresAt: now + 3_600_000 }),
  ];
  for (const step of steps) {
    heard.length = 0;
    await step();
    await expect.poll(() => heard.includes('mail_due'), waiting).toBe(true);
  }
  expect(own).toBe(1);
});
