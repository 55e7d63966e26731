// npm run bench:metrics: what 100,000 queued messages cost those beside them. Acceptance alone and while readers loop on
// /metrics, then time and memory of `postern queue` over the whole queue. `--help` tells the options.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { uuidv7 } from '../src/base/ids.ts';
import { outcomeEvent } from '../src/spool/spool-events.ts';
import { SqliteSpool } from '../src/spool/sqlite/sqlite-spool.ts';
import { connectSmtp } from '../test/support/raw-smtp-client.ts';
import { type PosternUnderTest, startPostern } from './postern-under-test.ts';
import { peakMebibytes } from './process-usage.ts';
import { firstLine, script } from './script.ts';
import { sinkPort, startSink } from './smtp-sink.ts';

const usage = `Usage: npm run bench:metrics -- [options]
  --queued N    messages that wait, none of them due (default 100000)
  --readers N   loops on /metrics (default 20)
  --sessions N  SMTP sessions that send without a pause (default 10)
  --seconds N   how long each measurement lasts (default 10)
  --retry       also measure \`queue retry --all\` and what is accepted meanwhile`;

const body = Buffer.alloc(4096, 'What waits has a body of four kilobytes.\r\n');
const message = `From: a@example.com\r\nTo: b@example.net\r\nSubject: bench\r\n\r\n${body.toString('latin1')}\r\n.\r\n`;

async function fill(file: string, queued: number): Promise<void> {
  const spool = await SqliteSpool.open({ file });
  const later = Date.now() + 7 * 24 * 3_600_000;
  const reply = { code: 451, enhanced: '4.4.1', text: 'Cannot connect' };
  for (let done = 0; done < queued; done += 1000) {
    const now = Date.now();
    const ids = Array.from({ length: Math.min(1000, queued - done) }, () => uuidv7(now));
    const entry = { account: 'dev', credential: 'devices', sessionId: 'bench', reversePath: '', senderPath: '' };
    const entries = ids.map((id) => ({
      ...entry,
      id,
      messageId: `<${id}@platform.example>`,
      recipients: ['b@example.net'],
      smtputf8: false,
      requireTls: false,
      acceptedAt: now,
      expiresAt: later,
      head: Buffer.from(`Message-ID: <${id}@platform.example>\r\n\r\n`),
      body,
    }));
    await Promise.all(entries.map((one) => spool.add(one, 0)));
    const outcome = { kind: 'deferred', reply, host: 'sink' } as const;
    const attempt = { recipient: 'b@example.net', outcome, nextAttemptAt: later, at: now, route: 'sink' };
    await spool.record(entries.map((one) => outcomeEvent(one, { ...attempt, attempts: 1, size: body.length })));
  }
  await spool.close();
}

async function sendUntil(port: number, end: number): Promise<number> {
  const client = await connectSmtp(port);
  await client.reply();
  await client.command('EHLO bench.example');
  let accepted = 0;
  while (performance.now() < end) {
    await client.command('MAIL FROM:<a@example.com>');
    await client.command('RCPT TO:<b@example.net>');
    await client.command('DATA');
    client.write(message);
    const { code } = await client.reply();
    if (code !== 250) throw new Error(`A message was answered ${code}`);
    if (performance.now() < end) accepted += 1;
  }
  client.close();
  return accepted;
}

async function acceptedPerSecond(port: number, load: { readonly sessions: number; readonly seconds: number }) {
  const end = performance.now() + load.seconds * 1000;
  const counts = await Promise.all(Array.from({ length: load.sessions }, () => sendUntil(port, end)));
  return Math.round(counts.reduce((sum, count) => sum + count, 0) / load.seconds);
}

interface CommandRun {
  readonly command: string;
  readonly seconds: number;
  readonly peakMebibytes: number;
  readonly lines: number;
}

async function runCommand(postern: PosternUnderTest, args: readonly string[]): Promise<CommandRun> {
  const start = performance.now();
  const main = resolve(import.meta.dirname, '../src/main.ts');
  const { folder } = postern;
  const child: ChildProcess = spawn(process.execPath, [main, 'queue', ...args], {
    env: {
      ...process.env,
      POSTERN_CONFIG: join(folder, 'postern.yaml'),
      POSTERN_DATA_DIR: join(folder, 'data'),
      POSTERN_CERTS_DIR: join(folder, 'certs'),
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let peak = 0;
  const watch = setInterval(() => {
    if (child.pid !== undefined && child.exitCode === null) peak = Math.max(peak, peakMebibytes(child.pid));
  }, 20);
  let lines = 0;
  child.stdout?.on('data', (piece: Buffer) => {
    for (const octet of piece) lines += octet === 10 ? 1 : 0;
  });
  await once(child, 'close');
  clearInterval(watch);
  const seconds = Math.round((performance.now() - start) / 10) / 100;
  return { command: `queue ${args.join(' ')}`, seconds, peakMebibytes: Math.round(peak), lines };
}

const { values } = parseArgs({
  options: {
    queued: { type: 'string', default: '100000' },
    readers: { type: 'string', default: '20' },
    sessions: { type: 'string', default: '10' },
    seconds: { type: 'string', default: '10' },
    retry: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  console.log(usage);
  process.exit(0);
}
const load = { sessions: Number(values.sessions), seconds: Number(values.seconds) };
const folder = mkdtempSync(join(tmpdir(), 'postern-bench-'));
mkdirSync(join(folder, 'data'), { mode: 0o700 });
await fill(join(folder, 'data/postern.db'), Number(values.queued));
const sink = startSink();
const postern = await startPostern({ sinkPort, platformSignature: false, folder });
try {
  await acceptedPerSecond(postern.port, { ...load, seconds: 3 });
  console.log(JSON.stringify({ alone: await acceptedPerSecond(postern.port, load), unit: 'accepted/s' }));
  const readers = script('metrics-readers.ts', [String(postern.httpPort), values.readers]);
  const answers = firstLine(readers);
  const beside = await acceptedPerSecond(postern.port, load);
  readers.kill('SIGTERM');
  const scrapes = Math.round(Number(await answers) / load.seconds);
  console.log(JSON.stringify({ besideReaders: beside, unit: 'accepted/s', scrapesPerSecond: scrapes }));
  for (const args of [['list'], ['list', '--state', 'failed'], ['list', '--limit', '100000', '--json']])
    console.log(JSON.stringify(await runCommand(postern, args)));
  if (values.retry) {
    const [accepted, run] = await Promise.all([
      acceptedPerSecond(postern.port, load),
      runCommand(postern, ['retry', '--all']),
    ]);
    console.log(JSON.stringify({ besideRetry: accepted, ...run }));
  }
} finally {
  await postern.stop();
  sink.stop();
}
