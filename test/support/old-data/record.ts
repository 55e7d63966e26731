// Records what a gateway of an older release sends to PostgreSQL for one message (oldest-gateway.ts), so that it can be sent again and
// again. Run as root: `npx node test/support/old-data/record.ts /tmp/old 8e055d7 last` writes test/support/last-postgres.json; the
// release stands in /tmp/old, as for make.ts. This file is loaded into that gateway as well, where it writes down every statement.

import { appendFileSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { threadId } from 'node:worker_threads';
import type pg from 'pg';

interface Sent {
  /** The connection. */
  readonly on: string;
  readonly at: number;
  readonly text: string;
  readonly values: readonly unknown[];
}

const hourMs = 3_600_000;

function shown(value: unknown): unknown {
  if (value instanceof Uint8Array) return { base64: Buffer.from(value).toString('base64') };
  return Array.isArray(value) ? value.map(shown) : typeof value === 'bigint' ? String(value) : value;
}

/** Has the driver of the gateway that loads this file write down what it is asked. */
function writeDown(file: string, checkout: string): void {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- it is that package
  const { Client } = createRequire(join(checkout, 'package.json'))('pg') as typeof pg;
  const numbers = new WeakMap<object, number>();
  let last = 0;
  const query: (...asked: unknown[]) => unknown = Reflect.get(Client.prototype, 'query');
  Client.prototype.query = function (this: object, ...asked: readonly unknown[]) {
    const [first, second] = asked;
    if (!numbers.has(this)) numbers.set(this, (last += 1));
    const { text, values = second } =
      typeof first === 'string' ? { text: first } : (first as { readonly text?: string; readonly values?: unknown });
    const sent = { on: `${threadId}.${numbers.get(this)}`, at: Date.now(), text, values: shown(values ?? []) };
    if (text !== undefined) appendFileSync(file, `${JSON.stringify(sent)}\n`);
    return Reflect.apply(query, this, asked);
  } as typeof Client.prototype.query;
}

/** What each gateway sends between messages, by how it begins; the first is its sign of life. */
const reads = [
  ...[/^UPDATE spool_processes SET beats/, /^WITH RECURSIVE account/, /^SELECT id, beats/, /^SELECT e\.id, e\.at/],
  ...[/^SELECT account, queued_messages/, /^SELECT id, kind, value/, /^SELECT last_event/, /^WITH RECURSIVE transport/],
];

/** Statements with words in place of what is another each time. */
function told(all: readonly Sent[]) {
  const added = all.find(({ text }) => text.includes('INSERT INTO spool_messages'));
  const message = String([added?.values[0]].flat()[0]);
  const now = added?.at ?? 0;
  const filled = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(filled);
    if (typeof value === 'string') return value.replaceAll(message, '$message').replaceAll(/"at":\d{13}/g, '"at":0');
    if (typeof value !== 'number' || value < now - hourMs) return value;
    return value < now + hourMs / 2 ? '$now' : '$later';
  };
  const statement = ({ text, values }: Sent) => {
    const process = (value: unknown): unknown => (value === 1 ? '$process' : value);
    const plain = values.map(filled);
    return {
      text,
      values: text.startsWith('WITH mine')
        ? ['$process', '$batch']
        : /SET beats|INSERT INTO spool_recipients/.test(text)
          ? plain.map(process)
          : plain,
    };
  };
  // The gateway has several connections, and each transaction is on one of them.
  const groupWith = (words: string) => {
    const own = all.filter(({ on }) => on === all.find(({ text }) => text.includes(words))?.on);
    const at = own.findIndex(({ text }) => text.includes(words));
    const from = own.findLastIndex(({ text }, index) => index < at && text === 'BEGIN');
    return own
      .slice(
        from + 1,
        own.findIndex(({ text }, index) => index > at && text === 'COMMIT'),
      )
      .map(statement);
  };
  const enter = all.find(({ text }) => text.includes('INSERT INTO spool_processes'));
  return {
    enter: { text: enter?.text, values: enter?.values },
    add: groupWith('INSERT INTO spool_messages'),
    outcome: groupWith('DELETE FROM spool_messages'),
    reads: reads.flatMap((form) => all.filter(({ text }) => form.test(text)).slice(-1)).map(statement),
  };
}

async function record(checkout: string, commit: string, name: string): Promise<void> {
  const [{ FaultSink }, { relaySettings }, { startPostern }, { startPostgres }, { sendOne }] = await Promise.all([
    ...([import('../fault-sink.ts'), import('../gateway-load.ts'), import('../postern-process.ts')] as const),
    ...([import('../postgres.ts'), import('../server-processes.ts')] as const),
  ]);
  const server = await startPostgres();
  const file = join(mkdtempSync(join(tmpdir(), 'postern-record-')), 'sent');
  try {
    const sink = await FaultSink.start();
    const { config = {}, env } = relaySettings(sink, await server.createDatabase());
    const recording = { NODE_OPTIONS: `--import=${import.meta.filename}`, RECORD_FILE: file, RECORD_OF: checkout };
    const postern = await startPostern({ checkout, config, env: { ...env, ...recording } });
    process.on('exit', () => void postern.end('SIGKILL'));
    await sleep(3000);
    await sendOne(postern.ports['devices'] ?? 0, 'x', 's1x1@one.test');
    await sink.received(1);
    await sleep(4000);
    await postern.end('SIGKILL');
  } finally {
    await server.remove();
  }
  const sent = readFileSync(file, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Sent)
    .map((one) => ({ ...one, text: one.text.replaceAll(/\s+/g, ' ').trim() }));
  const from = `Made by test/support/old-data/record.ts of commit ${commit}.`;
  const target = join(import.meta.dirname, `../${name}-postgres.json`);
  writeFileSync(target, `${JSON.stringify({ from, ...told(sent) }, undefined, 1)}\n`);
}

const { RECORD_FILE, RECORD_OF } = process.env;
if (RECORD_FILE !== undefined) writeDown(RECORD_FILE, RECORD_OF ?? '');
else {
  const [checkout = '', commit = '', name = ''] = process.argv.slice(2);
  await record(checkout, commit, name);
  process.exit();
}
