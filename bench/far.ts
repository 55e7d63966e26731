// Gateways beside one another on one PostgreSQL that is far away, with one account: how much more several accept than one, how
// many round trips a lone session waits, and what a message of 4 KB costs the server. `node bench/far.ts --help`.

import { fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { freePort } from '../test/support/free-port.ts';
import { startPostgres } from '../test/support/postgres.ts';
import type { FarAnswer } from './far-proxy.ts';
import { type PosternUnderTest, startPostern } from './postern-under-test.ts';
import { cpuSeconds } from './process-usage.ts';
import { startSink, untilReceived } from './smtp-sink.ts';

const usage = `Usage: node bench/far.ts [options]
  --gateways LIST   gateways at once, each a run of its own (default 1,6)
  --messages N      messages for each gateway (default 400)
  --sessions N      sessions for each gateway (default 5)
  --warm N          messages that each gateway takes before anything is measured (default 1000)
  --ms N            milliseconds of a round trip to the server (default 60)
  --count           counts octets of the log, statements and round trips of one gateway in place of that
  --records         with --count: what the octets of the log are (needs pg_walinspect)
  --root FOLDER     the checkout whose gateway runs (default: this one)

Needs Debian's postfix and postgresql, root, and a quiet machine. The server syncs to the disk.`;

const { values } = parseArgs({
  options: {
    gateways: { type: 'string', default: '1,6' },
    messages: { type: 'string', default: '400' },
    sessions: { type: 'string', default: '5' },
    warm: { type: 'string', default: '1000' },
    ms: { type: 'string', default: '60' },
    count: { type: 'boolean', default: false },
    records: { type: 'boolean', default: false },
    root: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});

/** A message of 4 KB as people write them: what PostgreSQL makes of its octets is what it makes of such. */
function writeMessage(): string {
  const text = readFileSync(resolve(import.meta.dirname, '../docs/architecture.md'), 'utf8').replaceAll(
    /[^\n -~]/g,
    '',
  );
  const lines = text.split('\n').flatMap((line) => line.match(/.{1,76}/g) ?? []);
  const fields = ['From: bench@example.com', 'To: rcpt@example.net', 'Subject: What a message costs', ''];
  const file = join(tmpdir(), `postern-far-${process.pid}.eml`);
  writeFileSync(file, `${[...fields, ...lines].join('\n').slice(0, 4096)}\n`);
  return file;
}

async function send(port: number, sessions: number, messages: number, file: string): Promise<void> {
  const args = ['-s', `${sessions}`, '-m', `${messages}`, '-d', '-F', file, '-f', 'bench@example.com'];
  const source = spawn('smtp-source', [...args, '-t', 'rcpt@example.net', `127.0.0.1:${port}`], { stdio: 'inherit' });
  const [code] = await once(source, 'exit');
  if (code !== 0) throw new Error(`smtp-source ended with ${String(code)}`);
}

/** A server with the way to it, and gateways on an empty database of it. */
async function withGateways<T>(
  count: number,
  work: (parts: {
    readonly gateways: readonly PosternUnderTest[];
    readonly direct: pg.Client;
    readonly statements: () => Promise<number>;
    readonly serverPid: number;
  }) => Promise<T>,
): Promise<T> {
  const port = await freePort();
  // Whole pages, of which the log has one after each checkpoint, say nothing about a message.
  const settings = values.count ? ['full_page_writes=off', 'autovacuum=off'] : [];
  const server = await startPostgres({ port, fsync: true, settings });
  const proxy = fork(join(import.meta.dirname, 'far-proxy.ts'), [String(port), values.ms]);
  const answer = async (): Promise<FarAnswer> => {
    const [told] = (await once(proxy, 'message')) as [FarAnswer];
    return told;
  };
  const { port: farPort } = await answer();
  const direct = new pg.Client(server.url('postgres'));
  const gateways: PosternUnderTest[] = [];
  try {
    await direct.connect();
    const url = `postgres://postgres@127.0.0.1:${farPort}/postgres`;
    const root = values.root === undefined ? {} : { root: resolve(values.root) };
    const options = {
      ...root,
      sinkPort: 2601,
      platformSignature: false,
      database: { url },
      journal: { content: 'none' },
    };
    // The first one makes the tables.
    gateways.push(await startPostern(options));
    gateways.push(...(await Promise.all(Array.from({ length: count - 1 }, () => startPostern(options)))));
    const statements = async (): Promise<number> => {
      proxy.send('count');
      return (await answer()).statements ?? 0;
    };
    return await work({ gateways, direct, statements, serverPid: server.pid() });
  } finally {
    await Promise.all(gateways.map((gateway) => gateway.stop()));
    await direct.end();
    proxy.disconnect();
    await server.remove();
  }
}

/** Messages that each gateway takes before anything is measured: V8 compiles for so long. */
const warm = Number(values.warm);

/** How much some gateways accept together, in messages a second. */
async function accepted(count: number, file: string): Promise<number> {
  const [messages, sessions] = [Number(values.messages), Number(values.sessions)];
  const sink = startSink(2601);
  try {
    return await withGateways(count, async ({ gateways }) => {
      // The first messages open connections, and warm V8 up.
      await Promise.all(gateways.map(({ port }) => send(port, sessions, warm, file)));
      const began = performance.now();
      const cpu = gateways.reduce((sum, { pid }) => sum + cpuSeconds(pid), 0);
      const ends: number[] = [];
      const each = gateways.map(async ({ port }) => {
        await send(port, sessions, messages, file);
        ends.push(messages / ((performance.now() - began) / 1000));
      });
      await Promise.all(each);
      const used = gateways.reduce((sum, { pid }) => sum + cpuSeconds(pid), 0) - cpu;
      const rate = ends.reduce((sum, one) => sum + one, 0);
      await untilReceived(sink, count * (messages + warm));
      const slowest = Math.min(...ends).toFixed(1);
      const fastest = Math.max(...ends).toFixed(1);
      console.log(
        `${count} gateways: ${rate.toFixed(1)} messages a second (each ${slowest} to ${fastest}), ${Math.round((used / count / messages) * 1e6)} us of CPU a message`,
      );
      return rate;
    });
  } finally {
    sink.stop();
  }
}

/** The records of a part of the log by table and kind: how many there are for each message, and their octets. */
async function recordsOf(direct: pg.Client, span: readonly number[], messages: number): Promise<readonly object[]> {
  await direct.query('CREATE EXTENSION IF NOT EXISTS pg_walinspect');
  const { rows } = await direct.query<{ what: string; type: string; records: string; octets: string }>(
    `SELECT coalesce(pg_filenode_relation(0, (regexp_match(block_ref, 'rel [0-9]+/[0-9]+/([0-9]+)'))[1]::oid)::regclass::text,
       resource_manager) AS what, record_type AS type, count(*) AS records, sum(record_length) AS octets
     FROM pg_get_wal_records_info('0/0'::pg_lsn + $1::numeric, '0/0'::pg_lsn + $2::numeric)
     GROUP BY 1, 2 ORDER BY sum(record_length) DESC LIMIT 60`,
    [...span],
  );
  return rows.map(({ what, type, records, octets }) => ({
    ...{ what, type, records: (Number(records) / messages).toFixed(2), octets: Math.round(Number(octets) / messages) },
  }));
}

/** Counts what a message costs the server. */
async function countOne(file: string): Promise<void> {
  const [messages, sessions] = [Number(values.messages), Number(values.sessions)];
  const sink = startSink(2601);
  await withGateways(1, async ({ gateways: [gateway], direct, statements }) => {
    if (!gateway) return;
    const wal = async (): Promise<number> => {
      const { rows } = await direct.query<{ at: string }>("SELECT pg_current_wal_insert_lsn() - '0/0' AS at");
      return Number(rows[0]?.at);
    };
    let sent = 20;
    await send(gateway.port, 1, sent, file);
    await untilReceived(sink, sent);
    await sleep(3000);
    const idle = await wal();
    const idleStatements = await statements();
    await sleep(5000);
    const [beside, besideStatements] = [((await wal()) - idle) / 5, ((await statements()) - idleStatements) / 5];
    const alone = Math.min(messages, 30);
    let began = performance.now();
    await send(gateway.port, 1, alone, file);
    const trips = (performance.now() - began) / alone / Number(values.ms);
    sent += alone;
    await untilReceived(sink, sent);
    await sleep(3000);
    const [before, asked] = [await wal(), await statements()];
    began = performance.now();
    await send(gateway.port, sessions, messages, file);
    await untilReceived(sink, sent + messages);
    await sleep(3000);
    const seconds = (performance.now() - began) / 1000;
    const after = await wal();
    const octets = after - before - beside * seconds;
    const asks = (await statements()) - asked - besideStatements * seconds;
    if (values.records) console.table(await recordsOf(direct, [before, after], messages));
    await direct.query('CREATE TEMP TABLE own (octets bytea)');
    await direct.query('INSERT INTO own VALUES ($1)', [readFileSync(file)]);
    const { rows } = await direct.query<{ own: number }>('SELECT pg_column_size(octets) AS own FROM own');
    console.log(`One session waits ${trips.toFixed(2)} round trips for each message, from MAIL to the 250 of its end.`);
    console.log(
      `A message that is accepted and delivered, in ${sessions} sessions: ${Math.round(octets / messages)} octets of the log, of which ${rows[0]?.own} are the message's own, and ${(asks / messages).toFixed(1)} statements.`,
    );
  });
  sink.stop();
}

async function main(): Promise<void> {
  const load = loadavg()[0] ?? 0;
  console.log(`Round trips of ${values.ms} ms, ${values.sessions} sessions a gateway; load average ${load.toFixed(1)}`);
  const file = writeMessage();
  if (values.count) {
    await countOne(file);
    return;
  }
  const rates: number[] = [];
  for (const count of values.gateways.split(',').map(Number)) rates.push(await accepted(count, file));
  const [first = 1] = rates;
  for (const rate of rates.slice(1)) console.log(`${(rate / first).toFixed(2)} times what the first run accepted`);
}

if (values.help) console.log(usage);
else await main();
