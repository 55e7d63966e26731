// What claims cost beside a long queue, in SQLite and in PostgreSQL: `node bench/claims.ts --rows 10000,1000000`. A claim takes 100
// messages of one line and is written to disk. The PostgreSQL is one of its own on this machine, with fsync on.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { uuidv7 } from '../src/base/ids.ts';
import { moveData, undoMove } from '../src/move/move-data.ts';
import { leaseMilliseconds } from '../src/spool/lease.ts';
import { PostgresSpool } from '../src/spool/postgres/postgres-spool.ts';
import type { Spool, SpoolEntry } from '../src/spool/spool.ts';
import { openSqliteSpool } from '../src/spool/sqlite/sqlite-spool.ts';
import { tableMigrations } from '../src/wiring/table-versions.ts';
import { makeSource } from '../test/support/moved-source.ts';
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

/** Makes a SQLite spool with so many rows, and a copy of it in PostgreSQL. */
async function fill(folder: string, rows: number, url: string): Promise<readonly (readonly [string, Spool])[]> {
  const source = makeSource(folder);
  const filling = await openSqliteSpool(source);
  for (let done = 0; done < rows; done += 4000)
    await Promise.all(Array.from({ length: Math.min(4000, rows - done) }, () => filling.add(entry(), 0)));
  await filling.close();
  const { signal } = new AbortController();
  const where = { ...source, url, shown: 'bench', migrations: tableMigrations, leaveDamaged: false };
  await moveData({ ...where, signal, progress: () => undefined });
  undoMove(source.file);
  return [
    ['SQLite', await openSqliteSpool(source)],
    ['PostgreSQL', await PostgresSpool.open({ url })],
  ];
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
  return `${Math.round(claimed / seconds).toLocaleString('en')} | ${(claims / seconds).toFixed(0)} | ${median.toFixed(1)}`;
}

const server = await startPostgres({ fsync: true });
try {
  process.stdout.write(
    '| pending rows | engine | messages claimed a second | claims a second | median ms |\n|---|---|---|---|---|\n',
  );
  for (const rows of values.rows.split(',').map(Number)) {
    const folder = mkdtempSync(join(tmpdir(), 'postern-bench-claims-'));
    for (const [engine, spool] of await fill(folder, rows, await server.createDatabase())) {
      const figures = await measure(spool, Number(values.claims));
      process.stdout.write(`| ${rows.toLocaleString('en')} | ${engine} | ${figures} |\n`);
      await spool.close();
    }
    rmSync(folder, { recursive: true, force: true });
  }
} finally {
  await server.remove();
}
