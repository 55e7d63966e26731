// What a claim reads in PostgreSQL: the rows that it takes, however many more wait in the same line or in others. The server
// counts the rows and the entries of indexes that were read; bench/claims.ts has the times.

import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { PostgresSpool } from '../../src/spool/postgres/postgres-spool.ts';
import { type PostgresServer, startPostgres } from '../support/postgres.ts';
import { requirePrograms } from './programs.ts';

let server: PostgresServer;
beforeAll(async () => {
  requirePrograms('runuser', 'pg_ctlcluster');
  // The server analyses nothing by itself, so that the plans are those of what the tests have it analyse.
  server = await startPostgres({ settings: ['autovacuum=off'] });
});
afterAll(() => server?.remove());

const inOneLine = 20_000;
const otherLines = 2000;
const claims = 20;
const perClaim = 100;
/** Rows and entries of indexes read for each message claimed, at most: its own in each table, a few times. */
const readForOne = 20;

const identity = "('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid";

/**
 * Makes messages of one recipient each. The first `inOneLine` numbers wait in one line, every fourth of them deferred before; the
 * others have a line each.
 */
async function fill(client: pg.Client, from: number, to: number): Promise<void> {
  const numbers = `generate_series(${from}, ${to}) n`;
  await client.query(`
    INSERT INTO spool_messages (id, account, credential, session_id, message_id, reverse_path, sender_path, smtputf8,
      require_tls, accepted_at, expires_at, size, head_length)
    SELECT ${identity}, 'dev', 'default', 's', 'm', '', '', 0, 0, 1, 9e15, 0, 0 FROM ${numbers};
    INSERT INTO spool_recipients (message, position, address, lane, account, state, attempts, next_attempt_at, due_at, reports)
    SELECT ${identity}, 0, 'r' || n || '@example.org', CASE WHEN n > ${inOneLine} THEN 'mx#1/d' || n ELSE 'out#1' END, 'dev', 0,
      CASE WHEN n % 4 = 0 THEN 1 + n % 3 ELSE 0 END, n, n, 0 FROM ${numbers};
    INSERT INTO spool_lines SELECT DISTINCT lane, account, split_part(lane, '/', 1), 0 FROM spool_recipients
    ON CONFLICT DO NOTHING`);
}

const readSoFar = `SELECT (SELECT sum(seq_tup_read) FROM pg_stat_user_tables WHERE schemaname = current_schema)
  + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE schemaname = current_schema) AS read`;

/** Rows and entries of indexes that the server has read in a schema by now; sessions tell theirs at their ends. */
async function rowsRead(client: pg.Client): Promise<number> {
  const others = `SELECT 1 FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'`;
  await expect.poll(async () => (await client.query(others)).rowCount, { timeout: 20_000 }).toBe(0);
  // What this session itself has read is told now, and not some time later.
  await client.query('SELECT pg_stat_force_next_flush()');
  return Number((await client.query<{ read: string }>(readSoFar)).rows[0]?.read);
}

test.each([
  ['all of it', 1],
  ['a hundredth of the line', inOneLine - 200],
  ['nothing', inOneLine + otherLines + 1],
])('claims read what they take, where the server has analysed %s', async (_, analysed) => {
  const url = await server.createSchema();
  await (await PostgresSpool.open({ url })).close();
  const client = new pg.Client(url);
  await client.connect();
  try {
    await fill(client, analysed, inOneLine + otherLines);
    await client.query('VACUUM ANALYZE spool_messages, spool_recipients, spool_lines');
    await fill(client, 1, analysed - 1);
    const before = await rowsRead(client);
    const spool = await PostgresSpool.open({ url });
    const now = Date.now();
    let claimed = 0;
    for (let at = 0; at < claims; at += 1) {
      const query = { transport: 'out#1', account: 'dev', limit: perClaim, now, claimUntil: now + 60_000 };
      claimed += (await spool.claimDue(query)).length;
      expect(await spool.turns({ transport: 'mx#1', limit: 10, now })).toHaveLength(10);
      const given = { now, limit: perClaim, transports: ['mx#1', 'out#1'], transportOf: () => 'mx#1/x' };
      expect(await spool.giveTransports(given)).toBe(0);
      expect(await spool.giveTransports({ ...given, transports: ['mx#1'] })).toBe(perClaim);
    }
    await spool.close();
    expect(claimed).toBe(claims * perClaim);
    const read = (await rowsRead(client)) - before;
    expect(read).toBeLessThan(claimed * readForOne);
  } finally {
    await client.end();
  }
});
