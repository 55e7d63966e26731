// npm run bench: messages a second accepted and relayed, from Postfix's smtp-source through Postern to its smtp-sink
// (Debian package postfix). `--help` tells the options. Prints one JSON line a run, then a table of medians.

import { execFileSync, spawn } from 'node:child_process';
import { appendFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { Client } from 'pg';
import { startPostern } from './postern-under-test.ts';
import { cpuSeconds, median, peakMebibytes } from './process-usage.ts';
import { sinkPort, startSink, untilReceived } from './smtp-sink.ts';

const usage = `Usage: npm run bench -- [options]
  --messages N      messages a run (default 10000)
  --size N          octets a message (default 4096)
  --sessions LIST   sessions of the generator (default 10,50)
  --rounds N        rounds; the systems alternate within each (default 3)
  --signatures LIST 1: the sending domain's RSA-2048 signature; 2: the platform's too (default 1,2)
  --processes LIST  processes that share the load (default 1)
  --journal LIST    what the journal keeps: off (no rows), none (rows alone), headers, full (default none)
  --database URL    postgres://... in place of SQLite; its tables are removed before each run
  --beside NAME=CMD another system under the same load: a shell command run with N, SIZE and SESS set that prints a
                    JSON line with drained_msgs_s, cpu_us_msg and peak_rss_mib; may be given several times
  --out FILE        append every run's JSON line to FILE too`;

/** One run's figures. */
interface Run {
  readonly system: string;
  readonly sessions: number;
  readonly messagesPerSecond: number;
  readonly acceptedPerSecond: number;
  readonly cpuMicrosecondsPerMessage: number;
  readonly peakMebibytes: number;
}

interface Load {
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

interface Shape {
  readonly signatures: number;
  readonly processes: number;
  /** `off`, or `journal.content`. */
  readonly journal: string;
  /** A database of PostgreSQL; absent: SQLite. */
  readonly database: string | undefined;
}

function nameOf({ signatures, processes, journal, database }: Shape): string {
  const store = database === undefined ? '' : ', PostgreSQL';
  return `postern${store}, ${processes} process${processes === 1 ? '' : 'es'}, ${signatures} signature${signatures === 1 ? '' : 's'}, journal ${journal}`;
}

async function measurePostern(load: Load, shape: Shape): Promise<Run> {
  const { signatures, processes, journal, database: url } = shape;
  if (url !== undefined) await empty(url);
  const database = url === undefined ? {} : { database: { url } };
  const sink = startSink();
  const postern = await startPostern({
    ...{ sinkPort, platformSignature: signatures === 2, processes, ...database },
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

function measureBeside(beside: { readonly name: string; readonly command: string }, load: Load): Run {
  const env = { ...process.env, N: `${load.messages}`, SIZE: `${load.size}`, SESS: `${load.sessions}`, REUSE: '1' };
  const output = execFileSync('bash', ['-c', beside.command], {
    env,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const line = JSON.parse(output.trim().split('\n').at(-1) ?? '') as Record<string, number>;
  const figure = (name: string): number => line[name] ?? Number.NaN;
  return {
    system: beside.name,
    sessions: load.sessions,
    messagesPerSecond: figure('drained_msgs_s'),
    acceptedPerSecond: figure('accepted_msgs_s'),
    cpuMicrosecondsPerMessage: figure('cpu_us_msg'),
    peakMebibytes: figure('peak_rss_mib'),
  };
}

function printTable(runs: readonly Run[]): void {
  console.log(
    '\n| system | sessions | relayed msg/s | accepted msg/s | CPU us/msg | peak RSS MiB |\n|---|---|---|---|---|---|',
  );
  const groups = Map.groupBy(runs, (run) => `${run.system}\0${run.sessions}`);
  for (const group of groups.values()) {
    const [first] = group;
    if (!first) continue;
    const middle = (pick: (run: Run) => number): string => Math.round(median(group.map(pick))).toLocaleString('en');
    console.log(
      `| ${first.system} | ${first.sessions} | ${middle((run) => run.messagesPerSecond)} | ${middle((run) => run.acceptedPerSecond)} | ${middle((run) => run.cpuMicrosecondsPerMessage)} | ${middle((run) => run.peakMebibytes)} |`,
    );
  }
}

const { values } = parseArgs({
  options: {
    messages: { type: 'string', default: '10000' },
    size: { type: 'string', default: '4096' },
    sessions: { type: 'string', default: '10,50' },
    rounds: { type: 'string', default: '3' },
    signatures: { type: 'string', default: '1,2' },
    processes: { type: 'string', default: '1' },
    journal: { type: 'string', default: 'none' },
    database: { type: 'string' },
    beside: { type: 'string', multiple: true, default: [] },
    out: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  console.log(usage);
  process.exit(0);
}
const beside = values.beside.map((text) => ({
  name: text.slice(0, text.indexOf('=')),
  command: text.slice(text.indexOf('=') + 1),
}));
const runs: Run[] = [];
const keep = (run: Run): void => {
  runs.push(run);
  const line = JSON.stringify(run);
  console.log(line);
  if (values.out) appendFileSync(values.out, `${line}\n`);
};
for (let round = 0; round < Number(values.rounds); round += 1) {
  for (const sessions of values.sessions.split(',').map(Number)) {
    const load: Load = { messages: Number(values.messages), size: Number(values.size), sessions };
    for (const signatures of values.signatures.split(',').map(Number)) {
      for (const processes of values.processes.split(',').map(Number)) {
        for (const journal of values.journal.split(','))
          keep(await measurePostern(load, { signatures, processes, journal, database: values.database }));
      }
    }
    for (const other of beside) keep(measureBeside(other, load));
  }
}
printTable(runs);
