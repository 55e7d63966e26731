// How long removing old events takes in PostgreSQL, and for how long it holds up those who write: 500 events in a transaction.
// Usage: node bench/postgres-retention.ts [EVENTS]; starts a server of its own, with fsync on.

import pg from 'pg';
import { systemClock } from '../src/base/clock.ts';
import { PostgresSpool } from '../src/spool/postgres/postgres-spool.ts';
import { startPostgres } from '../test/support/postgres.ts';

const total = Number(process.argv[2] ?? 1_000_000);
const server = await startPostgres({ fsync: true });
try {
  const url = await server.createDatabase();
  const first = await PostgresSpool.open({ url });
  await first.close();
  const client = new pg.Client(url);
  client.on('error', () => undefined);
  await client.connect();
  const old = systemClock.now() - 400 * 86_400_000;
  const event = `'{"kind":"delivered","at":1,"account":"dev","queueId":"q' || n || '","recipient":"r' || n || '@example.org","sessionId":"s"}'`;
  await client.query(
    `INSERT INTO mail_events SELECT n, ${old} + n, 'dev', 0, 'delivered', 'q' || n, ${event} FROM generate_series(1, ${total}) AS n`,
  );
  await client.query(
    `INSERT INTO mail_event_keys SELECT (n * 7919) % 1000003 + k, n FROM generate_series(1, ${total}) AS n, generate_series(1, 3) AS k`,
  );
  await client.query(`INSERT INTO mail_event_counts VALUES ('dev', 0, ${total})`);
  await client.query(`UPDATE spool_state SET last_event = ${total}`);
  const limits = { ageMilliseconds: 86_400_000, mail: 10 * total, refusals: total };
  const spool = await PostgresSpool.open({ url, eventLimits: limits });
  const began = performance.now();
  const left = async (): Promise<number> => {
    const { rows } = await client.query<{ first: string | null }>('SELECT min(id) AS first FROM mail_events');
    return rows[0]?.first === null ? 0 : total - Number(rows[0]?.first) + 1;
  };
  const before = await left();
  await new Promise((resolve) => setTimeout(resolve, 15_000));
  const removed = before - (await left());
  const seconds = (performance.now() - began) / 1000;
  const { rows } = await client.query<{ waits: string }>('SELECT count(*) AS waits FROM mail_events');
  console.log(`${total} events: ${Math.round(removed / seconds)} removed a second; ${rows[0]?.waits} left`);
  await spool.close();
  await client.end();
} finally {
  await server.remove();
}
