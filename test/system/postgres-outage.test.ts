// A PostgreSQL that answers, and yet cannot be used: its disk is full, somebody holds a lock, it confirms too early, it hangs.

import { rmSync } from 'node:fs';
import pg from 'pg';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { uuidv7 } from '../../src/base/ids.ts';
import { PostgresSpool } from '../../src/spool/postgres/postgres-spool.ts';
import { FaultSink } from '../support/fault-sink.ts';
import { relaySettings, Senders } from '../support/gateway-load.ts';
import { logLines } from '../support/log-lines.ts';
import { startPostern } from '../support/postern-process.ts';
import { type PostgresServer, startPostgres } from '../support/postgres.ts';
import { PostgresProxy } from '../support/postgres-proxy.ts';
import { countsOf } from '../support/spool-counts.ts';
import { spoolEntry } from '../support/spool-entry.ts';
import { requirePrograms } from './programs.ts';

const waiting = { timeout: 30_000, interval: 20 };

let server: PostgresServer;
beforeAll(async () => {
  requirePrograms('runuser', 'pg_ctlcluster');
  server = await startPostgres();
});
afterAll(() => server?.remove());

async function open(url: string, options: { readonly doubtMs?: number } = {}): Promise<PostgresSpool> {
  const spool = await PostgresSpool.open({ url, ...options });
  onTestFinished(() => spool.close());
  return spool;
}

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client(url);
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

/** Adds a message of so many octets; why it was put off, undefined where it was kept. */
async function add(spool: PostgresSpool, octets = 100): Promise<unknown> {
  const now = Date.now();
  const body = Buffer.alloc(octets, 'x');
  const entry = spoolEntry({ id: uuidv7(now), acceptedAt: now, expiresAt: now + 3_600_000, body });
  return await spool.add(entry, now + 60_000).then(
    () => undefined,
    (error: unknown) => error,
  );
}

/** Why the spool took no mail at each of so many looks, one every 50 ms. */
async function faults(spool: PostgresSpool, looks: number): Promise<ReadonlySet<string | undefined>> {
  const seen = new Set<string | undefined>();
  for (let look = 0; look < looks; look += 1) {
    seen.add(spool.unavailable?.reason);
    await new Promise((wait) => setTimeout(wait, 50));
  }
  return seen;
}

test('while the disk of the server is full no mail is taken, and with room again it is', async () => {
  const { url, disk } = await server.createSmallDatabase(64);
  const spool = await open(url);
  disk.fill(0);
  await expect.poll(() => add(spool, 100_000), waiting).toMatchObject({ name: 'Unavailable', reason: 'room' });
  // Nobody tries to send meanwhile, and the server answers whoever only reads.
  expect(await faults(spool, 60)).toEqual(new Set(['room']));
  disk.makeRoom();
  await expect.poll(() => spool.unavailable, waiting).toBeUndefined();
  expect(await add(spool, 100_000)).toBeUndefined();
});

test('while the disk of the write-ahead log is full no mail is taken, nothing accepted is lost, and with room again it is', async () => {
  // Only the connection that finds no room hears why; the server then ends all others without a reason. So nobody else writes.
  const settings = ['max_wal_size=24MB', 'min_wal_size=2MB', 'wal_writer_delay=10s', 'autovacuum=off'];
  const own = await startPostgres({ logMebibytes: 48, settings });
  onTestFinished(() => own.remove());
  const url = await own.createDatabase();
  const spool = await open(url, { doubtMs: 1000 });
  const client = await connect(url);
  client.on('error', () => undefined);
  await client.query('BEGIN; UPDATE spool_state SET last_event = last_event');
  let kept = 0;
  own.logDisk?.fill(0);
  const ends: unknown[] = [];
  await expect
    .poll(async () => {
      const end = await add(spool, 1_000_000);
      if (end === undefined) kept += 1;
      else ends.push(end);
      return ends.length;
    }, waiting)
    .toBeGreaterThan(0);
  for (const end of ends) expect(end).toMatchObject({ name: 'Unavailable' });
  expect(spool.unavailable).toBeDefined();
  expect(ends[0]).toMatchObject({ reason: 'room' });
  own.logDisk?.makeRoom();
  await own.start().catch(() => undefined);
  await expect.poll(() => spool.unavailable, waiting).toBeUndefined();
  expect(await add(spool, 100_000)).toBeUndefined();
  expect((await countsOf(spool)).queued).toBe(kept + 1);
});

test('while somebody keeps events from being filed mail is taken, and its events are found afterwards', async () => {
  const url = await server.createSchema();
  const spool = await open(url);
  const client = await connect(url);
  await client.query('BEGIN; UPDATE spool_state SET last_event = last_event');
  expect([await add(spool), await add(spool)]).toEqual([undefined, undefined]);
  expect(await faults(spool, 60)).toEqual(new Set([undefined]));
  expect(await spool.events.newest()).toBe(0);
  await client.query('ROLLBACK');
  const found = async () => (await spool.events.read({ after: 0, limit: 10 })).events.map(({ id }) => id);
  await expect.poll(found, waiting).toEqual([1, 2]);
});

/** Has the server give up at once what waits for a lock in the schema, as it would some seconds later; how many statements. */
async function giveUp(client: pg.Client): Promise<number> {
  const { rowCount } = await client.query(`SELECT pg_cancel_backend(pid) FROM pg_locks WHERE NOT granted
    AND relation IN (SELECT oid FROM pg_class WHERE relnamespace = current_schema()::regnamespace)`);
  return rowCount ?? 0;
}

test('a question about the queue that takes too long keeps no mail from being taken, and a write that does so does', async () => {
  const url = await server.createSchema();
  const spool = await open(url);
  const client = await connect(url);
  const now = Date.now();
  const questions: readonly (() => Promise<unknown>)[] = [
    () => spool.list({ limit: 10 }),
    () => spool.show(uuidv7(now)),
    () => spool.load(uuidv7(now)),
    () => spool.waiting(10),
    () => spool.oldest(),
    () => spool.holds(),
    () => spool.turns({ transport: 'out', now, limit: 10 }),
    () => spool.reportsDue({ now, limit: 10 }),
    () => spool.replacedIds('dev', ['<mine@client.test>']),
    () => spool.usedKey('dev', 'key'),
  ];
  const tables = ['messages', 'recipients', 'octets', 'lines', 'holds', 'reports', 'threads'].map(
    (one) => `spool_${one}`,
  );
  const tooLong = async (ask: () => Promise<unknown>): Promise<void> => {
    await client.query(`BEGIN; LOCK TABLE ${tables.join(', ')}, idempotency_keys IN ACCESS EXCLUSIVE MODE`);
    const ends: unknown[] = [];
    const asked = ask().then(
      (end) => ends.push(end),
      (thrown: unknown) => ends.push(thrown),
    );
    while (ends.length === 0) await giveUp(client);
    await asked;
    expect(ends[0], String(ask)).toMatchObject({ name: 'Unavailable', cause: { code: '57014' } });
    await client.query('ROLLBACK');
  };
  for (const ask of questions) {
    await tooLong(ask);
    expect(spool.unavailable, String(ask)).toBeUndefined();
  }
  await tooLong(() => add(spool));
  expect(spool.unavailable).toMatchObject({ reason: 'store' });
  await expect.poll(() => spool.unavailable, waiting).toBeUndefined();
});

test.each([
  ['spool_threads', 'the spool cannot tidy up for now'],
  ['mail_event_counts', 'partitions could not be changed'],
])(
  'while somebody holds %s, so that what is old stays, mail is taken, and the log tells so once',
  async (table, words) => {
    const url = await server.createSchema();
    const { log, lines } = logLines();
    const spool = await PostgresSpool.open({ url, log });
    onTestFinished(() => spool.close());
    const client = await connect(url);
    await client.query(`BEGIN; LOCK TABLE ${table} IN ACCESS EXCLUSIVE MODE`);
    const seen = new Set<unknown>();
    // It is tried again once a second until it was done.
    for (let given = 0; given < 3; given += await giveUp(client)) seen.add(spool.unavailable);
    expect(await add(spool)).toBeUndefined();
    expect(seen).toEqual(new Set([undefined]));
    expect(lines.filter(({ msg }) => msg === words)).toHaveLength(1);
  },
);

test('while somebody holds the processes, so that their rows cannot be kept alive, mail is taken', async () => {
  const url = await server.createSchema();
  const spool = await open(url);
  expect(await add(spool)).toBeUndefined();
  const client = await connect(url);
  await client.query('BEGIN; LOCK TABLE spool_processes IN EXCLUSIVE MODE');
  const seen = new Set<unknown>();
  for (let given = 0; given < 3; given += await giveUp(client)) seen.add(spool.unavailable);
  expect(await add(spool)).toBeUndefined();
  expect(seen).toEqual(new Set([undefined]));
});

test('while a table is gone mail is put off, and is taken once it is back', async () => {
  const url = await server.createSchema();
  const spool = await open(url);
  const client = await connect(url);
  await client.query('ALTER TABLE spool_octets RENAME TO kept');
  expect(await add(spool)).toMatchObject({ name: 'Unavailable', reason: 'store' });
  await client.query('ALTER TABLE kept RENAME TO spool_octets');
  await expect.poll(() => spool.unavailable, waiting).toBeUndefined();
  expect(await add(spool)).toBeUndefined();
});

test('new connections on which mail would be confirmed too early, or not written, are not used', async () => {
  const url = await server.createDatabase();
  const client = await connect(url);
  const [{ name } = { name: '' }] = (await client.query<{ name: string }>('SELECT current_database() AS name')).rows;
  const spool = await open(url);
  const breakOff = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()`;
  for (const setting of ['synchronous_commit = off', 'default_transaction_read_only = on']) {
    const [variable = ''] = setting.split(' ', 1);
    await client.query(`ALTER DATABASE ${name} SET ${setting}`);
    await client.query(breakOff);
    await expect.poll(() => spool.unavailable?.message, waiting).toContain(`${variable} is`);
    expect(await add(spool)).toMatchObject({ name: 'Unavailable' });
    await client.query(`ALTER DATABASE ${name} RESET ${variable}`);
    await expect.poll(() => spool.unavailable, waiting).toBeUndefined();
    // Connections that were opened in between would still be as they were.
    for (let count = 0; count < 10; count += 1) expect(await add(spool)).toBeUndefined();
  }
});

test('where new connections may only read, no mail is taken on those of before, until a new one may write', async () => {
  const url = await server.createDatabase();
  const client = await connect(url);
  const [{ name } = { name: '' }] = (await client.query<{ name: string }>('SELECT current_database() AS name')).rows;
  const spool = await open(url);
  const addMany = (): Promise<unknown[]> => Promise.all(Array.from({ length: 20 }, () => add(spool)));
  // Several connections are open, as under load.
  await Promise.all([...Array.from({ length: 5 }, () => countsOf(spool)), addMany()]);
  await client.query(`ALTER DATABASE ${name} SET default_transaction_read_only = on`);
  // One of them breaks, and the one in its place may not write.
  await client.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() ORDER BY backend_start DESC LIMIT 1`);
  const ask = (): Promise<unknown> =>
    Promise.all(Array.from({ length: 6 }, () => countsOf(spool))).catch(() => undefined);
  await expect
    .poll(() => ask().then(() => spool.unavailable?.message), waiting)
    .toContain('default_transaction_read_only');
  expect(await faults(spool, 60)).toEqual(new Set(['store']));
  expect(await add(spool)).toMatchObject({ name: 'Unavailable' });
  await client.query(`ALTER DATABASE ${name} RESET default_transaction_read_only`);
  await expect.poll(() => spool.unavailable, waiting).toBeUndefined();
  expect((await addMany()).filter((fault) => fault !== undefined)).toEqual([]);
  expect(await faults(spool, 30)).toEqual(new Set([undefined]));
});

test('connections that are broken off again and again, also as they are opened, end nothing', async () => {
  const url = await server.createDatabase();
  const client = await connect(url);
  const spools = [await open(url), await open(url)];
  const breakOff = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()`;
  const until = performance.now() + 3000;
  // What is thrown where nobody catches it fails the run.
  const asking = spools.flatMap((spool) =>
    Array.from({ length: 6 }, async () => {
      while (performance.now() < until) await countsOf(spool).catch(() => undefined);
    }),
  );
  while (performance.now() < until) await client.query(breakOff);
  await Promise.all(asking);
  for (const spool of spools) {
    await expect.poll(() => spool.unavailable, waiting).toBeUndefined();
    expect(await add(spool)).toBeUndefined();
  }
});

test('an add is confirmed though its connection breaks after the commit, before its answer', async () => {
  const url = await server.createSchema();
  const proxy = await PostgresProxy.start(server.folder);
  onTestFinished(() => proxy.close());
  const spool = await open(proxy.url(url));
  for (let count = 0; count < 20; count += 1) {
    // What the spool does by itself meanwhile is cut off, too, and while it knows of that it takes no mail.
    await expect.poll(() => spool.unavailable, waiting).toBeUndefined();
    proxy.set('cut-after-commit');
    expect(await add(spool)).toBeUndefined();
    proxy.set('open');
  }
  expect(proxy.cuts).toBeGreaterThan(19);
  expect((await (await connect(url)).query('SELECT id FROM spool_messages')).rowCount).toBe(20);
});

test('SIGTERM ends a gateway soon after its drain time, though the database does not answer', {
  timeout: 120_000,
}, async () => {
  const sink = await FaultSink.start();
  onTestFinished(() => sink.close());
  const proxy = await PostgresProxy.start(server.folder);
  onTestFinished(() => proxy.close());
  const settings = relaySettings(sink, proxy.url(await server.createSchema()));
  const postern = await startPostern({ ...settings, config: { ...settings.config, drainSeconds: 1 } });
  onTestFinished(async () => {
    await postern.end('SIGKILL');
    rmSync(postern.folder, { recursive: true, force: true });
  });
  const senders = Array.from({ length: 4 }, (_, index) => new Senders(`s${index}x`));
  const sending = senders.map((one) => one.run(() => postern.ports['devices']));
  const heard = (): number => senders.reduce((sum, one) => sum + one.marks((code) => code === 250).length, 0);
  await postern.until(() => heard() > 20);
  proxy.set('silent');
  await new Promise((wait) => setTimeout(wait, 500));
  expect((await fetch(`http://127.0.0.1:${postern.ports['http']}/livez`)).status).toBe(200);
  // It takes 3 s. What waits for the database gives up by itself only after 15 s and more.
  const late = new Promise((resolve) => setTimeout(resolve, 14_000, 'it did not end'));
  expect(await Promise.race([postern.end('SIGTERM'), late])).toBe(0);
  for (const one of senders) one.stop();
  await Promise.all(sending);
});
