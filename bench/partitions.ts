// What the number of partitions costs: accepting messages with their rows of the journal, recording their outcomes, and pages of events
// and of the journal, beside 5 days' partitions and beside many more, in turns on one server with fsync on.
// Usage: node bench/partitions.ts [DAYS] [ROUNDS]

import pg from 'pg';
import { openPostgres } from '../src/base/database/postgres-database.ts';
import { uuidv7 } from '../src/base/ids.ts';
import { openPostgresJournal } from '../src/spool/journal/store/postgres-journal-store.ts';
import { ensurePartitions } from '../src/spool/postgres/events/event-partitions.ts';
import { PostgresSpool } from '../src/spool/postgres/postgres-spool.ts';
import { startPostgres } from '../test/support/postgres.ts';
import { attemptOf, spoolEntry } from '../test/support/spool-entry.ts';

const days = Number(process.argv[2] ?? 40);
const rounds = Number(process.argv[3] ?? 5);
const messages = 2000;
const outstanding = 50;
const dayMs = 86_400_000;
const eventsOfPart = 10_000;
const limits = { keepDays: 300, maxOctets: 1e12, refusals: 1e9, copies: 1e9 };

async function makeParts(url: string): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  const ask = async (sql: string, values: readonly (number | string)[] = []) =>
    (await client.query(sql, [...values])).rows;
  const until = Date.now();
  for (let part = 2; part <= days; part += 1)
    await ensurePartitions(ask, { since: until - days * dayMs, until, lastEvent: part * eventsOfPart });
  await client.query(`UPDATE spool_state SET last_event = ${days * eventsOfPart}`);
  await client.end();
}

async function timed(count: number, work: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  for (let at = 0; at < count; at += 1) await work();
  return Math.round(((performance.now() - began) / count) * 100) / 100;
}

async function round(url: string): Promise<Readonly<Record<string, number>>> {
  const spool = await PostgresSpool.open({ url });
  const journal = openPostgresJournal(await openPostgres({ url, connections: 2 }), limits);
  const details = { content: 'headers', maxBodyOctets: 0, fields: [], verdicts: '', timings: {} } as const;
  const now = Date.now();
  const all = Array.from({ length: messages }, () =>
    spoolEntry({ id: uuidv7(now), acceptedAt: now, expiresAt: now + dayMs, journal: details }),
  );
  const inParallel = async (work: (at: number) => Promise<void>): Promise<number> => {
    const began = performance.now();
    let next = 0;
    const one = async (): Promise<void> => {
      for (let at = next++; at < messages; at = next++) await work(at);
    };
    await Promise.all(Array.from({ length: outstanding }, one));
    return Math.round((messages / (performance.now() - began)) * 1000);
  };
  const accepted = await inParallel(async (at) => {
    const entry = all[at];
    if (entry) await spool.add(entry, now + dayMs);
  });
  const outcome = { kind: 'delivered', reply: { code: 250, text: 'ok' }, host: 'h' } as const;
  const recorded = await inParallel(async (at) => {
    const entry = all[at];
    if (entry) await spool.record([attemptOf(entry, outcome)]);
  });
  const id = all[0]?.id ?? '';
  const last = await spool.events.newest();
  const figures = {
    accepted_a_second: accepted,
    recorded_a_second: recorded,
    events_behind_cursor_ms: await timed(50, () => spool.events.read({ after: last - 100, limit: 100 })),
    newest_events_of_account_ms: await timed(50, () =>
      spool.events.search({ account: 'dev', order: 'newest', limit: 50 }),
    ),
    events_of_message_ms: await timed(50, () => spool.events.read({ after: 0, limit: 100, message: id })),
    newest_of_journal_ms: await timed(50, () => journal.list({ limit: 50, account: 'dev' })),
    entry_of_journal_ms: await timed(50, () => journal.find(id)),
  };
  await journal.close();
  await spool.close();
  return figures;
}

const server = await startPostgres({ fsync: true });
try {
  const [few, many] = [await server.createDatabase(), await server.createDatabase()];
  for (const url of [few, many]) await (await PostgresSpool.open({ url })).close();
  await makeParts(many);
  for (let at = 0; at < rounds; at += 1) {
    console.log(JSON.stringify({ partitions: 'few', ...(await round(few)) }));
    console.log(JSON.stringify({ partitions: days, ...(await round(many)) }));
  }
} finally {
  await server.remove();
}
