// What claims cost beside a long queue, in SQLite and in PostgreSQL: `node bench/claims.ts --rows 10000,1000000`. A claim takes 100
// messages of one line and is written to disk. The PostgreSQL is one of its own on this machine, with fsync on.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { uuidv7 } from '../src/base/ids.ts';
import { leaseMilliseconds } from '../src/spool/lease.ts';
import { PostgresSpool } from '../src/spool/postgres/postgres-spool.ts';
import type { Spool, SpoolEntry } from '../src/spool/spool.ts';
import { openSqliteSpool } from '../src/spool/sqlite/sqlite-spool.ts';
import { startPostgres } from '../test/support/postgres.ts';
import { spoolEntry } from '../test/support/spool-entry.ts';

const { values } = parseArgs({
  options: { rows: { type: 'string', default: '10000,1000000' }, claims: { type: 'string', default: '60' } },
});
const lane = 'out#1';
const perClaim = 100;
const body = Buffer.from('A line of text.\r\n');

function entry(): SpoolEntry {
  const now = Date.now();
  const id = uuidv7(now);
  return spoolEntry({ id, acceptedAt: now, expiresAt: now + 432_000_000, transports: [lane], body, head: body });
}

/** Fills a queue until it has so many rows. */
async function fill(spool: Spool, rows: number): Promise<void> {
  const { queued } = await spool.counts();
  for (let done = queued; done < rows; done += 4000)
    await Promise.all(Array.from({ length: Math.min(4000, rows - done) }, () => spool.add(entry(), 0)));
}

/** Claims, and tells how many messages a second and the time of a claim. */
async function measure(spool: Spool, claims: number): Promise<string> {
  const times: number[] = [];
  const began = performance.now();
  let claimed = 0;
  for (let count = 0; count < claims; count += 1) {
    const at = performance.now();
    const now = Date.now();
    const query = { transport: lane, account: 'dev', limit: perClaim, now, claimUntil: now + leaseMilliseconds };
    claimed += (await spool.claimDue(query)).length;
    times.push(performance.now() - at);
  }
  const seconds = (performance.now() - began) / 1000;
  times.sort((left, right) => left - right);
  const median = times[Math.floor(times.length / 2)] ?? 0;
  await spool.recover();
  return `${Math.round(claimed / seconds).toLocaleString('en')} | ${(claims / seconds).toFixed(0)} | ${median.toFixed(1)}`;
}

const folder = mkdtempSync(join(tmpdir(), 'postern-bench-claims-'));
const server = await startPostgres({ fsync: true });
try {
  const url = await server.createDatabase();
  const spools = [
    ['SQLite', await openSqliteSpool({ file: join(folder, 'postern.db') })],
    ['PostgreSQL', await PostgresSpool.open({ url })],
  ] as const;
  const client = new pg.Client(url);
  await client.connect();
  process.stdout.write(
    '| pending rows | engine | messages claimed a second | claims a second | median ms |\n|---|---|---|---|---|\n',
  );
  for (const rows of values.rows.split(',').map(Number)) {
    for (const [, spool] of spools) await fill(spool, rows);
    await client.query('VACUUM ANALYZE');
    for (const [engine, spool] of spools)
      process.stdout.write(
        `| ${rows.toLocaleString('en')} | ${engine} | ${await measure(spool, Number(values.claims))} |\n`,
      );
  }
  await client.end();
  for (const [, spool] of spools) await spool.close();
} finally {
  await server.remove();
  rmSync(folder, { recursive: true, force: true });
}
