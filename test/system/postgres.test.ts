// PostgreSQL under the contract of engines, and what belongs to a server: restarts, a standby, other programs' locks.

import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import type { Database } from '../../src/base/database/database.ts';
import { openPostgres } from '../../src/base/database/postgres-database.ts';
import { Unavailable } from '../../src/base/errors.ts';
import { feedbackMigrations } from '../../src/delivery/feedback/suppress-by-events.ts';
import { openStsStore } from '../../src/delivery/mx/sts-policy.ts';
import { openTlsReportStore } from '../../src/delivery/tls-report/tls-report-store.ts';
import { LeaseStore } from '../../src/delivery/webhooks/lease-store.ts';
import { openWebhookStore } from '../../src/delivery/webhooks/webhook-store.ts';
import { openApplicationStore } from '../../src/proxy/store/application-store.ts';
import { applicationsContract } from '../contract/applications.ts';
import { customErrorsContract } from '../contract/custom-errors.ts';
import { databaseContract } from '../contract/database.ts';
import { figuresContract } from '../contract/figures.ts';
import { limitsContract } from '../contract/limits.ts';
import { migrationsContract } from '../contract/migrations.ts';
import { sessionsContract } from '../contract/sessions.ts';
import { sharesContract } from '../contract/shares.ts';
import { suppressionsContract } from '../contract/suppressions.ts';
import { tokensContract } from '../contract/tokens.ts';
import { webhooksContract } from '../contract/webhooks.ts';
import type { Engine } from '../support/engines.ts';
import { type PostgresServer, startPostgres } from '../support/postgres.ts';
import { requirePrograms } from './programs.ts';

let server: PostgresServer;
beforeAll(async () => {
  requirePrograms('runuser', 'pg_ctlcluster');
  server = await startPostgres();
});
afterAll(() => server?.remove());

/** Opens a database that is closed when the test ends. */
async function open(url: string): Promise<Database> {
  const database = await openPostgres({ url });
  onTestFinished(() => database.close());
  return database;
}

const engine: Engine = {
  name: 'PostgreSQL',
  isShared: true,
  make() {
    let url: Promise<string> | undefined;
    return async () => open(await (url ??= server.createSchema()));
  },
  async timed() {
    // The server's own function is found behind this one.
    const database = await open(`${await server.createSchema()},pg_catalog`);
    await database.run('CREATE TABLE set_time AS SELECT 0::bigint AS ms');
    await database.run(`CREATE FUNCTION clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
      $$ SELECT to_timestamp(ms / 1000.0) FROM set_time $$`);
    return { database, setTime: async (ms) => void (await database.run('UPDATE set_time SET ms = $1', [ms])) };
  },
};

databaseContract(engine);
tokensContract(engine);
limitsContract(engine);
suppressionsContract(engine);
customErrorsContract(engine);
webhooksContract(engine);
sessionsContract(engine);
sharesContract(engine);
figuresContract(engine);
migrationsContract({
  ...engine,
  formOf: async (database) => [
    await database.query(
      `SELECT table_name, column_name, data_type, collation_name, is_nullable, column_default FROM information_schema.columns
       WHERE table_schema = current_schema() ORDER BY table_name, ordinal_position`,
    ),
    // The name of the schema is in the definition.
    await database.query(
      `SELECT tablename, replace(indexdef, current_schema() || '.', '') AS indexdef FROM pg_indexes
       WHERE schemaname = current_schema() ORDER BY 1, 2`,
    ),
    await database.query(
      `SELECT tgrelid::regclass::text AS "table", tgname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
       WHERE relnamespace = current_schema()::regnamespace AND NOT tgisinternal ORDER BY 1, 2`,
    ),
  ],
});

let connect = engine.make();
applicationsContract('applications in PostgreSQL', {
  open: async () => {
    connect = engine.make();
    return await openApplicationStore(await connect());
  },
  another: async () => await openApplicationStore(await connect()),
  clean: async () => undefined,
});

test('policies of MTA-STS are kept, replaced, and forgotten when they have expired', async () => {
  const store = await openStsStore(await open(await server.createSchema()));
  const policy = { id: '1', mode: 'enforce', mx: ['mx.a.test', '*.b.test'], maxAge: 100 } as const;
  await store.put('a.test', { policy, fetchedAt: 1_700_000_000_000 });
  await store.put('a.test', { policy: { ...policy, id: '2' }, fetchedAt: 1_700_000_001_000 });
  const kept = { policy: { ...policy, id: '2' }, fetchedAt: 1_700_000_001_000 };
  expect(await store.get('a.test')).toEqual(kept);
  await store.put('b.test', { policy, fetchedAt: 1_700_000_200_000 });
  expect(await store.get('a.test')).toBeUndefined();
});

test('counts of TLS sessions are added up, and their report is claimed once', async () => {
  const store = await openTlsReportStore(await open(await server.createSchema()));
  const kind = {
    ...{ day: '2026-11-20', domain: 'a.test', policyId: 'none', policy: '{}' },
    ...{ result: '', exchanger: 'mx.a.test', address: '192.0.2.1', localAddress: '192.0.2.2', reason: '' },
  };
  const counts = [
    { kind, sessions: 3 },
    { kind: { ...kind, result: 'starttls-not-supported' }, sessions: 2 },
  ];
  const times = () => ({ dueAt: 1_700_000_000_000, giveUpAt: 1_700_100_000_000 });
  for (let round = 0; round < 2; round += 1) await store.add(counts, times);
  expect(await store.isFull()).toBe(false);
  const [due, ...others] = await store.due(1_700_000_000_000, 10);
  if (!due) throw new Error('no report is due');
  expect([due.domain, due.told, others]).toEqual(['a.test', [], []]);
  expect([await store.claim(due, 1_700_000_000_000), await store.claim(due, 1_700_000_000_000)]).toEqual([true, false]);
  // Nor does one whose clock is two hours ahead take it for left.
  expect(await store.due(Date.now() + 2 * 3_600_000, 10)).toEqual([]);
  const { totals, failures } = await store.contents(due);
  expect(totals).toEqual([{ policyId: 'none', policy: '{}', succeeded: 6, failed: 4 }]);
  expect(failures).toMatchObject([{ result: 'starttls-not-supported', sessions: 4 }]);
  await store.putOff(due, 1_700_000_050_000, ['mailto:tls@a.test']);
  expect(await store.due(1_700_000_050_000, 10)).toMatchObject([{ told: ['mailto:tls@a.test'], attempts: 1 }]);
  await store.remove(due);
  expect(await store.due(1_700_000_050_000, 10)).toEqual([]);
});

test('the tables of feedback are made', async () => {
  const database = await open(await server.createSchema());
  await database.migrate(feedbackMigrations);
  await database.migrate(feedbackMigrations);
  expect(await database.query('SELECT version FROM migrations')).toEqual([
    { version: feedbackMigrations.steps.length },
  ]);
});

const numbers = { owner: 'numbers', steps: ['CREATE TABLE numbers (n INTEGER NOT NULL) STRICT'] };
const add = 'INSERT INTO numbers VALUES ($1)';
const count = 'SELECT count(*) AS count FROM numbers';

test('while the server is away requests fail as unavailable, and afterwards they succeed again', async () => {
  const database = await open(await server.createDatabase());
  await database.migrate(numbers);
  await database.run(add, [1]);
  for (const mode of ['fast', 'immediate'] as const) {
    await server.stop(mode);
    await expect(database.run(add, [2])).rejects.toThrow(Unavailable);
    await expect(database.query(count)).rejects.toThrow(Unavailable);
    await expect(database.transaction((one) => one.run(add, [3]))).rejects.toThrow(Unavailable);
    await server.start();
    expect(await database.query(count)).toEqual([{ count: 1 }]);
  }
  await database.transaction((one) => one.run(add, [4]));
  expect(await database.query(count)).toEqual([{ count: 2 }]);
});

test('a restart in the middle of a transaction undoes it, and its work is told so', async () => {
  const database = await open(await server.createDatabase());
  await database.migrate(numbers);
  const broken = database.transaction(async (one) => {
    await one.run(add, [1]);
    await server.stop('immediate');
    await server.start();
    return await one.run(add, [2]);
  });
  await expect(broken).rejects.toThrow(Unavailable);
  expect(await database.query(count)).toEqual([{ count: 0 }]);
});

test('a transaction that does not end is undone, and holds up the next one no longer', async () => {
  const url = await server.createDatabase();
  const database = await openPostgres({ url, transactionMs: 300 });
  onTestFinished(() => database.close());
  await database.migrate(numbers);
  const never = new Promise<never>(() => undefined);
  const stuck = database.transaction(async (one) => {
    await one.run(add, [1]);
    return await never;
  });
  const next = database.transaction((one) => one.run(add, [2]));
  await expect(stuck).rejects.toThrow('took too long');
  expect(await next).toBe(1);
  expect(await database.query('SELECT n FROM numbers')).toEqual([{ n: 2 }]);
});

test('a transaction is not taken for kept when its work passes over a statement that failed', async () => {
  const database = await open(await server.createDatabase());
  await database.migrate(numbers);
  const careless = database.transaction(async (one) => {
    await one.run(add, [1]);
    await Promise.allSettled([one.run(add, [null])]);
  });
  await expect(careless).rejects.toThrow('had failed');
  expect(await database.query(count)).toEqual([{ count: 0 }]);
});

test('a host whose clock is wrong knows by how much, and small differences do not count', async () => {
  const url = await server.createDatabase();
  const hour = 3_600_000;
  for (const [wrong, told] of [
    [hour, 1],
    [-hour, -1],
    [200, 0],
  ] as const) {
    const database = await openPostgres({ url, now: () => Date.now() + wrong });
    onTestFinished(() => database.close());
    expect(Math.round((await database.aheadMs()) / hour)).toBe(told);
    if (told === 0) expect(await database.aheadMs()).toBe(0);
  }
});

test('a webhook has one lease, whatever the clocks of two hosts show and whenever one of them is set', async () => {
  const connect = engine.make();
  const [here, there] = [await connect(), await connect()];
  const webhook = {
    account: 'a1'.repeat(16),
    url: 'https://hooks.example/',
    kinds: undefined,
    note: '',
    secret: 'whsec_one',
  };
  const made = await (await openWebhookStore(here, systemClock)).create(webhook, 7);
  const id = made?.id ?? '';
  const [one, two] = [
    new LeaseStore({ database: here, holder: 'one' }),
    new LeaseStore({ database: there, holder: 'two' }),
  ];
  const now = Date.now();
  const hours = 2 * 3_600_000;
  for (const [first, second] of [
    [now, now + hours],
    [now + hours, now],
  ] as const) {
    expect(await one.lease(id, first)).toBeDefined();
    expect(await two.lease(id, second)).toBeUndefined();
    expect(await two.active(second)).toMatchObject([{ isElsewhere: true, isLeft: false }]);
    // Its own clock is set meanwhile.
    expect([await one.held(id, second), await one.renew(id, second)]).toMatchObject([{ webhook: { id } }, true]);
    expect(await two.lease(id, first)).toBeUndefined();
    await one.release();
    expect(await two.lease(id, second)).toBeDefined();
    await two.release();
  }
});

test('a transaction that the server undid because this process stood still keeps nothing else from being asked', async () => {
  const database = await open(await server.createSchema());
  const late = database.transaction(async (transaction) => {
    await transaction.query("SELECT set_config('idle_in_transaction_session_timeout', '50', true)");
    const [row] = await transaction.query('SELECT pg_backend_pid() AS pid');
    const connections = 'SELECT 1 AS one FROM pg_stat_activity WHERE pid = $1';
    await expect.poll(() => database.query(connections, [Number(row?.['pid'])]), { timeout: 30_000 }).toEqual([]);
    await transaction.query('SELECT 1');
  });
  await expect(late).rejects.toMatchObject({ name: 'Unavailable', cause: { code: '25P03' } });
  expect(database.unavailable).toBeUndefined();
});

test('a step of a migration may take longer than a statement otherwise may', async () => {
  const database = await open(await server.createDatabase());
  const step = "CREATE TABLE limits AS SELECT current_setting('statement_timeout') AS time";
  await database.migrate({ owner: 'limits', steps: [], postgres: [step] });
  expect(await database.query("SELECT time, current_setting('statement_timeout') AS usual FROM limits")).toEqual([
    { time: '1h', usual: '5s' },
  ]);
});

test('a server that would confirm before a change is on disk is refused', async () => {
  const url = await server.createDatabase();
  const database = await open(url);
  const [row] = await database.query('SELECT current_database() AS name');
  await database.run(`ALTER DATABASE ${String(row?.['name'])} SET synchronous_commit = off`);
  await expect(openPostgres({ url })).rejects.toThrow('synchronous_commit is off');
});

test('where nobody listens the error says so', async () => {
  await expect(openPostgres({ url: 'postgres://nobody@127.0.0.1:1/none' })).rejects.toThrow(
    /ECONNREFUSED 127\.0\.0\.1:1/,
  );
});
