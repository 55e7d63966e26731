// How many old events PostgreSQL removes a second, by DELETE and by partition, and how long messages wait to be accepted meanwhile.
// Usage: node bench/postgres-retention.ts [EVENTS]; starts a server of its own, with fsync on, for each of the two.

import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { systemClock } from '../src/base/clock.ts';
import { uuidv7 } from '../src/base/ids.ts';
import { ensurePartitions } from '../src/spool/postgres/events/event-partitions.ts';
import { PostgresSpool } from '../src/spool/postgres/postgres-spool.ts';
import { startPostgres } from '../test/support/postgres.ts';
import { spoolEntry } from '../test/support/spool-entry.ts';

const total = Number(process.argv[2] ?? 1_000_000);
/** The removal of all of them by DELETE takes long; what it does in so long is enough. */
const seconds = 20;
const dayMs = 86_400_000;
const event = `'{"kind":"delivered","at":1,"account":"dev","queueId":"q' || n || '","recipient":"r' || n || '@example.org","sessionId":"s"}'`;

async function fill(client: pg.Client): Promise<void> {
  const old = systemClock.now() - 400 * dayMs;
  await client.query(
    `INSERT INTO mail_events SELECT n, ${old} + n, 'dev', 0, 'delivered', 'q' || n, ${event} FROM generate_series(1, ${total}) AS n`,
  );
  await client.query(
    `INSERT INTO mail_event_keys SELECT (n::bigint * 7919) % 1000003 + k, n FROM generate_series(1, ${total}) AS n, generate_series(1, 3) AS k`,
  );
  await client.query(`INSERT INTO mail_event_counts VALUES ('dev', 0, ${total})`);
  await client.query(`UPDATE spool_state SET last_event = ${total}`);
  await client.query('VACUUM ANALYZE mail_events, mail_event_keys');
  await client.query('CHECKPOINT');
}

/** How long accepts take, four at a time, until a time. */
async function acceptsUntil(spool: PostgresSpool, until: number): Promise<readonly number[]> {
  const times: number[] = [];
  const one = async (): Promise<void> => {
    while (performance.now() < until) {
      const [now, began] = [Date.now(), performance.now()];
      const times4k = { body: Buffer.alloc(4096, 'a\r\n'), acceptedAt: now, expiresAt: now + dayMs };
      await spool.add(spoolEntry({ id: uuidv7(now), ...times4k }), now + dayMs);
      times.push(performance.now() - began);
    }
  };
  await Promise.all(Array.from({ length: 4 }, one));
  return times.toSorted((left, right) => left - right);
}

function quantiles(times: readonly number[]): object {
  const at = (share: number): number => Math.round((times[Math.floor((times.length - 1) * share)] ?? 0) * 10) / 10;
  return { accepts: times.length, p50_ms: at(0.5), p99_ms: at(0.99), max_ms: at(1) };
}

async function measure(way: 'DELETE' | 'partition'): Promise<void> {
  const server = await startPostgres({ fsync: true });
  try {
    const created = await server.createDatabase();
    const url = way === 'partition' ? created : `${created}&options=${encodeURIComponent('-c postern.partitions=off')}`;
    await (await PostgresSpool.open({ url })).close();
    const client = new pg.Client(url);
    client.on('error', () => undefined);
    await client.connect();
    const span = { since: Date.now(), until: Date.now(), lastEvent: total };
    await ensurePartitions(async (sql, values = []) => (await client.query(sql, [...values])).rows, span);
    await fill(client);
    const all = { mail: 10 * total, refusals: total, copies: total };
    const quiet = await PostgresSpool.open({ url, eventLimits: { ageMilliseconds: 1000 * dayMs, ...all } });
    const alone = quantiles(await acceptsUntil(quiet, performance.now() + seconds * 1000));
    await quiet.close();
    const spool = await PostgresSpool.open({ url, eventLimits: { ageMilliseconds: dayMs, ...all } });
    const began = performance.now();
    const state = { gone: 0, after: 0 };
    const watching = (async (): Promise<void> => {
      while (performance.now() - began < seconds * 1000 && state.gone < total) {
        const { rows } = await client.query<{ first: string | null }>('SELECT min(id) AS first FROM mail_events');
        state.gone = Math.min(total, Number(rows[0]?.first ?? total + 1) - 1);
        state.after = performance.now() - began;
        await sleep(100);
      }
    })();
    const beside = quantiles(await acceptsUntil(spool, began + seconds * 1000));
    await watching;
    const { rows } = await client.query<{ events: string }>('SELECT sum(events) AS events FROM mail_event_counts');
    const real = await client.query<{ events: string }>('SELECT count(*) AS events FROM mail_events');
    const isExact = rows[0]?.events === real.rows[0]?.events;
    const removed = { removed: state.gone, seconds: Math.round(state.after / 100) / 10, isExact };
    const aSecond = Math.round((state.gone / state.after) * 1000);
    console.log(JSON.stringify({ way, events: total, alone, beside, ...removed, removed_a_second: aSecond }));
    await spool.close();
    await client.end();
  } finally {
    await server.remove();
  }
}

await measure('DELETE');
await measure('partition');
