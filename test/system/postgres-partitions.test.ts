// Events and the journal in partitions of PostgreSQL: made ahead, dropped as a whole beside accepts, and never in mail's way.

import pg from 'pg';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { type Clock, systemClock } from '../../src/base/clock.ts';
import type { Migrations } from '../../src/base/database/database.ts';
import { openPostgres } from '../../src/base/database/postgres-database.ts';
import { partitionsOf } from '../../src/base/database/postgres-migrations.ts';
import { uuidv7 } from '../../src/base/ids.ts';
import { defaultEventLimits } from '../../src/spool/events/event-store.ts';
import type { Journal, JournalLimits } from '../../src/spool/journal/journal.ts';
import { openPostgresJournal } from '../../src/spool/journal/store/postgres-journal-store.ts';
import { journalMigrations } from '../../src/spool/journal/writer/journal-tables.ts';
import { postgresSpoolMigrations } from '../../src/spool/postgres/postgres-schema.ts';
import { PostgresSpool } from '../../src/spool/postgres/postgres-spool.ts';
import type { PostgresSpoolOptions } from '../../src/spool/postgres/spool-parts.ts';
import type { SpoolEntry } from '../../src/spool/spool.ts';
import { eventsContract } from '../contract/events.ts';
import { journalContract } from '../contract/journal.ts';
import { type PostgresServer, startPostgres } from '../support/postgres.ts';
import { attemptOf, spoolEntry } from '../support/spool-entry.ts';
import { createSpoolTables } from '../support/spool-tables.ts';
import { requirePrograms } from './programs.ts';

let server: PostgresServer;
beforeAll(async () => {
  requirePrograms('runuser', 'pg_ctlcluster');
  server = await startPostgres();
});
afterAll(() => server?.remove());

const dayMs = 86_400_000;
const waiting = { timeout: 20_000, interval: 50 };
const details = { content: 'full', fields: [], verdicts: '', timings: {}, maxBodyOctets: 262_144 } as const;

async function open(url: string, options: Partial<PostgresSpoolOptions> = {}): Promise<PostgresSpool> {
  const spool = await PostgresSpool.open({ url, ...options });
  onTestFinished(() => spool.close());
  return spool;
}

async function openJournal(url: string, limits: Partial<JournalLimits> = {}): Promise<Journal> {
  const all = { keepDays: 30, maxOctets: 1e9, refusals: 1000, copies: 1000, ...limits };
  const journal = openPostgresJournal(await openPostgres({ url, connections: 2 }), all);
  onTestFinished(() => journal.close());
  return journal;
}

async function beside(url: string): Promise<pg.Client> {
  const client = new pg.Client(url);
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

function entry(changes: Partial<SpoolEntry> = {}): SpoolEntry {
  const now = changes.acceptedAt ?? Date.now();
  return spoolEntry({ acceptedAt: now, expiresAt: now + 3_600_000, journal: details, ...changes });
}

async function names(client: pg.Client, table: string): Promise<readonly string[]> {
  const found = await partitionsOf(async (sql, values) => (await client.query(sql, [...(values ?? [])])).rows, table);
  return found.map(({ name }) => name);
}

/** The day that a partition of the journal is named by. */
function dayOf(at: number): string {
  return new Date(at).toISOString().slice(0, 10).replaceAll('-', '');
}

/** Where the rows of a table are, by partition. */
async function places(client: pg.Client, table: string): Promise<Record<string, number>> {
  const { rows } = await client.query<{ name: string; rows: number }>(
    `SELECT tableoid::regclass::text AS name, count(*)::integer AS rows FROM ${table} GROUP BY 1 ORDER BY 1`,
  );
  return Object.fromEntries(rows.map(({ name, rows: count }) => [name, count]));
}

/** Writes events that are older than any limit of the tests, with one key each: two of three of one account. */
async function fillOld(client: pg.Client, count: number): Promise<void> {
  const at = Date.now() - 400 * dayMs;
  const event = `'{"kind":"delivered","at":1,"account":"dev","queueId":"q","recipient":"r@example.org","sessionId":"s"}'`;
  await client.query(`INSERT INTO mail_events SELECT n, ${at} + n, CASE WHEN n % 3 = 0 THEN 'shop' ELSE 'dev' END, 0, 'delivered',
    'q' || n, ${event} FROM generate_series(1, ${count}) n;
    INSERT INTO mail_event_keys SELECT n, n FROM generate_series(1, ${count}) n;
    INSERT INTO mail_event_counts SELECT account, share, count(*) FROM mail_events GROUP BY 1, 2;
    UPDATE spool_state SET last_event = ${count}`);
}

/** What the counters say, where it is not what there is. */
const wrongCounts = `SELECT * FROM (SELECT account, share, count(*) AS events FROM mail_events GROUP BY 1, 2) AS real
  FULL JOIN mail_event_counts AS counted USING (account, share) WHERE coalesce(real.events, 0) <> coalesce(counted.events, 0)`;

/** Accepts messages until it is told to stop; fails where one is refused. */
function accepting(spools: readonly PostgresSpool[]) {
  const state = { isOver: false };
  const accepted: string[] = [];
  const all = spools.map(async (spool) => {
    while (!state.isOver) {
      const one = entry();
      await spool.add(one, Date.now() + 60_000);
      accepted.push(one.id);
    }
  });
  return {
    accepted,
    async stop(): Promise<void> {
      state.isOver = true;
      await Promise.all(all);
    },
  };
}

test('partitions are there before their time, made once by gateways that start together, and rows are in their own', async () => {
  const url = await server.createSchema();
  const spools = await Promise.all(Array.from({ length: 3 }, () => open(url)));
  const client = await beside(url);
  const now = Date.now();
  await Promise.all(spools.map((spool) => spool.add(entry(), now + 60_000)));
  const days = [-1, 0, 1, 2, 3].map((day) => dayOf(now + day * dayMs));
  await expect
    .poll(() => names(client, 'journal'), waiting)
    .toEqual(expect.arrayContaining([...days.map((day) => `journal_${day}`), 'journal_default']));
  expect(await names(client, 'journal_content')).toHaveLength((await names(client, 'journal')).length);
  await expect
    .poll(() => names(client, 'mail_events'), waiting)
    .toEqual(['mail_events_1', 'mail_events_10001', 'mail_events_default']);
  expect(Object.keys(await places(client, 'mail_events'))).toEqual(['mail_events_1']);
  expect(Object.keys(await places(client, 'journal'))).toEqual([`journal_${days[1]}`]);
});

test('old partitions go while mail is accepted: none is refused, none is lost, and the counters are exact', async () => {
  const url = await server.createSchema();
  await (await open(url)).close();
  const client = await beside(url);
  await fillOld(client, 25_000);
  const eventLimits = { ...defaultEventLimits, ageMilliseconds: dayMs };
  const spools = await Promise.all([open(url, { eventLimits }), open(url, { eventLimits })]);
  const load = accepting(spools);
  const old = 'SELECT count(*)::integer AS old FROM mail_events WHERE id <= 25000';
  await expect.poll(async () => (await client.query(old)).rows, waiting).toEqual([{ old: 0 }]);
  const removed = 'SELECT count(*)::integer AS left FROM mail_event_removals';
  await expect.poll(async () => (await client.query(removed)).rows, waiting).toEqual([{ left: 0 }]);
  await load.stop();
  expect(load.accepted.length).toBeGreaterThan(10);
  expect(await names(client, 'mail_events')).not.toContain('mail_events_1');
  expect((await client.query(wrongCounts)).rows).toEqual([]);
  const kept = await client.query<{ id: string }>('SELECT id::text FROM spool_messages');
  expect(new Set(kept.rows.map(({ id }) => id))).toEqual(new Set(load.accepted));
  expect((await client.query('SELECT * FROM mail_event_keys WHERE event <= 10000')).rows).toEqual([]);
});

test('a partition whose gateway ended before its events were counted off is finished by the next', async () => {
  const url = await server.createSchema();
  await (await open(url)).close();
  const client = await beside(url);
  await fillOld(client, 12_000);
  await client.query(`ALTER TABLE mail_events DETACH PARTITION mail_events_1;
    ALTER TABLE mail_event_keys DETACH PARTITION mail_event_keys_1; INSERT INTO mail_event_removals VALUES ('1')`);
  const limits = { ...defaultEventLimits, mail: 100 };
  const spool = await open(url, { eventLimits: { ...limits, ageMilliseconds: 500 * dayMs } });
  await spool.recover();
  expect((await client.query("SELECT to_regclass('mail_events_1') AS gone")).rows).toEqual([{ gone: null }]);
  await expect
    .poll(async () => (await client.query('SELECT events::integer FROM mail_event_counts ORDER BY 1')).rows, waiting)
    .toEqual([{ events: 100 }, { events: 100 }]);
  expect((await client.query(wrongCounts)).rows).toEqual([]);
});

test('who holds the tables keeps no mail waiting, and partitions go once they are free', async () => {
  const url = await server.createSchema();
  await (await open(url)).close();
  const client = await beside(url);
  await fillOld(client, 20_000);
  await client.query('BEGIN; LOCK TABLE mail_events, journal IN ACCESS SHARE MODE');
  const eventLimits = { ...defaultEventLimits, ageMilliseconds: dayMs };
  const lines: string[] = [];
  const log = { warn: (_: unknown, line: string) => void lines.push(line), info() {}, error() {}, debug() {} };
  const spool = await open(url, { eventLimits, log: log as never });
  const load = accepting([spool]);
  await expect.poll(() => load.accepted.length, waiting).toBeGreaterThan(100);
  await load.stop();
  expect(lines).toContain('partitions could not be changed');
  await client.query('ROLLBACK');
  await (await open(url, { eventLimits })).recover();
  await expect.poll(() => names(client, 'mail_events'), waiting).not.toContain('mail_events_1');
  expect((await client.query(wrongCounts)).rows).toEqual([]);
});

test('what has no partition is kept and found, and those that come next stand in partitions again', async () => {
  const url = await server.createSchema();
  const spool = await open(url);
  const client = await beside(url);
  await client.query('UPDATE spool_state SET last_event = 5000000');
  const first = entry();
  await spool.add(first, Date.now() + 60_000);
  await expect
    .poll(async () => {
      await spool.add(entry(), Date.now() + 60_000);
      return Object.keys(await places(client, 'mail_events'));
    }, waiting)
    .toEqual([expect.stringMatching(/^mail_events_50\d+$/), 'mail_events_default']);
  const { events } = await spool.events.read({ after: 0, limit: 1, message: first.id });
  expect(events).toMatchObject([{ id: 5_000_001, queueId: first.id }]);
  const found = await spool.events.search({
    account: 'dev',
    order: 'newest',
    limit: 1000,
    recipient: 'bob@example.org',
  });
  expect(found.events.at(-1)?.id).toBe(5_000_001);
  const all = await spool.events.read({ after: 0, limit: 1000 });
  expect(all.events.map(({ id }) => id)).toEqual(found.events.map(({ id }) => id).toReversed());
});

test('a clock that jumps a year ahead and back refuses no mail and takes nothing from the journal', async () => {
  const url = await server.createSchema();
  let ahead = 0;
  const clock: Clock = { now: () => systemClock.now() + ahead, monotonic: () => systemClock.monotonic() };
  const spool = await open(url, { clock });
  const journal = await openJournal(url);
  const added: SpoolEntry[] = [];
  for (const years of [0, 1, -1, 0]) {
    ahead = years * 365 * dayMs;
    const one = entry({ acceptedAt: clock.now() });
    await spool.add(one, clock.now() + 60_000);
    await spool.record([attemptOf(one, { kind: 'delivered', reply: { code: 250, text: 'ok' }, host: 'h' })]);
    added.push(one);
    while (await journal.tend(clock.now()));
  }
  // What says itself that it is a year old goes; the others stay, whatever the clock said meanwhile.
  const kept = added.filter((_, at) => at !== 2).map(({ id }) => id);
  const { items } = await journal.list({ limit: 10 });
  expect(items.map(({ id }) => id)).toEqual(expect.arrayContaining(kept));
  expect(items.every(({ outcome }) => outcome === 'delivered')).toBe(true);
  expect(await spool.events.newest()).toBe(8);
});

test("a server's clock that is set a year ahead makes no event old, and a gateway that starts then takes its own", async () => {
  const url = await server.createSchema();
  let ahead = 0;
  const serverTime = (): number => Date.now() + ahead;
  const eventLimits = { ...defaultEventLimits, ageMilliseconds: 30 * dayMs };
  const spool = await open(url, { serverTime, eventLimits });
  const client = await beside(url);
  await fillOld(client, 12_000);
  await client.query(`UPDATE mail_events SET at = ${Date.now()} - 12000 + id`);
  ahead = 365 * dayMs;
  // Both look for what is old a second later, and each then.
  await open(url, { serverTime, eventLimits });
  await new Promise((wait) => setTimeout(wait, 2500));
  await spool.recover();
  await spool.add(entry(), Date.now() + 60_000);
  await spool.events.newest();
  expect((await client.query('SELECT count(*)::integer AS events FROM mail_events')).rows).toEqual([
    { events: 12_001 },
  ]);
});

/** The migrations as they were before partitions. */
function before({ owner, steps, postgres = [] }: Migrations, version: number): Migrations {
  return { owner, steps, postgres: postgres.slice(0, version) };
}

test('events from before there were partitions, and rows of the journal in none, are found, changed, numbered on and removed', async () => {
  const url = await server.createSchema();
  const database = await openPostgres({ url });
  await database.migrate(before(postgresSpoolMigrations, 3));
  await database.close();
  const client = await beside(url);
  await fillOld(client, 1000);
  await client.query(`UPDATE mail_events SET at = ${Date.now()} WHERE id > 500`);
  const spool = await open(url, { eventLimits: { ...defaultEventLimits, ageMilliseconds: dayMs } });
  // Days of which there is no partition.
  const old = Array.from({ length: 20 }, (_, at) => uuidv7(Date.now() - (20 - at) * dayMs));
  for (const [at, id] of old.entries()) {
    const facts = JSON.stringify({ recipients: [], count: 1 });
    await client.query(
      `INSERT INTO journal (id, at, account, outcome, waiting, octets, facts, more, keys, words)
       VALUES ($1, $2, 'dev', 1, 1, 3, $3, '{}', ' ', ' ')`,
      [id, Date.now() - (20 - at) * dayMs, facts],
    );
  }
  await client.query("INSERT INTO journal_content SELECT 0, 0, NULL, NULL, NULL, '\\x616263', id FROM journal");
  const journal = await openJournal(url, { keepDays: 15 });
  expect(Object.keys(await places(client, 'mail_events'))).toEqual(['mail_events_before']);
  const one = entry();
  await spool.add(one, Date.now() + 60_000);
  const [newest, next] = (await journal.list({ limit: 30 })).items;
  expect([newest?.id, newest?.seq, next?.id, next?.seq]).toEqual([one.id, 21, old[19], 20]);
  expect((await journal.content(20))?.sentBody?.toString()).toBe('abc');
  expect((await journal.content(21))?.sentBody).toEqual(one.body);
  const answer = { kind: 'delivered', reply: { code: 250, text: 'ok' }, host: 'h' } as const;
  await spool.record([attemptOf(one, answer), attemptOf({ ...one, id: old[19] ?? '' }, answer)]);
  expect((await journal.rows([old[19] ?? '', one.id])).map(({ outcome }) => outcome)).toEqual([
    'delivered',
    'delivered',
  ]);
  while (await journal.tend(Date.now()));
  expect((await journal.list({ limit: 30 })).items).toHaveLength(15);
  expect((await client.query('SELECT * FROM journal_content')).rows).toHaveLength(15);
  await spool.recover();
  expect((await spool.events.read({ after: 0, limit: 1 })).events).toMatchObject([{ id: 501 }]);
  expect((await client.query(wrongCounts)).rows).toEqual([]);
});

test('journal tables of a form that no release has written are refused where they have rows, and stay', async () => {
  const url = await server.createSchema();
  const database = await openPostgres({ url });
  onTestFinished(() => database.close());
  await database.migrate(before(journalMigrations, 1));
  const client = await beside(url);
  const row = "'id', 0, 'dev', 1, 1, 3, '{}', '{}', ' ', ' '";
  await client.query(
    `INSERT INTO journal (id, at, account, outcome, waiting, octets, facts, more, keys, words) VALUES (${row})`,
  );
  await expect(database.migrate(journalMigrations)).rejects.toThrow('no_release_has_rows_here');
  expect((await client.query('SELECT id FROM journal')).rows).toEqual([{ id: 'id' }]);
});

test('content over the limit goes row by row, the oldest first, through the partitions', async () => {
  const url = await server.createSchema();
  const spool = await open(url);
  const journal = await openJournal(url, { maxOctets: 250 });
  const client = await beside(url);
  const now = Date.now();
  for (const at of [now - dayMs, now - dayMs, now, now, now]) await spool.add(entry({ acceptedAt: at }), now + 60_000);
  expect(Object.values(await places(client, 'journal_content'))).toEqual([2, 3]);
  while (await journal.tend(now));
  const left = await places(client, 'journal_content');
  expect(left).toEqual({ [`journal_content_${dayOf(now)}`]: 2 });
  expect((await journal.list({ limit: 10 })).items).toHaveLength(5);
});

test('a list goes through the partitions in the order of the rows, also where one is dropped meanwhile', async () => {
  const url = await server.createSchema();
  const spool = await open(url);
  const journal = await openJournal(url);
  const client = await beside(url);
  const now = Date.now();
  const added: string[] = [];
  for (const days of [40, 1, 1, 0, 1, 0]) {
    const one = entry({ acceptedAt: now - days * dayMs });
    await spool.add(one, now + 60_000);
    added.push(one.id);
  }
  const all = async (): Promise<readonly string[]> => {
    const found: string[] = [];
    for (let cursor: number | undefined, isFirst = true; isFirst || cursor !== undefined; isFirst = false) {
      const page = await journal.list({ limit: 2, account: 'dev', cursor });
      found.push(...page.items.map(({ id }) => id));
      cursor = page.next;
    }
    return found;
  };
  expect(await all()).toEqual(added.toReversed());
  const last = entry();
  await spool.add(last, now + 60_000);
  expect(await all()).toEqual([...added, last.id].toReversed());
  expect((await journal.list({ limit: 9, until: now - 20 * dayMs })).items.map(({ id }) => id)).toEqual([added[0]]);
  await client.query(`DROP TABLE journal_${dayOf(now - dayMs)}, journal_content_${dayOf(now - dayMs)}`);
  expect(await all()).toEqual([last.id, added[5], added[3], added[0]]);
});

describe('a server without partitions', () => {
  let url = '';
  const opened = (clock: Clock, changes: Partial<PostgresSpoolOptions> = {}) =>
    PostgresSpool.open({ url, clock, serverTime: () => clock.monotonic(), ...changes });

  test('keeps its tables whole', async () => {
    url = `${await server.createSchema()}${encodeURIComponent(' -c postern.partitions=off')}`;
    await open(url);
    const client = await beside(url);
    expect([await names(client, 'mail_events'), await names(client, 'journal')]).toEqual([[], []]);
  });

  eventsContract('PostgreSQL without partitions', {
    open: async (clock, limits) => {
      url = await createSpoolTables(server, true);
      return await opened(clock, { eventLimits: limits });
    },
    another: (clock) => opened(clock),
    clean: async () => undefined,
  });
  journalContract('PostgreSQL without partitions', {
    open: async (clock, limits, options) => {
      url = await createSpoolTables(server, true);
      const journal = openPostgresJournal(await openPostgres({ url, connections: 2 }), limits);
      return { spool: await opened(clock, options), journal };
    },
    clean: async () => undefined,
  });
});
