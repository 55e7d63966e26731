// The connection breaks while a transaction is being committed, so that the spool does not hear whether it was kept: what the
// sender is told in the end is what is done.

import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { Unavailable } from '../../src/base/errors.ts';
import { silentLog } from '../../src/base/log.ts';
import { Delivery } from '../../src/delivery/delivery.ts';
import type { SmarthostRoute } from '../../src/delivery/settings.ts';
import { PostgresSpool } from '../../src/spool/postgres/postgres-spool.ts';
import type { SpoolEntry } from '../../src/spool/spool.ts';
import { claimAny } from '../support/claim-any.ts';
import { FaultSink } from '../support/fault-sink.ts';
import { ask } from '../support/gateway-load.ts';
import { logLines } from '../support/log-lines.ts';
import { type PostgresServer, startPostgres } from '../support/postgres.ts';
import { type Moment, type PostgresCuts, startPostgresCuts } from '../support/postgres-cuts.ts';
import { countsOf } from '../support/spool-counts.ts';
import { attemptOf, spoolEntry } from '../support/spool-entry.ts';
import { requirePrograms } from './programs.ts';

let server: PostgresServer;
beforeAll(async () => {
  requirePrograms('runuser', 'pg_ctlcluster');
  server = await startPostgres();
});
afterAll(() => server?.remove());

const hour = 3_600_000;
const retry = { firstDelaySeconds: 60, maxDelaySeconds: 3600, jitter: 0.2, expireAfterSeconds: 86_400 };
const patience = { timeout: 20_000 };

function relayTo(port: number): SmarthostRoute {
  const smarthost = { type: 'smarthost', host: '127.0.0.1', port, tls: 'none', tlsVerify: false } as const;
  return { name: 'sink', ...smarthost, connections: 2, platformSignature: true };
}

interface Doubtful {
  readonly spool: PostgresSpool;
  readonly proxy: PostgresCuts;
  /** Asks the server, without the proxy. */
  rows(sql: string): Promise<readonly Record<string, unknown>[]>;
  readonly lines: readonly Record<string, unknown>[];
}

/** A spool behind a proxy. @param doubtMs how long a sender waits to hear what became of a message */
async function start(doubtMs: number): Promise<Doubtful> {
  const direct = await server.createSchema();
  const proxy = await startPostgresCuts(server);
  const { log, lines } = logLines();
  const spool = await PostgresSpool.open({ url: proxy.url(direct), doubtMs, log });
  onTestFinished(() => spool.close());
  // The first write of a process also enters it.
  await spool.postpone({ transport: 'out', account: 'dev' }, 0);
  return { spool, proxy, rows: (sql) => ask(direct, sql), lines };
}

const entry = (changes: Partial<SpoolEntry> = {}): SpoolEntry => spoolEntry({ acceptedAt: Date.now(), ...changes });
const recipients = 'SELECT message, state, claimed_by FROM spool_recipients';
const kinds = "SELECT event::json ->> 'kind' AS kind FROM mail_events ORDER BY id";

/** Adds a message and has the connection cut at a moment. @returns the answer, still under way */
async function addAndCut({ spool, proxy }: Doubtful, one: SpoolEntry, moment: Moment) {
  const cut = proxy.cutAt(moment);
  const answer = spool.add(one, Date.now() + hour);
  answer.catch(() => undefined);
  await cut;
  return answer.then(
    () => 'taken',
    (thrown: unknown) => (thrown instanceof Unavailable ? 'refused' : thrown),
  );
}

test('a message that was kept is taken, although the answer to its commit was lost', patience, async () => {
  const doubtful = await start(20_000);
  const answer = addAndCut(doubtful, entry(), 'answer to COMMIT');
  await expect.poll(() => doubtful.rows(recipients)).toHaveLength(1);
  doubtful.proxy.open();
  expect(await answer).toBe('taken');
  expect(await countsOf(doubtful.spool)).toEqual({ queued: 1, failed: 0 });
});

test('a message that never came to the server is refused, and nothing of it is kept', patience, async () => {
  const doubtful = await start(20_000);
  const answer = addAndCut(doubtful, entry(), 'question');
  setTimeout(() => doubtful.proxy.open(), 500);
  expect(await answer).toBe('refused');
  expect(await doubtful.rows(recipients)).toEqual([]);
  await expect.poll(() => doubtful.spool.unavailable).toBeUndefined();
  await doubtful.spool.add(entry(), Date.now() + hour);
});

test(
  'a message that was kept although its sender heard otherwise is removed as soon as the server answers',
  patience,
  async () => {
    const doubtful = await start(300);
    expect(await addAndCut(doubtful, entry(), 'answer to COMMIT')).toBe('refused');
    expect(await doubtful.rows(recipients)).toHaveLength(1);
    doubtful.proxy.open();
    await expect.poll(() => doubtful.rows(recipients)).toEqual([]);
    await expect
      .poll(async () => (await doubtful.rows(kinds)).map(({ kind }) => kind))
      .toEqual(['accepted', 'dropped']);
    const told = () => doubtful.lines.filter(({ msg }) => String(msg).startsWith('removed what was kept'));
    await expect.poll(told).toMatchObject([{ messages: 1 }]);
    expect(await countsOf(doubtful.spool)).toEqual({ queued: 0, failed: 0 });
  },
);

test('so it is when the gateway ends meanwhile, and when others have taken it for dead', patience, async () => {
  for (const meanwhile of ['SELECT 1', 'DELETE FROM spool_processes']) {
    const doubtful = await start(300);
    expect(await addAndCut(doubtful, entry(), 'answer to COMMIT')).toBe('refused');
    await doubtful.rows(meanwhile);
    doubtful.proxy.open();
    await doubtful.spool.close();
    expect(await doubtful.rows(recipients)).toEqual([]);
  }
});

test('a message that is not kept is not said to be kept by one whom the others took for dead', patience, async () => {
  const doubtful = await start(20_000);
  const answer = addAndCut(doubtful, entry(), 'question');
  await doubtful.rows('DELETE FROM spool_processes');
  doubtful.proxy.open();
  expect(await answer).toBe('refused');
  expect(await doubtful.rows(recipients)).toEqual([]);
});

test('with an Idempotency-Key it stays and leaves at once: handed in again it is known', patience, async () => {
  const doubtful = await start(300);
  const one = entry({ idempotency: { key: 'k', digest: 'd' } });
  expect(await addAndCut(doubtful, one, 'answer to COMMIT')).toBe('refused');
  doubtful.proxy.open();
  await expect.poll(() => doubtful.rows(recipients)).toEqual([{ message: one.id, state: 0, claimed_by: null }]);
  await expect.poll(() => doubtful.spool.unavailable).toBeUndefined();
  expect(await doubtful.spool.usedKey('dev', 'k')).toMatchObject({ digest: 'd' });
  const query = { now: Date.now() + 1000, limit: 5, claimUntil: Date.now() + hour };
  expect((await claimAny(doubtful.spool, query)).map(({ entry: { id } }) => id)).toEqual([one.id]);
});

test.each([
  ['delivered', 1],
  ['deferred', 0],
  ['failed', 2],
] as const)('that one is %s is written once, although its commit was not heard of', patience, async (kind, state) => {
  const doubtful = await start(300);
  const one = entry({ recipients: ['a@example.org', 'b@example.org'] });
  await doubtful.spool.add(one, Date.now() + hour);
  const reply = { code: kind === 'delivered' ? 250 : 450, text: 'so' };
  const more = { recipient: 'a@example.org', nextAttemptAt: Date.now() + hour };
  const outcome = attemptOf(one, { kind, reply, host: 'sink' }, more);
  const cut = doubtful.proxy.cutAt('answer to COMMIT');
  const recorded = doubtful.spool.record([outcome]);
  recorded.catch(() => undefined);
  await cut;
  await expect(recorded).rejects.toThrow(Unavailable);
  doubtful.proxy.open();
  await expect.poll(() => doubtful.spool.unavailable).toBeUndefined();
  await doubtful.spool.record([outcome]);
  expect(await doubtful.rows('SELECT state, attempts FROM spool_recipients ORDER BY position')).toEqual([
    { state, attempts: 1 },
    { state: 0, attempts: 0 },
  ]);
  await expect.poll(async () => (await doubtful.rows(kinds)).map((row) => row['kind'])).toEqual(['accepted', kind]);
});

test.each(['answer to a claim', 'commit of a claim'] as const)(
  'what was claimed when the connection broke at the %s is delivered once, as soon as the server answers',
  patience,
  async (moment) => {
    const doubtful = await start(300);
    const sink = await FaultSink.start();
    onTestFinished(() => sink.close());
    const delivery = new Delivery({
      spool: doubtful.spool,
      settings: { hostname: 'gateway.test', routes: [relayTo(sink.port)], retry },
      clock: systemClock,
      log: silentLog,
    });
    onTestFinished(() => delivery.drain(0));
    const one = entry({ recipients: ['a@example.org', 'b@example.org'] });
    await doubtful.spool.add(one, Date.now() + hour);
    await doubtful.spool.release(one.id, one.recipients);
    const cut = doubtful.proxy.cutAt(moment);
    await delivery.start({ takesOver: false });
    await cut;
    setTimeout(() => doubtful.proxy.open(), 500);
    await expect.poll(() => doubtful.rows(recipients), { timeout: 15_000 }).toEqual([]);
    expect(sink.messages).toHaveLength(1);
  },
);

test('one whom the others took for dead claims under a new number', patience, async () => {
  const doubtful = await start(300);
  const { spool } = doubtful;
  const one = entry();
  await spool.add(one, Date.now() + hour);
  await spool.release(one.id, one.recipients);
  await doubtful.rows('DELETE FROM spool_processes');
  const query = { now: Date.now() + 1000, limit: 5, claimUntil: Date.now() + hour };
  expect(await claimAny(spool, query)).toHaveLength(1);
  expect(await doubtful.rows('SELECT claimed_by FROM spool_recipients')).toEqual(
    await doubtful.rows('SELECT id AS claimed_by FROM spool_processes'),
  );
});
