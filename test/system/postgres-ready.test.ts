// /readyz is 503 no later than the first sender hears that PostgreSQL is away, whichever connection noticed it first, and no look at
// the server that had begun before ends that.

import { randomUUID } from 'node:crypto';
import { rmSync } from 'node:fs';
import pg from 'pg';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { openPostgres } from '../../src/base/database/postgres-database.ts';
import { PostgresSpool } from '../../src/spool/postgres/postgres-spool.ts';
import { FaultSink } from '../support/fault-sink.ts';
import { ask, relaySettings } from '../support/gateway-load.ts';
import { logLines } from '../support/log-lines.ts';
import { type PosternProcess, startPostern, testToken } from '../support/postern-process.ts';
import { type PostgresServer, startPostgres } from '../support/postgres.ts';
import { PostgresProxy } from '../support/postgres-proxy.ts';
import { connectSmtp, type RawSmtpClient } from '../support/raw-smtp-client.ts';
import { readNumbers, readyStatus, sendOne } from '../support/server-processes.ts';
import { countsOf } from '../support/spool-counts.ts';
import { requirePrograms } from './programs.ts';

/** What every look at the server asks, and each connection that is new. */
const look = 'pg_is_in_recovery';
/** What is asked for each recipient of a message, on a connection for the accounts. */
const ofSenders = 'FROM suppressions';

let server: PostgresServer;
let proxy: PostgresProxy;
let url: string;
beforeAll(async () => {
  requirePrograms('runuser', 'pg_ctlcluster');
  server = await startPostgres();
});
afterAll(() => server?.remove());

async function startProxy(): Promise<void> {
  proxy = await PostgresProxy.start(server.folder);
  onTestFinished(() => proxy.close());
  url = await server.createSchema();
}

async function until(isSo: () => boolean): Promise<void> {
  await expect.poll(isSo, { timeout: 20_000, interval: 5 }).toBe(true);
}

test('a look that began before something failed does not have the spool take mail again', async () => {
  await startProxy();
  const { log, lines } = logLines();
  const spool = await PostgresSpool.open({ url: proxy.url(url), log });
  onTestFinished(() => spool.close());
  const gone = async (): Promise<void> => {
    await ask(url, 'ALTER TABLE spool_holds RENAME TO kept');
    await expect(spool.holds()).rejects.toMatchObject({ name: 'Unavailable' });
    await ask(url, 'ALTER TABLE kept RENAME TO spool_holds');
  };
  // Only the look writes so much.
  proxy.keepBack((octets) => octets.length > 30_000);
  await gone();
  await until(() => proxy.keptBack === 1);
  await gone();
  proxy.passOn();
  const seen = new Set<boolean>();
  await until(() => {
    seen.add(spool.unavailable === undefined);
    return proxy.keptBack === 2;
  });
  expect(seen).toEqual(new Set([false]));
  expect(lines.filter(({ msg }) => msg === 'the spool takes mail again')).toEqual([]);
  proxy.passOn();
  await until(() => spool.unavailable === undefined);
});

test('the spool takes no mail until a new connection is let in, however well those of before work', async () => {
  await startProxy();
  const spool = await PostgresSpool.open({ url: proxy.url(url) });
  onTestFinished(() => spool.close());
  await Promise.all(Array.from({ length: 6 }, () => countsOf(spool)));
  proxy.refusesNew = true;
  proxy.cutAt('FROM spool_holds');
  await expect(spool.holds()).rejects.toMatchObject({ name: 'Unavailable' });
  proxy.cutAt(undefined);
  const seen = new Set<boolean>();
  for (let turn = 0; turn < 50; turn += 1) {
    await countsOf(spool);
    seen.add(spool.unavailable === undefined);
    await new Promise((wait) => setTimeout(wait, 50));
  }
  expect(seen).toEqual(new Set([false]));
  proxy.refusesNew = false;
  await until(() => spool.unavailable === undefined);
});

test('a database is unavailable from its first failure until a look that began after the last', async () => {
  await startProxy();
  const { log, lines } = logLines();
  const database = await openPostgres({ url: proxy.url(url), log });
  onTestFinished(() => database.close());
  await Promise.all(Array.from({ length: 5 }, () => database.query('SELECT pg_sleep(0.1)')));
  const fail = async (): Promise<void> => {
    proxy.cutAt('SELECT 42');
    const known = database.query('SELECT 42').catch(() => database.unavailable);
    expect(await known).toMatchObject({ name: 'Unavailable', reason: 'store' });
    proxy.cutAt(undefined);
  };
  expect(database.unavailable).toBeUndefined();
  proxy.keepBack(look);
  await fail();
  await until(() => proxy.keptBack === 1);
  await fail();
  proxy.passOn();
  const seen = new Set<boolean>();
  await until(() => {
    seen.add(database.unavailable === undefined);
    return proxy.keptBack === 2;
  });
  expect(seen).toEqual(new Set([false]));
  proxy.passOn();
  await until(() => database.unavailable === undefined);
  expect(lines.map(({ msg }) => msg)).toEqual(['the database cannot be used', 'the database can be used again']);
});

test('a statement that takes too long, or whose table is locked or gone, is no fault of the database', async () => {
  await startProxy();
  const database = await openPostgres({ url });
  onTestFinished(() => database.close());
  for (const [setting, statement] of [
    ["SET LOCAL statement_timeout = '50ms'", 'SELECT pg_sleep(5)'],
    ['SELECT 1', 'SELECT * FROM gone'],
  ] as const) {
    const failing = database.transaction(async (transaction) => {
      await transaction.run(setting);
      await transaction.query(statement);
    });
    await expect(failing).rejects.toMatchObject({ name: 'Unavailable' });
    expect(database.unavailable).toBeUndefined();
  }
});

test('a spool that gives up waits for no server of several that says nothing', { timeout: 30_000 }, async () => {
  await startProxy();
  const first = proxy;
  await startProxy();
  const both = first.url(url).replace(/host=([^&]*)/, (_, one: string) => {
    const other = /host=([^&]*)/.exec(proxy.url(url))?.[1] ?? '';
    return `host=${one}%2C${other}`;
  });
  const [patient, spool] = [await PostgresSpool.open({ url: both }), await PostgresSpool.open({ url: both })];
  onTestFinished(() => patient.close());
  for (const one of [first, proxy]) one.cutAt(() => true);
  for (const one of [patient, spool]) await expect(countsOf(one)).rejects.toThrow();
  for (const one of [first, proxy]) {
    one.set('silent');
    one.cutAt(undefined);
  }
  // What another that asked before is told once it has waited for both of them must come later.
  const ended: string[] = [];
  const waited = countsOf(patient).catch(() => ended.push('waited'));
  const waiting = countsOf(spool);
  await new Promise((wait) => setTimeout(wait, 300));
  spool.abandon();
  await expect(waiting).rejects.toMatchObject({ name: 'Unavailable' });
  await expect(countsOf(spool)).rejects.toMatchObject({ name: 'Unavailable' });
  await spool.close();
  ended.push('given up');
  await waited;
  expect(ended).toEqual(['given up', 'waited']);
});

/** Lets a role of its own have so many connections to a new database. @returns the URL for the role */
async function limited(connections: number): Promise<string> {
  const all = await server.createDatabase();
  const role = `r${randomUUID().replaceAll('-', '')}`;
  await ask(all, `CREATE ROLE ${role} LOGIN CONNECTION LIMIT ${connections}; GRANT ALL ON SCHEMA public TO ${role}`);
  return all.replace('postgres@', `${role}@`);
}

test('requests wait for the connections that are open while the server lets no more in', async () => {
  const database = await openPostgres({ url: await limited(3) });
  onTestFinished(() => database.close());
  const asked = Array.from({ length: 40 }, () => database.query('SELECT pg_sleep(0.02)'));
  expect(await Promise.all(asked)).toHaveLength(40);
  expect(database.unavailable).toBeUndefined();
});

test('a database can be used whose open connections work, though the server lets no more in', async () => {
  const own = await limited(3);
  const database = await openPostgres({ url: own });
  onTestFinished(() => database.close());
  await Promise.all(Array.from({ length: 3 }, () => database.query('SELECT pg_sleep(0.1)')));
  await expect(database.query('SELECT pg_terminate_backend(pg_backend_pid())')).rejects.toThrow('terminating');
  const other = new pg.Client(own);
  await other.connect();
  onTestFinished(() => other.end());
  const isUsed = async (): Promise<boolean> => {
    // None of them is closed for want of use.
    await Promise.all([database.query('SELECT pg_sleep(0.1)'), database.query('SELECT pg_sleep(0.1)')]);
    return database.unavailable === undefined;
  };
  await expect.poll(isUsed, { timeout: 4000 }).toBe(true);
});

test('a gateway whose role may have few connections takes mail, and stays ready', { timeout: 60_000 }, async () => {
  await startProxy();
  url = await limited(200);
  const postern = await start(1);
  const [, role = ''] = /\/\/(\w+)@/.exec(url) ?? [];
  await ask(url.replace(role, 'postgres'), `ALTER ROLE ${role} CONNECTION LIMIT 8`);
  const seen = new Set<string | number>();
  const send = async (): Promise<void> => {
    for (let turn = 0; turn < 10; turn += 1) {
      seen.add((await sendOne(postern.ports['devices'] ?? 0)).slice(0, 3)).add(await readyStatus(postern));
    }
  };
  await Promise.all(Array.from({ length: 20 }, send));
  expect(seen).toEqual(new Set(['250', 200]));
});

/** Starts a gateway on the database behind the proxy. */
async function start(processes: number): Promise<PosternProcess> {
  const sink = await FaultSink.start();
  onTestFinished(() => sink.close());
  const settings = relaySettings(sink, proxy.url(url));
  const postern = await startPostern({ ...settings, config: { ...settings.config, processes }, startSeconds: 60 });
  onTestFinished(async () => {
    await postern.end('SIGKILL');
    rmSync(postern.folder, { recursive: true, force: true });
  });
  await expect.poll(() => readyStatus(postern)).toBe(200);
  return postern;
}

/** A session that has sent MAIL: the next thing is a recipient. */
async function session(postern: PosternProcess): Promise<RawSmtpClient> {
  const client = await connectSmtp(postern.ports['devices'] ?? 0);
  onTestFinished(() => client.close());
  await client.reply();
  await client.command('EHLO test.example');
  expect((await client.command('MAIL FROM:<a@example.com>')).code).toBe(250);
  return client;
}

/** Has the gateway open several connections for the accounts, which stay open for some seconds. */
async function openConnections({ ports }: PosternProcess): Promise<void> {
  const list = (): Promise<Response> =>
    fetch(`http://127.0.0.1:${ports['http']}/client/v4/accounts/dev/email/sending/suppressions`, {
      headers: { authorization: `Bearer ${testToken}` },
    });
  await Promise.all(Array.from({ length: 12 }, list));
}

/** An account without suppressions is remembered as such for half a second: then its list is asked again. */
async function untilAskedAgain(): Promise<void> {
  await new Promise((wait) => setTimeout(wait, 700));
}

async function statuses(postern: PosternProcess): Promise<ReadonlySet<number>> {
  return new Set(await Promise.all(Array.from({ length: 12 }, () => readyStatus(postern))));
}

test.each([1, 2])(
  'a sender hears 451 for the connection of the accounts: %i processes say 503 at once, and as long',
  {
    timeout: 90_000,
  },
  async (processes) => {
    await startProxy();
    const postern = await start(processes);
    const [client, other] = [await session(postern), await session(postern)];
    expect((await other.command('RCPT TO:<b@one.test>')).code).toBe(250);
    await untilAskedAgain();
    // From now on nobody is let in. The connections of the spool work on, and know of nothing.
    proxy.refusesNew = true;
    proxy.cutAt(ofSenders);
    expect((await client.command('RCPT TO:<b@one.test>')).code).toBe(451);
    expect(await statuses(postern)).toEqual(new Set([503]));
    expect((await readNumbers(postern)).get('postern_spool_takes_mail')).toBe(0);
    // A second and a half has looks of both kinds.
    const seen = new Set<number>();
    for (let turn = 0; turn < 30; turn += 1) {
      seen.add(await readyStatus(postern));
      await new Promise((wait) => setTimeout(wait, 50));
    }
    expect(seen).toEqual(new Set([503]));
    // The session may be with the other process, which nothing keeps from taking mail.
    if (processes === 1) expect((await other.command('DATA')).code).toBe(451);
    proxy.cutAt(undefined);
    proxy.refusesNew = false;
    await expect.poll(() => readyStatus(postern), { timeout: 15_000, interval: 20 }).toBe(200);
    expect((await client.command('RCPT TO:<b@one.test>')).code).toBe(250);
    expect((await session(postern).then((next) => next.command('RCPT TO:<b@one.test>'))).code).toBe(250);
  },
);

test('a look that began before a sender heard 451 does not make the gateway ready', { timeout: 60_000 }, async () => {
  await startProxy();
  const postern = await start(1);
  const [first, second] = [await session(postern), await session(postern)];
  await openConnections(postern);
  await untilAskedAgain();
  proxy.cutAt(ofSenders);
  proxy.keepBack(look);
  expect((await first.command('RCPT TO:<b@one.test>')).code).toBe(451);
  await until(() => proxy.keptBack > 0);
  expect((await second.command('RCPT TO:<b@one.test>')).code).toBe(451);
  proxy.cutAt(undefined);
  const before = proxy.keptBack;
  proxy.passOn();
  const seen = new Set<number>();
  while (proxy.keptBack === before) {
    seen.add(await readyStatus(postern));
    await new Promise((wait) => setTimeout(wait, 5));
  }
  expect(seen).toEqual(new Set([503]));
  proxy.keepBack(() => false);
  proxy.passOn();
  await expect.poll(() => readyStatus(postern), { timeout: 15_000, interval: 20 }).toBe(200);
});
