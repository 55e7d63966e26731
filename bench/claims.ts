// What claims cost beside a long queue, in SQLite and in PostgreSQL: `node bench/claims.ts --rows 10000,1000000`. A claim takes 100
// messages of one line and is written to disk; the sizes are measured in turns. The PostgreSQL is one of its own on this machine, with fsync on.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { tableMigrations } from '../src/app/wiring/table-versions.ts';
import { uuidv7 } from '../src/base/ids.ts';
import { moveData, undoMove } from '../src/spool/move/move-data.ts';
import { PostgresSpool } from '../src/spool/postgres/postgres-spool.ts';
import type { Spool, SpoolEntry } from '../src/spool/spool.ts';
import { leaseMilliseconds } from '../src/spool/spool-limits.ts';
import { SqliteSpool } from '../src/spool/sqlite/sqlite-spool.ts';
import { makeSource } from '../test/support/moved-source.ts';
import { startPostgres } from '../test/support/postgres.ts';
import { spoolEntry } from '../test/support/spool-entry.ts';

const { values } = parseArgs({
  options: { rows: { type: 'string', default: '10000,1000000' }, claims: { type: 'string', default: '60' } },
});
const lane = 'out#1';
const perClaim = 100;
/** Claims on one spool before the next one has its turn. */
const perTurn = 5;
const body = Buffer.from('A line of text.\r\n');

function entry(): SpoolEntry {
  const now = Date.now();
  const id = uuidv7(now);
  return spoolEntry({ id, acceptedAt: now, expiresAt: now + 432_000_000, transports: [lane], body, head: body });
}

/** Makes a SQLite spool with so many rows, and a copy of it in PostgreSQL. */
async function fill(folder: string, rows: number, url: string): Promise<readonly (readonly [string, Spool])[]> {
  const source = makeSource(folder);
  const filling = await SqliteSpool.open(source);
  for (let done = 0; done < rows; done += 4000)
    await Promise.all(Array.from({ length: Math.min(4000, rows - done) }, () => filling.add(entry(), 0)));
  await filling.close();
  const { signal } = new AbortController();
  const where = { ...source, url, shown: 'bench', migrations: tableMigrations, leaveDamaged: false };
  await moveData({ ...where, signal, progress: () => undefined });
  undoMove(source.file);
  return [
    ['SQLite', await SqliteSpool.open(source)],
    ['PostgreSQL', await PostgresSpool.open({ url })],
  ];
}

/** One spool of one size, and how long each claim on it took, in milliseconds. */
interface Measured {
  readonly rows: number;
  readonly engine: string;
  readonly spool: Spool;
  readonly times: number[];
}

/** Claims some times, and adds how long each claim took. */
async function claimFrom({ spool, times }: Measured, claims: number): Promise<void> {
  for (let count = 0; count < claims; count += 1) {
    const at = performance.now();
    const now = Date.now();
    const query = { transport: lane, account: 'dev', limit: perClaim, now, claimUntil: now + leaseMilliseconds };
    const claimed = await spool.claimDue(query);
    if (claimed.length !== perClaim) throw new Error(`A claim brought ${claimed.length} messages`);
    times.push(performance.now() - at);
  }
}

function rowOf({ rows, engine, times }: Measured): string {
  const seconds = times.reduce((sum, time) => sum + time, 0) / 1000;
  const median = times.toSorted((left, right) => left - right)[Math.floor(times.length / 2)] ?? 0;
  const [messages, each] = [(times.length * perClaim) / seconds, times.length / seconds];
  return `| ${rows.toLocaleString('en')} | ${engine} | ${Math.round(messages).toLocaleString('en')} | ${each.toFixed(0)} | ${median.toFixed(1)} |\n`;
}

const server = await startPostgres({ fsync: true });
const folders: string[] = [];
try {
  const all: Measured[] = [];
  for (const rows of values.rows.split(',').map(Number)) {
    const folder = mkdtempSync(join(tmpdir(), 'postern-bench-claims-'));
    folders.push(folder);
    for (const [engine, spool] of await fill(folder, rows, await server.createDatabase()))
      all.push({ rows, engine, spool, times: [] });
  }
  // In turns, a few claims at a time, so that what else the machine does falls on all sizes alike.
  for (let done = 0; done < Number(values.claims); done += perTurn)
    for (const one of all) await claimFrom(one, perTurn);
  process.stdout.write(
    '| pending rows | engine | messages claimed a second | claims a second | median ms |\n|---|---|---|---|---|\n',
  );
  for (const one of all) process.stdout.write(rowOf(one));
  for (const { spool } of all) await spool.close();
} finally {
  await server.remove();
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
}
