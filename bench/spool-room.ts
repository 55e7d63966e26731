// How much room queued messages take in SQLite, and what takes it: `node bench/spool-room.ts --messages 4000 --size 2600`. A Postern
// whose next hop is down is sent messages by smtp-source (Debian package postfix); then it is stopped, and its file is looked at. Prints
// the octets of a message in each table and index, and how many of them are rows and how many are room that pages leave empty.

import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { cpSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { startPostern } from './postern-under-test.ts';

const { values } = parseArgs({
  options: {
    messages: { type: 'string', default: '4000' },
    /** Octets of each message as it is sent. */
    size: { type: 'string', default: '2600' },
    /** A checkout whose src runs; absent: this one. */
    root: { type: 'string' },
    /** Seconds behind the last message until it is stopped, in which what is made behind the commits is made. */
    seconds: { type: 'string', default: '6' },
  },
});
const messages = Number(values.messages);

/** A message whose body no program can make much smaller than half: letters and digits, in lines. */
function contentOf(size: number): string {
  const head =
    'From: alice@example.com\nTo: bob@example.org\nSubject: What the queue takes\nDate: Mon, 23 Nov 2026 12:00:00 +0000\n\n';
  const text = randomBytes(size)
    .toString('base64')
    .slice(0, size - head.length);
  return head + (text.match(/.{1,76}/g) ?? []).join('\n');
}

/** Has the messages queued. @returns the file of the database, which nobody has open */
async function fill(folder: string): Promise<string> {
  const content = join(folder, 'message');
  writeFileSync(content, contentOf(Number(values.size)));
  const postern = await startPostern({
    ...(values.root === undefined ? {} : { root: values.root }),
    ...{ platformSignature: false, sinkPort: 1 },
  });
  const kept = join(folder, 'kept');
  try {
    const load = [
      '-s',
      '20',
      '-m',
      String(messages),
      '-F',
      content,
      '-f',
      'alice@example.com',
      '-t',
      'bob@example.org',
    ];
    execFileSync('smtp-source', [...load, '-N', `127.0.0.1:${postern.port}`], { stdio: 'inherit' });
    await sleep(Number(values.seconds) * 1000);
    cpSync(join(postern.folder, 'data'), kept, { recursive: true });
  } finally {
    await postern.stop();
  }
  return join(kept, 'postern.db');
}

const folder = mkdtempSync(join(tmpdir(), 'postern-room-'));
try {
  const file = await fill(folder);
  const whole = statSync(file).size + statSync(`${file}-wal`).size;
  const database = new DatabaseSync(file);
  const queued = Number(database.prepare('SELECT count(*) AS n FROM spool_messages').get()?.['n']);
  database.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  const each = (octets: unknown): string => (Number(octets) / queued).toFixed(0).padStart(7);
  console.log(`${queued} messages queued; octets of a message:\n   whole    rows   empty`);
  const tables = database.prepare(
    'SELECT name, sum(pgsize) AS whole, sum(payload) AS rows, sum(unused) AS empty FROM dbstat GROUP BY name ORDER BY whole DESC',
  );
  for (const { name, whole, rows, empty } of tables.all())
    if (Number(whole) / queued >= 4) console.log(`${each(whole)} ${each(rows)} ${each(empty)}  ${String(name)}`);
  console.log(
    `${each(statSync(file).size)}                  the file; with its log it had ${(whole / 2 ** 20).toFixed(0)} MiB`,
  );
  database.close();
} finally {
  rmSync(folder, { recursive: true });
}
