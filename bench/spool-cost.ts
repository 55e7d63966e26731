// What one message costs the spool in SQLite: statements, and entries that are put into B-trees or taken out, for messages that
// are accepted and delivered to one recipient, with the journal and the events on. `node bench/spool-cost.ts --messages 2000`.
// It says nothing of time. Groups of operations share a commit as in the gateway; what each group runs once is told apart.

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { uuidv7 } from '../src/base/ids.ts';
import type { SpoolEntry } from '../src/spool/spool.ts';
import { SqliteSpool } from '../src/spool/sqlite/sqlite-spool.ts';
import { attemptOf, spoolEntry } from '../test/support/spool-entry.ts';

const { values } = parseArgs({
  options: {
    messages: { type: 'string', default: '2000' },
    group: { type: 'string', default: '50' },
    /** Runs the messages; set by the script itself. */
    run: { type: 'string' },
    phase: { type: 'string', default: 'accepted' },
  },
});
const messages = Number(values.messages);
const group = Number(values.group);
/** B-trees that are filled behind the commit, by what readers need. */
const behind = /event_keys|event_index|event_counts|event_state|words|journal_state|figures/;

function message(number: number): SpoolEntry {
  const now = Date.now();
  const [head, body] = [Buffer.alloc(600, 'X-Filler: value\r\n'), Buffer.alloc(3500, 'text\r\n')];
  return spoolEntry({
    ...{ id: uuidv7(now), acceptedAt: now, expiresAt: now + 432_000_000, transports: ['out#1'], head, body },
    clientMessageId: `<${number}@box.example>`,
    recipients: [`user${number}@example.org`],
    origin: { via: 'smtp', clientAddress: '192.0.2.1', helo: 'box.example' },
    received: { size: 4100, stripped: [] },
    journal: {
      content: 'none',
      maxBodyOctets: 262_144,
      fields: [],
      verdicts: 'kkkk',
      subject: 'Some subject',
      mailer: 'X 1',
      timings: { check: 1 },
    },
  });
}

/** Accepts the messages, and delivers them, in a process whose statements are counted. */
async function runMessages(folder: string): Promise<void> {
  const spool = await SqliteSpool.open({ file: join(folder, 'spool.db') });
  const reply = { code: 250, text: 'Ok' };
  const entries = Array.from({ length: messages }, (_, number) => message(number));
  for (let done = 0; done < messages; done += group) {
    const some = entries.slice(done, done + group);
    await Promise.all(some.map((entry) => spool.add(entry, Date.now() + 60_000)));
    if (values.phase === 'accepted') continue;
    await spool.record(some.map((entry) => attemptOf(entry, { kind: 'delivered', reply, host: 'out (mx:25)' })));
  }
  await sleep(1500);
  await spool.close();
}

/** How many entries each B-tree has. */
function entriesOf(file: string): ReadonlyMap<string, number> {
  const database = new DatabaseSync(file, { readOnly: true });
  const rows = database
    .prepare("SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE type IN ('table', 'index')")
    .all();
  const entries = new Map<string, number>();
  for (const { type, name, tbl_name: table, sql } of rows) {
    const where = /\bWHERE\b([\s\S]*)$/i.exec(String(sql ?? ''))?.[1];
    const from = `"${String(table)}"${type === 'index' && where !== undefined ? ` WHERE ${where}` : ''}`;
    if (/VIRTUAL/.test(String(sql))) continue;
    // A table without rowid is the index of its key.
    if (type === 'index' && String(name).startsWith('sqlite_autoindex') && isWithoutRowid(rows, String(table)))
      continue;
    entries.set(String(name), Number(database.prepare(`SELECT count(*) AS n FROM ${from}`).get()?.['n']));
  }
  database.close();
  return entries;
}

function isWithoutRowid(rows: readonly Record<string, unknown>[], table: string): boolean {
  return rows.some(({ type, name, sql }) => type === 'table' && name === table && /WITHOUT ROWID/.test(String(sql)));
}

async function measure(
  phase: string,
): Promise<{ readonly counts: Map<string, number>; readonly entries: ReadonlyMap<string, number> }> {
  const folder = mkdtempSync(join(tmpdir(), 'postern-cost-'));
  const counted = join(folder, 'counts');
  const child = fork(
    import.meta.filename,
    ['--run', folder, '--phase', phase, '--messages', values.messages, '--group', values.group],
    {
      execArgv: ['--import', join(import.meta.dirname, 'count-statements.ts')],
      env: { ...process.env, COUNT_STATEMENTS: counted },
    },
  );
  const [code] = await once(child, 'exit');
  if (code !== 0) throw new Error(`The run ended with ${code}`);
  const counts = new Map<string, number>();
  for (const line of readFileSync(counted, 'utf8').trim().split('\n')) {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- count-statements.ts has written it
    for (const [sql, number] of JSON.parse(line) as [string, number][])
      counts.set(sql, (counts.get(sql) ?? 0) + number);
  }
  const entries = entriesOf(join(folder, 'spool.db'));
  rmSync(folder, { recursive: true });
  return { counts, entries };
}

async function main(): Promise<void> {
  const accepted = await measure('accepted');
  const delivered = await measure('delivered');
  let [inCommit, later] = [0, 0];
  for (const [name, number] of delivered.entries) {
    const added = (accepted.entries.get(name) ?? 0) / messages;
    const left = number / messages;
    const changes = added + Math.abs(left - added);
    if (changes < 0.5) continue;
    if (behind.test(name)) later += changes;
    else inCommit += changes;
    console.log(
      `B-tree ${name}: ${added.toFixed(1)} accepted, ${(left - added).toFixed(1)} delivered${behind.test(name) ? ' (behind)' : ''}`,
    );
  }
  let [each, shared] = [0, 0];
  for (const [sql, number] of [...delivered.counts].toSorted((left, right) => right[1] - left[1])) {
    const runs = number / messages;
    if (runs < 0.01) continue;
    if (runs >= 0.5) each += runs;
    else shared += runs;
    console.log(`${runs.toFixed(2)}  ${sql.replaceAll(/\s+/g, ' ').slice(0, 120)}`);
  }
  const sum = (number: number): string => number.toFixed(1);
  console.log(
    `A message: ${sum(each)} statements of its own, ${sum(shared)} shared by groups of ${group}; entries of B-trees put in or`,
  );
  console.log(
    `taken out: ${sum(inCommit)} in commits, ${sum(later)} behind them. Rows that are changed in place are not among the entries.`,
  );
}

if (values.run === undefined) await main();
else await runMessages(values.run);
