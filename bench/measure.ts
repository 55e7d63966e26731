// Measures Postern under the load of Postfix's smtp-source, to its smtp-sink (Debian package postfix).

import { spawn } from 'node:child_process';
import { Client } from 'pg';
import { startPostern } from './postern-under-test.ts';
import { cpuSeconds, peakMebibytes } from './process-usage.ts';
import { sinkPort, startSink, untilReceived } from './smtp-sink.ts';

/** One run's figures. */
export interface Run {
  readonly system: string;
  readonly sessions: number;
  readonly messagesPerSecond: number;
  readonly acceptedPerSecond: number;
  readonly cpuMicrosecondsPerMessage: number;
  readonly peakMebibytes: number;
}

/** How much is sent, in octets a message and sessions at once. */
export interface Load {
  readonly messages: number;
  readonly size: number;
  readonly sessions: number;
}

function runSource(port: number, load: Load): Promise<void> {
  const { messages, size, sessions } = load;
  const args = [
    '-s',
    `${sessions}`,
    '-m',
    `${messages}`,
    '-l',
    `${size}`,
    '-d',
    '-f',
    'bench@example.com',
    '-t',
    'rcpt@example.net',
  ];
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

function nameOf({ signatures, processes, journal, database }: Shape): string {
  const store = database === undefined ? '' : ', PostgreSQL';
  return `postern${store}, ${processes} process${processes === 1 ? '' : 'es'}, ${signatures} signature${signatures === 1 ? '' : 's'}, journal ${journal}`;
}

/** Runs one load through a Postern of its own. */
export async function measurePostern(load: Load, shape: Shape): Promise<Run> {
  const { signatures, processes, journal, database: url, root } = shape;
  if (url !== undefined) await empty(url);
  const database = url === undefined ? {} : { database: { url } };
  const sink = startSink();
  const postern = await startPostern({
    ...{
      sinkPort,
      platformSignature: signatures === 2,
      processes,
      ...database,
      ...(root === undefined ? {} : { root }),
    },
    journal: journal === 'off' ? { enabled: false } : { content: journal },
  });
  try {
    const cpuBefore = cpuSeconds(postern.pid);
    const start = performance.now();
    await runSource(postern.port, load);
    const acceptedSeconds = (performance.now() - start) / 1000;
    await untilReceived(sink, load.messages);
    const seconds = (performance.now() - start) / 1000;
    return {
      system: nameOf(shape),
      sessions: load.sessions,
      messagesPerSecond: load.messages / seconds,
      acceptedPerSecond: load.messages / acceptedSeconds,
      cpuMicrosecondsPerMessage: ((cpuSeconds(postern.pid) - cpuBefore) / load.messages) * 1e6,
      peakMebibytes: peakMebibytes(postern.pid),
    };
  } finally {
    await postern.stop();
    sink.stop();
  }
}
