// Two gateways that change the same things at the same moment. A transaction beside them keeps one of them in the middle of its own.

import pg from 'pg';
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest';
import { openPostgres } from '../../src/base/database/postgres-database.ts';
import { uuidv7 } from '../../src/base/ids.ts';
import { openPostgresJournal } from '../../src/spool/journal/store/postgres-journal-store.ts';
import { PostgresSpool } from '../../src/spool/postgres/postgres-spool.ts';
import type { Outcome, SpoolEntry } from '../../src/spool/spool.ts';
import { logLines } from '../support/log-lines.ts';
import { makeOldTables, OldGateways } from '../support/oldest-gateway.ts';
import { type PostgresServer, startPostgres } from '../support/postgres.ts';
import { countsOf } from '../support/spool-counts.ts';
import { attemptOf, spoolEntry } from '../support/spool-entry.ts';
import { requirePrograms } from './programs.ts';

let server: PostgresServer;
let url = '';
beforeAll(async () => {
  requirePrograms('runuser', 'pg_ctlcluster');
  server = await startPostgres();
});
afterAll(() => server?.remove());
// A database of its own, so that nobody else's locks are seen.
beforeEach(async () => void (url = await server.createDatabase()));

const hour = 3_600_000;
const waiting = { timeout: 20_000, interval: 20 };
const hop = { reply: { code: 250, text: 'ok' }, host: 'h' };
const [delivered, failed]: Outcome[] = [
  { kind: 'delivered', ...hop },
  { kind: 'failed', ...hop },
];
const everything = { perMessage: 100, perAddressPerDay: 100, perAccountPerDay: 100, gatherSeconds: 0, delaySeconds: 0 };

type Options = Partial<Parameters<typeof PostgresSpool.open>[0]>;

async function open(options: Options = {}): Promise<PostgresSpool> {
  const spool = await PostgresSpool.open({ url, ...options });
  onTestFinished(() => spool.close());
  return spool;
}

/** A transaction that has run a statement. */
async function hold(sql: string): Promise<pg.Client> {
  const client = new pg.Client(url);
  await client.connect();
  onTestFinished(() => client.end());
  await client.query('BEGIN');
  await client.query(sql);
  return client;
}

type Step = 'retry' | 'drop' | { readonly to: string; readonly outcome: Outcome };
type Steps = Readonly<Record<'failed' | 'delivered' | 'deferred', Exclude<Step, string>>>;

/** What whoever files holds. */
const filing = "SELECT pg_advisory_xact_lock(hashtextextended('postern filing ' || current_schema(), 0))";

/** Resolves once so many others wait for a lock. */
async function untilWaiting(client: pg.Client, count: number): Promise<void> {
  const asked =
    "SELECT count(*)::integer AS n FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
  await expect.poll(async () => (await client.query<{ n: number }>(asked)).rows[0]?.n, waiting).toBe(count);
}

function entry(changes: Partial<SpoolEntry> = {}): SpoolEntry {
  const now = Date.now();
  const reports = { success: false, failure: true, delay: false };
  return spoolEntry({
    id: uuidv7(now),
    acceptedAt: now,
    expiresAt: now + hour,
    transports: ['out'],
    reports,
    ...changes,
  });
}

function outcome(of: SpoolEntry, recipient: string, kind = delivered) {
  if (!kind) throw new Error('no outcome');
  return attemptOf(of, kind, { recipient });
}

test('the last two recipients of a message, one by each: whoever is second finds that nobody is left', async () => {
  const [one, other] = [await open(), await open()];
  const recipients = ['a@example.org', 'b@example.org'];
  const message = entry({ recipients, transports: ['out', 'out'] });
  await one.add(message, Date.now() + hour);
  const client = await hold('SELECT 1 FROM spool_recipients FOR UPDATE');
  const recorded = [one.record([outcome(message, 'a@example.org')]), other.record([outcome(message, 'b@example.org')])];
  await untilWaiting(client, 2);
  await client.query('COMMIT');
  await Promise.all(recorded);
  expect(await client.query('SELECT 1 FROM spool_messages').then(({ rows }) => rows)).toEqual([]);
  // What the other has told is filed within a tenth of a second, by whoever files.
  await expect.poll(() => countsOf(one)).toEqual({ queued: 0, failed: 0 });
});

/** A line with a turn that has come, in which nobody waits. */
async function emptyLine(spool: PostgresSpool): Promise<number> {
  const now = Date.now();
  const first = entry();
  await spool.add(first, now);
  await spool.record([outcome(first, first.recipients[0] ?? '')]);
  return now + 60_000;
}

test('a line ends its turn while another commits a message into it: the message keeps its turn', async () => {
  const [one, other] = [await open(), await open()];
  const later = await emptyLine(one);
  const client = await hold('LOCK TABLE spool_octets IN EXCLUSIVE MODE');
  const adding = one.add(entry(), later);
  await untilWaiting(client, 1);
  const claiming = other.claimDue({ transport: 'out', account: 'dev', now: later, limit: 1, claimUntil: later + hour });
  await Promise.race([claiming, untilWaiting(client, 2)]);
  await client.query('COMMIT');
  await Promise.all([adding, claiming]);
  const line = { transport: 'out', account: 'dev' };
  expect(await other.turns({ transport: 'out', now: later + 1, limit: 9 })).toEqual([line]);
});

test('a line ends its turn while another gives a recipient back: it is due at once', async () => {
  const [one, other] = [await open(), await open()];
  const message = entry();
  const now = Date.now();
  await one.add(message, now + hour);
  const setUp = await hold('UPDATE spool_lines SET ready_at = 0');
  await setUp.query('COMMIT');
  const client = await hold('SELECT 1 FROM spool_recipients FOR UPDATE');
  const releasing = one.release(message.id, message.recipients);
  await untilWaiting(client, 1);
  const claiming = other.claimDue({ transport: 'out', account: 'dev', now, limit: 1, claimUntil: now + hour });
  await Promise.race([claiming, untilWaiting(client, 2)]);
  await client.query('COMMIT');
  await Promise.all([releasing, claiming]);
  expect(await other.turns({ transport: 'out', now: Date.now(), limit: 9 })).toHaveLength(1);
});

test('what is to be reported while another ends the report is reported by a further one', async () => {
  const one = await open({ reportLimits: everything });
  const recipients = ['a@example.org', 'b@example.org'];
  const message = entry({ recipients, transports: ['out', 'out'] });
  await one.add(message, Date.now() + hour);
  await one.record([outcome(message, 'a@example.org', failed)]);
  const client = await hold('DELETE FROM spool_reports');
  const recording = one.record([outcome(message, 'b@example.org', failed)]);
  await untilWaiting(client, 1);
  await client.query('COMMIT');
  await recording;
  const due = await one.reportsDue({ now: Date.now() + hour, limit: 9 });
  expect(due.map((report) => report.recipients.map(({ address }) => address))).toEqual([['b@example.org']]);
});

test('of two reports that are begun at once the limit of the account allows one', async () => {
  const reportLimits = { ...everything, perAccountPerDay: 1 };
  const [one, other] = [await open({ reportLimits }), await open({ reportLimits })];
  const messages = [entry(), entry()];
  for (const message of messages) await one.add(message, Date.now() + hour);
  const client = await hold('LOCK TABLE spool_report_counts IN SHARE MODE');
  const [first, second] = messages.map((message) => outcome(message, message.recipients[0] ?? '', failed));
  if (!first || !second) throw new Error('no messages');
  const recording = [one.record([first]), other.record([second])];
  await untilWaiting(client, 2);
  await client.query('COMMIT');
  await Promise.all(recording);
  expect(await one.reportsDue({ now: Date.now() + hour, limit: 9 })).toHaveLength(1);
  expect(one.unreported + other.unreported).toBe(1);
});

test('one files at a time, and who follows sees everything once and in order', async () => {
  const [one, other] = [await open(), await open()];
  const client = await hold(filing);
  await one.add(entry(), Date.now() + hour);
  expect(await one.events.newest()).toBe(0);
  await client.query('COMMIT');
  const write = async (spool: PostgresSpool): Promise<void> => {
    for (let count = 0; count < 25; count += 1) {
      const message = entry();
      await spool.add(message, Date.now() + hour);
      await spool.record([outcome(message, message.recipients[0] ?? '')]);
    }
  };
  await Promise.all([one, one, other, other].map(write));
  await Promise.all([one.events.newest(), other.events.newest()]);
  const seen: { readonly id: number; readonly kind: string; readonly queueId?: string }[] = [];
  for (let after = 0, isMore = true; isMore; ) {
    const page = await one.events.read({ after, limit: 30 });
    seen.push(...page.events);
    [after, isMore] = [page.next, page.hasMore];
  }
  expect(seen.map(({ id }) => id)).toEqual(Array.from({ length: 201 }, (_, index) => index + 1));
  const kinds = Map.groupBy(seen.slice(1), ({ queueId }) => queueId);
  expect(new Set([...kinds.values()].map((events) => events.map(({ kind }) => kind).join(' ')))).toEqual(
    new Set(['accepted delivered']),
  );
  expect(await countsOf(one)).toEqual({ queued: 1, failed: 0 });
});

test('no message waits for another that is being committed, nor does an outcome', async () => {
  const [one, other] = [await open(), await open()];
  const [before, slow] = [entry(), entry({ keepsClientId: true, clientMessageId: '<a@example.com>' })];
  await one.add(before, Date.now() + hour);
  // It is kept in the middle of its transaction by the last of the tables that it writes to.
  const client = await hold('LOCK TABLE spool_threads IN EXCLUSIVE MODE');
  const adding = one.add(slow, Date.now() + hour);
  await untilWaiting(client, 1);
  for (const spool of [one, other]) await spool.add(entry(), Date.now() + hour);
  await other.record([outcome(before, before.recipients[0] ?? '')]);
  expect((await other.tallies())[0]?.messages.queued).toBe(2);
  await client.query('COMMIT');
  await adding;
  expect((await one.tallies())[0]?.messages.queued).toBe(3);
});

test('what cannot be filed stays where it is and keeps nobody from reading what comes behind it', async () => {
  const { log, lines } = logLines();
  const one = await open({ log });
  const client = await hold(filing);
  await one.add(entry(), Date.now() + hour);
  const damage = await hold("INSERT INTO spool_unfiled (told) VALUES ('\\x0123'), ('')");
  await damage.query('COMMIT');
  await one.add(entry(), Date.now() + hour);
  await client.query('COMMIT');
  await expect.poll(async () => (await eventsFrom(one, 0)).map(({ id }) => id), waiting).toEqual([1, 2]);
  expect(lines.filter(({ msg }) => String(msg).includes('stay in spool_unfiled'))).toHaveLength(2);
  expect((await client.query('SELECT told FROM spool_unfiled')).rowCount).toBe(2);
});

test('beside a gateway of an earlier release whoever writes waits for its turn', async () => {
  const one = await open();
  const earlier = await hold("INSERT INTO spool_processes (name, beats, batch) VALUES ('earlier', 0, 0)");
  await earlier.query('COMMIT');
  const client = await hold('UPDATE spool_state SET last_event = last_event');
  let isKept = false;
  const adding = one.add(entry(), Date.now() + hour).then(() => (isKept = true));
  await untilWaiting(client, 1);
  expect(isKept).toBe(false);
  await client.query('COMMIT');
  await adding;
});

/** What the journal says of a message after some steps: filed one after another, or together behind the last one. */
async function outcomeAfter(spool: PostgresSpool, steps: readonly Step[], isTogether: boolean) {
  const journal = openPostgresJournal(await openPostgres({ url, connections: 2 }), {
    ...{ keepDays: 30, maxOctets: 1e9, refusals: 1000, copies: 1000 },
  });
  const details = { content: 'none', maxBodyOctets: 1, fields: [], verdicts: '', timings: {} } as const;
  const message = entry({
    recipients: ['a@example.org', 'b@example.org'],
    transports: ['out', 'out'],
    journal: details,
  });
  const client = isTogether ? await hold(filing) : undefined;
  await spool.add(message, Date.now() + hour);
  for (const step of steps) {
    if (!client) await journal.find(message.id);
    if (step === 'retry')
      await spool.retryMany([{ id: message.id }], { now: Date.now(), expiresAt: Date.now() + hour });
    else if (step === 'drop') await spool.drop(message.id);
    else await spool.record([attemptOf(message, step.outcome, { recipient: step.to })]);
  }
  if (client) expect(spool.behind.unfiled).toBeGreaterThan(0);
  await client?.query('COMMIT');
  await spool.events.newest();
  const { rows } = await (await hold('SELECT 1')).query<{ outcome: number; waiting: number }>(
    'SELECT outcome, waiting FROM journal WHERE id = $1',
    [message.id],
  );
  await journal.close();
  return rows;
}

test('what the journal says of a message does not depend on how much of it is filed at once', {
  timeout: 60_000,
}, async () => {
  const spool = await open();
  const [a, b] = (['a@example.org', 'b@example.org'] as const).map((to) => ({
    failed: { to, outcome: { kind: 'failed', ...hop } },
    delivered: { to, outcome: { kind: 'delivered', ...hop } },
    deferred: { to, outcome: { kind: 'deferred', ...hop } },
  })) as [Steps, Steps];
  const all: readonly (readonly Step[])[] = [
    [],
    [a.deferred],
    [a.delivered],
    [a.deferred, a.delivered, b.delivered],
    [a.failed, b.deferred],
    [a.delivered, b.failed],
    [a.failed, 'retry'],
    [a.failed, 'retry', a.deferred],
    [a.failed, b.failed, 'retry', a.failed],
    [a.failed, b.failed, 'retry', a.delivered, b.delivered],
    [a.delivered, b.failed, 'retry', b.delivered],
    [a.deferred, 'drop'],
  ];
  for (const steps of all)
    expect(await outcomeAfter(spool, steps, true), JSON.stringify(steps)).toEqual(
      await outcomeAfter(spool, steps, false),
    );
});

/** Every event from a cursor on, and where the next ones come. */
async function eventsFrom(spool: PostgresSpool, after: number) {
  const events: { readonly id: number; readonly kind: string; readonly queueId?: string }[] = [];
  for (let next = after, isMore = true; isMore; ) {
    const page = await spool.events.read({ after: next, limit: 500 });
    events.push(...page.events);
    [next, isMore] = [page.next, page.hasMore];
  }
  return events;
}

test('beside gateways of an earlier release, which write in turns, nothing is lost and nothing is told twice', {
  timeout: 60_000,
}, async () => {
  url = await makeOldTables('oldest', server);
  const earlier = OldGateways.start('oldest', url, 2);
  const [one, other] = [await open(), await open()];
  const seen: { readonly id: number }[] = [];
  const taken: string[] = [];
  for (let round = 0; round < 40; round += 1) {
    const messages = [entry(), entry()];
    await Promise.all(messages.map((message, index) => (index ? one : other).add(message, Date.now() + hour)));
    await Promise.all(messages.map((message) => other.record([outcome(message, message.recipients[0] ?? '')])));
    taken.push(...messages.map(({ id }) => id));
    // A follower reads on from its cursor all the time.
    seen.push(...(await eventsFrom(other, seen.at(-1)?.id ?? 0)));
  }
  await earlier.stop();
  await other.events.newest();
  seen.push(...(await eventsFrom(other, seen.at(-1)?.id ?? 0)));
  expect(earlier.failures).toEqual([]);
  expect(earlier.taken.length).toBeGreaterThan(20);
  expect(seen).toEqual(await eventsFrom(one, 0));
  expect(seen.map(({ id }) => id)).toEqual(seen.map((_, index) => index + 1));
  expect(seen).toHaveLength(2 * taken.length + earlier.taken.length + earlier.delivered);
  expect(await countsOf(one)).toEqual({ queued: earlier.taken.length - earlier.delivered, failed: 0 });
});
