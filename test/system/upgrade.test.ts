// A gateway of this release comes up on a PostgreSQL that gateways of older releases work on: they go on, and lose nothing, also when
// it is gone again. The same beside a transaction that only reads, as pg_dump's is.

import pg from 'pg';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { FaultSink } from '../support/fault-sink.ts';
import { freePort } from '../support/free-port.ts';
import { ask, relaySettings, Senders } from '../support/gateway-load.ts';
import { makeOldTables, OldGateways, type OldRelease } from '../support/oldest-gateway.ts';
import { type PosternProcess, startPostern } from '../support/postern-process.ts';
import { type PostgresServer, startPostgres } from '../support/postgres.ts';
import { requirePrograms } from './programs.ts';

vi.setConfig({ testTimeout: 400_000 });

let server: PostgresServer;
let sink: FaultSink;
beforeAll(async () => {
  requirePrograms('runuser', 'pg_ctlcluster');
  server = await startPostgres();
  sink = await FaultSink.start();
});
afterAll(async () => {
  await sink?.close();
  await server?.remove();
});

/** A database of an older release at work. */
async function oldAtWork(release: OldRelease): Promise<{ readonly url: string; readonly oldest: OldGateways }> {
  const url = await makeOldTables(release, server);
  const oldest = OldGateways.start(release, url, 4);
  onTestFinished(() => oldest.stop());
  await vi.waitFor(() => expect(oldest.delivered).toBeGreaterThan(100), { timeout: 30_000 });
  return { url, oldest };
}

/** Waits until the gateways of before have delivered so many more. */
async function goesOn(oldest: OldGateways, messages: number): Promise<void> {
  const before = oldest.delivered;
  await vi.waitFor(() => expect(oldest.delivered).toBeGreaterThan(before + messages), { timeout: 30_000 });
}

async function takesMail(postern: PosternProcess): Promise<void> {
  const senders = new Senders('new');
  const sending = senders.run(() => postern.ports['devices']);
  await postern.until(() => senders.marks((code) => code === 250).length > 20);
  senders.stop();
  await sending;
  expect(senders.marks((code) => code >= 400)).toEqual([]);
}

/** Nothing that was taken is gone but what was delivered. */
async function expectKept(url: string, oldest: OldGateways): Promise<void> {
  const rows = await ask(url, 'SELECT id::text FROM spool_messages');
  const kept = new Set(rows.map(({ id }) => id));
  expect(oldest.taken.filter((id) => kept.has(id))).toHaveLength(oldest.taken.length - oldest.delivered);
}

test.each<OldRelease>(['oldest', 'last'])(
  'comes up beside loaded gateways of the %s release, which go on and lose nothing, also when it leaves',
  async (release) => {
    for (let round = 0; round < 3; round += 1) {
      const { url, oldest } = await oldAtWork(release);
      const postern = await startPostern({ ...relaySettings(sink, url), startSeconds: 120 });
      onTestFinished(() => postern.cleanUp());
      await goesOn(oldest, 100);
      await takesMail(postern);
      // The way back.
      await postern.cleanUp();
      await goesOn(oldest, 100);
      await oldest.stop();
      expect(oldest.failures).toEqual([]);
      await expectKept(url, oldest);
    }
  },
);

test('waits for a transaction that only reads while those of before take mail, answers 503, and comes up after it', async () => {
  const { url, oldest } = await oldAtWork('oldest');
  const dump = new pg.Client(url);
  await dump.connect();
  onTestFinished(() => dump.end().catch(() => undefined));
  await dump.query('BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY');
  const { rows } = await dump.query<{ name: string }>(`SELECT relname AS name FROM pg_class WHERE relkind IN ('r', 'p')
    AND relnamespace = 'public'::regnamespace`);
  await dump.query(`LOCK TABLE ${rows.map(({ name }) => name).join(', ')} IN ACCESS SHARE MODE`);

  const port = await freePort();
  const settings = relaySettings(sink, url);
  const config = { ...settings.config, http: { listen: `127.0.0.1:${port}` } };
  const starting = startPostern({ ...settings, config, startSeconds: 120 });
  onTestFinished(async () => void (await starting.catch(() => undefined))?.cleanUp());
  const statusOf = async (path: string): Promise<number> => (await fetch(`http://127.0.0.1:${port}${path}`)).status;
  await vi.waitFor(async () => expect(await statusOf('/readyz')).toBe(503), { timeout: 30_000, interval: 50 });
  expect(await statusOf('/livez')).toBe(200);
  // It has tried in vain at least once, and again since.
  const waits = `SELECT count(*) AS waits FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'`;
  for (const wanted of [1, 0, 1]) {
    const look = async (): Promise<void> => expect(Number((await ask(url, waits))[0]?.['waits'])).toBe(wanted);
    await vi.waitFor(look, { timeout: 30_000, interval: 10 });
  }
  await goesOn(oldest, 100);
  expect(await statusOf('/readyz')).toBe(503);
  await dump.query('COMMIT');
  const postern = await starting;
  await vi.waitFor(async () => expect(await statusOf('/readyz')).toBe(200), { timeout: 10_000, interval: 50 });
  await goesOn(oldest, 100);
  await takesMail(postern);
  await oldest.stop();
  expect(oldest.failures).toEqual([]);
  await expectKept(url, oldest);
});
