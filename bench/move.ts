// How long a move from SQLite to PostgreSQL takes, and how much memory: `node bench/move.ts --messages 100000 --size 4096`, with
// `--journal 100000` for as many rows of the journal with their content. The server is one of its own on this machine, with fsync
// on.

import { fork } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { parseArgs } from 'node:util';
import { uuidv7 } from '../src/base/ids.ts';
import { leaseMilliseconds } from '../src/spool/spool-limits.ts';
import { SqliteSpool } from '../src/spool/sqlite/sqlite-spool.ts';
import { entryOfNow, makeSource } from '../test/support/moved-source.ts';
import { startPostgres } from '../test/support/postgres.ts';
import { cpuSeconds, peakMebibytes } from './process-usage.ts';

const { values } = parseArgs({
  options: {
    messages: { type: 'string', default: '100000' },
    size: { type: 'string', default: '4096' },
    journal: { type: 'string', default: '0' },
  },
});
const [messages, entries] = [Number(values.messages), Number(values.journal)];

/** Fills the journal: facts as of a message of a program, and a body that left as it came. */
function fillJournal(file: string, body: Buffer): void {
  const database = new DatabaseSync(file);
  const facts = {
    ...{ credential: 'default', via: 'smtp', client: '192.0.2.7', helo: 'client.example', mailer: 'User-Agent: bench' },
    ...{ sender: 'shop@example.com', recipients: ['somebody@partner.test'], count: 1, size: body.length + 400 },
  };
  const more = { session: 'c0ffee', verdicts: 'llllkkk', dialogue: 'C: MAIL FROM:<shop@example.com>\n'.repeat(12) };
  const addRow = database.prepare(
    'INSERT INTO journal (id, at, account, outcome, waiting, octets, facts, more) VALUES (?, ?, ?, 2, 0, ?, ?, ?)',
  );
  const addContent = database.prepare('INSERT INTO journal_content VALUES (?, 1, ?, ?, NULL, ?)');
  const head = Buffer.from('X-Header: a value as long as they are\r\n'.repeat(12));
  database.exec('BEGIN');
  for (let at = 0; at < entries; at += 1) {
    const [octets, subject] = [2 * head.length + body.length, `Order ${at} has left: \u{1f600} Grüße`];
    const row = [
      uuidv7(Date.now()),
      Date.now(),
      'dev',
      octets,
      JSON.stringify({ ...facts, subject }),
      JSON.stringify(more),
    ];
    addContent.run(addRow.run(...row).lastInsertRowid, head, head, body);
  }
  database.exec('COMMIT');
  database.close();
}

const folder = mkdtempSync(join(tmpdir(), 'postern-bench-move-'));
const server = await startPostgres({ fsync: true });
try {
  const source = makeSource(folder);
  const spool = await SqliteSpool.open({ file: source.file, bodiesFolder: source.bodiesFolder });
  const body = Buffer.alloc(Number(values.size), 'A line of a message, as long as lines are.\r\n');
  for (let done = 0; done < messages; done += 1000) {
    const group = Array.from({ length: Math.min(1000, messages - done) }, () => entryOfNow({ body }));
    await Promise.all(group.map((entry) => spool.add(entry, Date.now() + leaseMilliseconds)));
  }
  await spool.close();
  fillJournal(source.file, body);
  const url = await server.createDatabase();
  const began = performance.now();
  const child = fork(join(import.meta.dirname, '../src/main.ts'), ['migrate', '--to', url], {
    env: { ...process.env, POSTERN_DATA_DIR: folder },
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  });
  const usage = { cpu: 0, memory: 0 };
  const looking = setInterval(() => {
    try {
      usage.cpu = Math.max(usage.cpu, cpuSeconds(child.pid ?? 0));
      usage.memory = Math.max(usage.memory, peakMebibytes(child.pid ?? 0));
    } catch {
      // It has ended.
    }
  }, 100);
  const code = await new Promise((done) => child.once('exit', done));
  clearInterval(looking);
  const seconds = (performance.now() - began) / 1000;
  process.stdout.write(
    `${messages.toLocaleString('en')} messages and ${entries.toLocaleString('en')} entries of ${values.size} octets: ${seconds.toFixed(1)} s, ` +
      `${Math.round((messages + entries) / seconds).toLocaleString('en')} a second, ${usage.cpu.toFixed(1)} s of CPU, ` +
      `${Math.round(usage.memory)} MiB at most, exit code ${String(code)}\n`,
  );
} finally {
  await server.remove();
  rmSync(folder, { recursive: true, force: true });
}
