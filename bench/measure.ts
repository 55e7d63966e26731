// Measures Postern, or the unavoidable work alone, under a load of mail, to Postfix's smtp-sink (Debian package postfix).

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { makeCertificate } from '../src/app/bootstrap/bootstrap.ts';
import { benchToken, startSettled } from './postern-under-test.ts';
import { cpuSeconds, peakMebibytes } from './process-usage.ts';
import { startOrigin } from './script.ts';
import { runSmtpLoad, type SmtpJob } from './smtp-load.ts';
import { sinkPort, startSink, untilReceived } from './smtp-sink.ts';
import type { UnavoidableJob } from './unavoidable-work.ts';

/** One run's figures. */
export interface Run {
  readonly system: string;
  /** Name of a form. */
  readonly form: string;
  readonly sessions: number;
  readonly messagesPerSecond: number;
  readonly acceptedPerSecond: number;
  readonly cpuMicrosecondsPerMessage: number;
  readonly peakMebibytes: number;
  /** Milliseconds from the final dot to the reply, where the form tells. */
  readonly p50?: number;
  readonly p99?: number;
}

/** How much is sent, in octets a message and sessions at once. */
export interface Load {
  readonly messages: number;
  readonly size: number;
  readonly sessions: number;
  /** Absent: `plain`. */
  readonly form?: Form;
}

/** A form in which the mail of a run is handed in. */
export interface Form {
  readonly name: string;
  /** In tables. */
  readonly text: string;
  /** Octets of a message, in place of those of the load. */
  readonly size?: number;
  /** Of the messages of the load: so many times as many. */
  readonly share?: number;
  /** So many messages before, which are not counted: V8 compiles while a process is new. */
  readonly warm?: number;
  /** A connection for each message. */
  readonly each?: true;
  /** By the load of this folder, not by smtp-source, which cannot do it. */
  readonly own?: { readonly tls?: true; readonly refuseEvery?: number; readonly halfLoad?: true };
}

/** Every form. */
export const forms: readonly Form[] = [
  { name: 'plain', text: '4 KB, connections stay open' },
  { name: 'warm', text: '4 KB, behind 20,000 messages', warm: 20_000 },
  { name: 'each', text: '4 KB, a connection each', each: true },
  { name: 'large', text: '50 KB', size: 51_200, share: 0.5 },
  { name: 'tls', text: '4 KB, STARTTLS and AUTH', own: { tls: true } },
  { name: 'tls-each', text: '4 KB, STARTTLS and AUTH, a connection each', each: true, share: 0.5, own: { tls: true } },
  { name: 'refused', text: '4 KB, a tenth refused', own: { refuseEvery: 10 } },
  { name: 'latency', text: '4 KB at half of the full load', own: { halfLoad: true } },
];

function runSource(port: number, { messages, size, sessions, form }: Load): Promise<void> {
  const args = ['-s', sessions, '-m', messages, '-l', size, ...(form?.each ? [] : ['-d'])].map(String);
  args.push('-f', 'bench@example.com', '-t', 'rcpt@example.net');
  const source = spawn('smtp-source', [...args, `127.0.0.1:${port}`], { stdio: ['ignore', 'inherit', 'inherit'] });
  return new Promise((resolve, reject) => {
    source.once('error', reject);
    source.once('exit', (code) => (code === 0 ? resolve() : reject(new Error(`smtp-source ended with ${code}`))));
  });
}

/** Removes what a database of PostgreSQL has. */
async function empty(url: string): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  await client.query('DROP SCHEMA public CASCADE; CREATE SCHEMA public');
  await client.end();
}

/** Which Postern is measured. */
export interface Shape {
  readonly signatures: number;
  readonly processes: number;
  /** `off`, or `journal.content`. */
  readonly journal: string;
  /** A database of PostgreSQL; absent: SQLite. */
  readonly database: string | undefined;
  /** The checkout whose Postern it is; absent: this one. */
  readonly root?: string;
}

function plural(signatures: number): string {
  return `${signatures} signature${signatures === 1 ? '' : 's'}`;
}

function nameOf({ signatures, processes, journal, database }: Shape): string {
  const store = database === undefined ? '' : ', PostgreSQL';
  return `postern${store}, ${processes} process${processes === 1 ? '' : 'es'}, ${plural(signatures)}, journal ${journal}`;
}

/** A submission listener by STARTTLS and AUTH, beside the one without. */
const tlsListener = { name: 'submission', role: 'submission', listen: '127.0.0.1:0', tls: 'starttls' };

/** What a load has told, and how many of its messages the sink shall get. */
interface Sent {
  readonly p50?: number;
  readonly p99?: number;
  /** Messages a second that were asked for. */
  readonly rate?: number;
  readonly relayed: number;
}

/** Sends all messages of a load; at half load the first half of them, as fast as can be, tells what half load is. */
async function sendAll(ports: ReadonlyMap<string, number>, load: Load): Promise<Sent> {
  const { messages, sessions, size, form } = load;
  const own = form?.own;
  if (!own) {
    await runSource(ports.get('devices') ?? 0, load);
    return { relayed: messages };
  }
  const job: SmtpJob = {
    ...{ port: ports.get(own.tls ? 'submission' : 'devices') ?? 0, messages, sessions, size },
    ...(form.each ? { each: true } : {}),
    ...(own.tls ? { token: benchToken } : {}),
    ...(own.refuseEvery === undefined ? {} : { refuseEvery: own.refuseEvery }),
  };
  if (!own.halfLoad) {
    const { answers } = await runSmtpLoad(job);
    return { relayed: answers['250'] ?? 0 };
  }
  const half = { ...job, messages: Math.ceil(messages / 2) };
  const { seconds } = await runSmtpLoad(half);
  const rate = half.messages / seconds / 2;
  const { p50, p99 } = await runSmtpLoad({ ...half, rate });
  return { p50, p99, rate, relayed: half.messages * 2 };
}

/** What is measured: a process, its listeners by name, and how it ends. */
interface UnderTest {
  readonly pid: number;
  readonly ports: ReadonlyMap<string, number>;
  stop(): Promise<void>;
}

/** Runs one load through a system of its own. @param start starts it, when the next hop is up */
async function measure(system: string, load: Load, start: () => Promise<UnderTest>): Promise<Run> {
  const sink = startSink();
  let tested: UnderTest | undefined;
  try {
    tested = await start();
    const warm = load.form?.warm ?? 0;
    if (warm > 0) await runSource(tested.ports.get('devices') ?? 0, { ...load, messages: warm });
    await untilReceived(sink, warm);
    const cpuBefore = cpuSeconds(tested.pid);
    const begun = performance.now();
    const { relayed, rate, ...times } = await sendAll(tested.ports, load);
    const acceptedSeconds = (performance.now() - begun) / 1000;
    await untilReceived(sink, warm + relayed);
    const seconds = (performance.now() - begun) / 1000;
    return {
      system,
      form: load.form?.name ?? 'plain',
      sessions: load.sessions,
      messagesPerSecond: rate ?? load.messages / seconds,
      acceptedPerSecond: load.messages / acceptedSeconds,
      cpuMicrosecondsPerMessage: ((cpuSeconds(tested.pid) - cpuBefore) / load.messages) * 1e6,
      peakMebibytes: peakMebibytes(tested.pid),
      ...times,
    };
  } finally {
    await tested?.stop();
    sink.stop();
  }
}

/** Runs one load through a Postern of its own. */
export async function measurePostern(load: Load, shape: Shape): Promise<Run> {
  const { signatures, processes, journal, database: url, root } = shape;
  if (url !== undefined) await empty(url);
  const options = {
    ...{ sinkPort, platformSignature: signatures === 2, processes },
    ...(url === undefined ? {} : { database: { url } }),
    ...(root === undefined ? {} : { root }),
    ...(load.form?.own?.tls ? { listeners: [tlsListener] } : {}),
    journal: journal === 'off' ? { enabled: false } : { content: journal },
  };
  return measure(nameOf(shape), load, () => startSettled(options));
}

/** Runs one load through what no gateway can avoid, and nothing else (unavoidable-work.ts). @param signatures 1 or 2 */
export async function measureUnavoidable(load: Load, signatures: number): Promise<Run> {
  const folder = mkdtempSync(join(tmpdir(), 'postern-bench-unavoidable-'));
  const { certificate, privateKey } = await makeCertificate('localhost', Date.now());
  const tls = { cert: certificate, key: privateKey };
  const job: UnavoidableJob = { folder, sinkPort, signatures, token: benchToken, tls };
  try {
    return await measure(`the unavoidable work alone, ${plural(signatures)}`, load, async () => {
      const { port, ...rest } = await startOrigin('unavoidable-work.ts', [JSON.stringify(job)]);
      return { ...rest, ports: new Map(['devices', 'submission'].map((name) => [name, port])) };
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
}
