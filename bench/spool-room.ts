// How much room queued messages take in SQLite, and what takes it: `node bench/spool-room.ts --messages 4000 --size 2600`. A Postern
// whose next hop is down is sent messages, and its file is looked at. Prints the octets of a message in each table and index, and how
// many of them are rows and how many are room that pages leave empty.

import { randomBytes } from 'node:crypto';
import { cpSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { startPostern } from './postern-under-test.ts';

const { values } = parseArgs({
  options: {
    messages: { type: 'string', default: '4000' },
    /** Octets of each message as it is sent. */
    size: { type: 'string', default: '2600' },
    /** Of what their bodies are: words or random. */
    body: { type: 'string', default: 'words' },
    /** A checkout whose src runs; absent: this one. */
    root: { type: 'string' },
    /** Seconds behind the last message until it is stopped, in which what is made behind the commits is made and room given back. */
    seconds: { type: 'string', default: '50' },
  },
});
const messages = Number(values.messages);

const words = Array.from({ length: 1000 }, () => randomBytes(2 + Math.floor(Math.random() * 5)).toString('hex'));

/** A message unlike all others: of words, as people write, or of letters and digits that nothing makes much smaller. */
function contentOf(number: number): string {
  const size = Number(values.size);
  const head = `From: alice@example.com\r\nTo: bob${number}@example.org\r\nSubject: What ${number} takes\r\n\r\n`;
  const text =
    values.body === 'random'
      ? randomBytes(size).toString('base64')
      : Array.from({ length: size / 5 }, () => words[Math.floor(Math.random() * words.length)]).join(' ');
  return head + (text.slice(0, size - head.length).match(/.{1,76}/g) ?? []).join('\r\n');
}

/** Sends messages by one session, each when the one before it was taken. */
async function send(port: number, next: () => number | undefined): Promise<void> {
  const socket = connect(port, '127.0.0.1');
  const replies = createInterface({ input: socket })[Symbol.asyncIterator]();
  const say = async (command: string): Promise<void> => {
    if (command !== '') socket.write(`${command}\r\n`);
    const { value } = await replies.next();
    if (!/^[23]/.test(String(value))) throw new Error(`${command.slice(0, 40)} was answered with ${String(value)}`);
  };
  await say('');
  await say('HELO bench.example');
  for (let number = next(); number !== undefined; number = next()) {
    await say('MAIL FROM:<alice@example.com>');
    await say(`RCPT TO:<bob${number}@example.org>`);
    await say('DATA');
    await say(`${contentOf(number)}\r\n.`);
  }
  socket.destroy();
}

/** Has the messages queued. @returns a copy of the database */
async function fill(folder: string): Promise<string> {
  const postern = await startPostern({
    ...(values.root === undefined ? {} : { root: values.root }),
    ...{ platformSignature: false, sinkPort: 1 },
  });
  const kept = join(folder, 'kept');
  try {
    let sent = 0;
    const next = (): number | undefined => (sent < messages ? (sent += 1) : undefined);
    await Promise.all(Array.from({ length: 20 }, () => send(postern.port, next)));
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
