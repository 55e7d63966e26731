// What bounces cost submission: messages a second from Postfix's smtp-source through Postern to its smtp-sink (Debian package
// postfix), alone and while reports come to the bounce listener, each by a connection of its own and about another message. In the
// rounds alone the same process sends the same reports to another smtp-sink: it runs on the same cores, and is no part of Postern.
// `npm run bench:bounces -- --help` tells the options.

import { execFileSync, fork } from 'node:child_process';
import { createSecretKey, type KeyObject } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { openSqliteFile } from '../src/base/database/sqlite-file.ts';
import { makeTokens } from '../src/mail/return-token.ts';
import { deliveryReport } from '../test/support/bounce-gateway.ts';
import { type PosternUnderTest, startPostern } from './postern-under-test.ts';
import { cpuSeconds, median, peakMebibytes } from './process-usage.ts';
import { sinkPort, startSink, untilReceived } from './smtp-sink.ts';

const usage = `Usage: npm run bench:bounces -- [options]
  --messages N   messages a run (default 10000)
  --sessions N   sessions of the generator (default 10)
  --rounds N     rounds; with and without reports alternate (default 3)
  --bounces N    reports a minute (default 10000)
  --kind WORD    hard (each suppresses an address), or forged (each recipient is refused; default hard)`;

const { values } = parseArgs({
  allowPositionals: true,
  options: {
    messages: { type: 'string', default: '10000' },
    sessions: { type: 'string', default: '10' },
    rounds: { type: 'string', default: '3' },
    bounces: { type: 'string', default: '10000' },
    kind: { type: 'string', default: 'hard' },
    help: { type: 'boolean', default: false },
  },
});

/** What the process that sends reports is told. */
interface Order {
  readonly port: number;
  readonly perMinute: number;
  /** The addresses that are reported to, one after another, each with the recipient that the report is about. */
  readonly addresses: readonly (readonly [string, string])[];
}

const fields = [
  ...['Action: failed', 'Status: 5.1.1', 'Remote-MTA: dns; mx.example.net'],
  'Diagnostic-Code: smtp; 550 5.1.1 User unknown',
];
const trace = 'Received: from one.example.net by another.example.net with ESMTP id 0123456789\r\n';
const returned = `${trace.repeat(5)}Subject: returned\r\n\r\n${'A line of text.\r\n'.repeat(180)}`;

const recipientMark = 'RECIPIENT@example.net';
/** A report of some 4 KiB, with the message that it returns. It is written once: what the sender costs is none of Postern's. */
const reportText = deliveryReport([recipientMark], fields)
  .replaceAll('\n', '\r\n')
  .replace('\r\n--=b--', `\r\n--=b\r\nContent-Type: message/rfc822\r\n\r\n${returned}\r\n--=b--`);
const reportPieces = reportText.split(recipientMark);

function reportOf(recipient: string): string {
  return reportPieces.join(recipient);
}

/** Sends one report over a connection of its own. @returns the last reply's code */
function sendReport(port: number, [address, recipient]: readonly [string, string]): Promise<number> {
  const lines = [
    'EHLO mx.example.net',
    'MAIL FROM:<>',
    `RCPT TO:<${address}>`,
    'DATA',
    `${reportOf(recipient)}.`,
    'QUIT',
  ];
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1');
    let [last, text] = [0, ''];
    socket.on('error', reject);
    socket.on('close', () => resolve(last));
    socket.setEncoding('latin1').on('data', (more: string) => {
      text += more;
      if (!/^\d{3} .*\r\n$/m.test(text)) return;
      if (!text.startsWith('221')) last = Number(text.slice(0, 3));
      text = '';
      const line = last >= 400 && lines.length > 1 ? 'QUIT' : lines.shift();
      if (line === undefined) socket.end();
      else socket.write(`${line}\r\n`);
    });
  });
}

/** The process that sends reports, at their pace, until it is told to end. */
function sendReports({ port, perMinute, addresses }: Order): void {
  const began = performance.now();
  const counts = new Map<number, number>();
  let sent = 0;
  const timer = setInterval(() => {
    const due = Math.min(addresses.length, Math.floor(((performance.now() - began) * perMinute) / 60_000));
    for (; sent < due; sent += 1) {
      void sendReport(port, addresses[sent] ?? ['', '']).then(
        (code) => counts.set(code, (counts.get(code) ?? 0) + 1),
        () => counts.set(0, (counts.get(0) ?? 0) + 1),
      );
    }
  }, 10);
  process.once('message', () => {
    clearInterval(timer);
    const seconds = (performance.now() - began) / 1000;
    process.send?.({ perMinute: Math.round((sent / seconds) * 60), counts: [...counts] }, () => process.exit(0));
  });
}

function submit(port: number, messages: number, to: string): void {
  const options = ['-s', values.sessions, '-m', `${messages}`, '-l', '4096', '-f', 'bench@example.com'];
  // Each message has a recipient of its own: a number goes before the address.
  execFileSync('smtp-source', [...options, '-N', '-t', to, `127.0.0.1:${port}`], { stdio: 'inherit' });
}

function keyOf(folder: string): KeyObject {
  return createSecretKey(Buffer.from(readFileSync(join(folder, 'certs/hmac.key'), 'utf8').trim()));
}

/** The reverse-paths of messages that were accepted; forged ones have another octet. */
function addressesOf({ folder }: PosternUnderTest, kind: string): [string, string][] {
  const database = openSqliteFile(join(folder, 'data/postern.db'));
  const rows = database
    .prepare(
      "SELECT queue_id, json_extract(event, '$.recipients[0]') AS recipient FROM mail_events WHERE kind = 'accepted'",
    )
    .all();
  database.close();
  const key = keyOf(folder);
  return rows.map((row) => {
    const { bounce } = makeTokens(String(row['queue_id']), key);
    const token =
      kind === 'forged' ? `${bounce.slice(0, 45)}${bounce[45] === 'a' ? 'b' : 'a'}${bounce.slice(46)}` : bounce;
    return [`b+${token}@bounces.platform.example`, String(row['recipient'])];
  });
}

interface Run {
  readonly messagesPerSecond: number;
  /** Of all processes of Postern. */
  readonly cpuSeconds: number;
  readonly reports?: { readonly perMinute: number; readonly counts: readonly (readonly [number, number])[] };
}

async function run(perMinute: number, to: 'postern' | 'elsewhere'): Promise<Run> {
  const messages = Number(values.messages);
  const sink = startSink();
  const elsewhere = to === 'elsewhere' ? startSink(sinkPort + 1) : undefined;
  const postern = await startPostern({
    sinkPort,
    platformSignature: false,
    listeners: [{ name: 'bounce', role: 'bounce', listen: '127.0.0.1:0', tls: 'none' }],
    bounces: { messagesPerMinute: 1_000_000 },
  });
  // The messages that are reported about; the run itself is measured with as many in the events, reported about or not.
  submit(postern.port, messages, 'gone@example.net');
  await untilReceived(sink, messages);
  const reporter = perMinute > 0 ? fork(import.meta.filename, ['reporter']) : undefined;
  const port = elsewhere ? sinkPort + 1 : (postern.ports.get('bounce') ?? 0);
  reporter?.send({ port, perMinute, addresses: addressesOf(postern, values.kind) });
  if (reporter) await new Promise((wait) => setTimeout(wait, 1000));
  const cpuBefore = cpuSeconds(postern.pid);
  const began = performance.now();
  submit(postern.port, messages, 'there@example.org');
  await untilReceived(sink, 2 * messages);
  const seconds = (performance.now() - began) / 1000;
  const cpu = cpuSeconds(postern.pid) - cpuBefore;
  let reports: Run['reports'];
  if (reporter) {
    reporter.send('end');
    [reports] = (await once(reporter, 'message')) as [Run['reports']];
  }
  process.stderr.write(`peak ${peakMebibytes(postern.pid)} MiB\n`);
  await postern.stop();
  sink.stop();
  elsewhere?.stop();
  // The next sink needs its port.
  await new Promise((wait) => setTimeout(wait, 1000));
  return { messagesPerSecond: messages / seconds, cpuSeconds: cpu, ...(reports ? { reports } : {}) };
}

async function compare(): Promise<void> {
  const [alone, beside]: [Run[], Run[]] = [[], []];
  const cpu = ({ cpuSeconds: seconds }: Run): string => ((seconds / Number(values.messages)) * 1e6).toFixed(0);
  for (let round = 0; round < Number(values.rounds); round += 1) {
    const perMinuteAsked = Number(values.bounces);
    const [one, other] = [await run(perMinuteAsked, 'elsewhere'), await run(perMinuteAsked, 'postern')];
    alone.push(one);
    beside.push(other);
    const { perMinute, counts } = other.reports ?? {};
    process.stdout.write(
      `alone ${one.messagesPerSecond.toFixed(0)} messages/s, ${cpu(one)} us of CPU a message; beside ${perMinute} ${values.kind} reports/min ${other.messagesPerSecond.toFixed(0)} messages/s, ${cpu(other)} us a message with its share of reports; replies ${JSON.stringify(counts)}\n`,
    );
  }
  const [one, other] = [alone, beside].map((runs) => median(runs.map(({ messagesPerSecond }) => messagesPerSecond)));
  const slower = (1 - (other ?? 0) / (one ?? 1)) * 100;
  process.stdout.write(
    `medians: ${one?.toFixed(0)} and ${other?.toFixed(0)} messages/s: ${slower.toFixed(0)} % slower\n`,
  );
}

if (process.argv[2] === 'reporter') process.once('message', (order: Order) => sendReports(order));
else if (values.help) process.stdout.write(`${usage}\n`);
else await compare();
