// npm run bench:proxy: octets and connections a second through a proxy application of Postern, beside the same origin
// behind Debian's HAProxy (package haproxy) and the origin alone, in turn in one run. Origin and load are processes of
// their own (proxy-origin, proxy-load). `--help` tells the options. Prints one JSON line a run, then tables of medians.

import { type ChildProcess, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { appendFileSync } from 'node:fs';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { isUp, startHaproxy } from './haproxy-under-test.ts';
import { startPostern } from './postern-under-test.ts';
import { cpuSeconds, median, peakMebibytes } from './process-usage.ts';

const usage = `Usage: npm run bench:proxy -- [options]
  --mebibytes N      carried by a run of transfers (default 512)
  --transfers LIST   connections at once that carry them (default 1,10)
  --connections N    connections of a run of short ones: connect, a line, an answer of 100, close (default 4000)
  --at-once LIST     short connections at once (default 10,50)
  --rounds N         rounds (default 2)
  --systems LIST     of postern,haproxy,direct (default all)
  --out FILE         append every run's JSON line to FILE too`;

/** What a run asks for. */
interface Load {
  readonly kind: 'transfer' | 'connect';
  readonly atOnce: number;
  readonly connections: number;
  readonly octets: number;
}

/** One run's figures. */
interface Run {
  readonly system: string;
  readonly kind: Load['kind'];
  readonly atOnce: number;
  /** Of transfers. */
  readonly mebibytesPerSecond?: number;
  readonly cpuSecondsPerGibibyte?: number;
  /** Of short connections. */
  readonly connectionsPerSecond?: number;
  readonly cpuMicrosecondsPerConnection?: number;
  readonly p50Milliseconds?: number;
  readonly p99Milliseconds?: number;
  readonly peakMebibytes?: number;
  /** Of the machine over the last minute, when the run ended. */
  readonly loadAverage: number;
}

/** What is measured: where it listens, and the process whose CPU counts. */
interface UnderTest {
  readonly name: string;
  readonly address: string;
  readonly port: number;
  readonly pid?: number;
  stop(): Promise<void>;
}

const mebibyte = 2 ** 20;

function script(name: string, args: readonly string[] = []): ChildProcess {
  return spawn(process.execPath, [join(import.meta.dirname, name), ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
}

async function firstLine(child: ChildProcess): Promise<string> {
  if (!child.stdout) throw new Error('A script without output');
  for await (const line of createInterface({ input: child.stdout })) return line;
  throw new Error('A script ended without a line');
}

async function startOrigin(): Promise<UnderTest> {
  const child = script('proxy-origin.ts');
  const port = Number(await firstLine(child));
  return {
    name: 'direct',
    address: '127.0.0.1',
    port,
    stop: async () => {
      child.kill('SIGTERM');
      await once(child, 'exit');
    },
  };
}

/** A Postern whose configuration has the application; it listens on the first address of a pool that nobody else has. */
async function startProxyApplication(originPort: number): Promise<UnderTest> {
  const pool = `127.${randomInt(100, 250)}.${randomInt(1, 250)}`;
  const application = {
    id: '1'.repeat(32),
    protocol: 'tcp/22',
    dns: { type: 'CNAME', name: 'app.bench.example' },
    origin_direct: [`tcp://127.0.0.1:${originPort}`],
  };
  const zone = { name: 'bench.example', id: '1'.repeat(32), account: 'dev', applications: [application] };
  const postern = await startPostern({
    sinkPort: 9, // no message is sent: the port of the smarthost is never used
    platformSignature: false,
    zones: [zone],
    proxy: { ipv4Pool: `${pool}.0/24`, portOffset: 20_000 },
  });
  const place = { address: `${pool}.1`, port: 20_022 };
  if (!(await isUp(place.address, place.port))) throw new Error('The application does not listen');
  return { name: 'postern', pid: postern.pid, ...place, stop: () => postern.stop() };
}

async function startSystem(name: string, origin: UnderTest): Promise<UnderTest> {
  if (name === 'direct') return { ...origin, stop: async () => undefined };
  if (name === 'haproxy') return { name, ...(await startHaproxy(origin.port)) };
  return startProxyApplication(origin.port);
}

async function load({ address, port }: UnderTest, { atOnce, connections, octets }: Load) {
  const child = script('proxy-load.ts', [address, port, atOnce, connections, octets].map(String));
  return JSON.parse(await firstLine(child)) as Record<'seconds' | 'p50' | 'p99', number>;
}

async function measure(system: UnderTest, under: Load): Promise<Run> {
  const { kind, atOnce, connections, octets } = under;
  // Warm: the first connections compile what the others run.
  const fewer = kind === 'transfer' ? { octets: Math.ceil(octets / 4) } : { connections: Math.ceil(connections / 4) };
  await load(system, { ...under, ...fewer });
  const cpuBefore = system.pid === undefined ? 0 : cpuSeconds(system.pid);
  const { seconds, p50, p99 } = await load(system, under);
  const cpu = system.pid === undefined ? undefined : cpuSeconds(system.pid) - cpuBefore;
  const mebibytes = (connections * octets) / mebibyte;
  const ofKind: Partial<Run> =
    kind === 'transfer'
      ? {
          mebibytesPerSecond: mebibytes / seconds,
          ...(cpu === undefined ? {} : { cpuSecondsPerGibibyte: (cpu / mebibytes) * 1024 }),
        }
      : {
          connectionsPerSecond: connections / seconds,
          p50Milliseconds: p50,
          p99Milliseconds: p99,
          ...(cpu === undefined ? {} : { cpuMicrosecondsPerConnection: (cpu / connections) * 1e6 }),
        };
  return {
    ...{ system: system.name, kind, atOnce, ...ofKind },
    ...(system.pid === undefined ? {} : { peakMebibytes: peakMebibytes(system.pid) }),
    loadAverage: loadavg()[0] ?? Number.NaN,
  };
}

/** A column: what it is called, the figure of a run, digits after the point. */
type Column = readonly [name: string, pick: (run: Run) => number | undefined, digits: number];

const columns = {
  transfer: [
    ['MiB/s', (run) => run.mebibytesPerSecond, 0],
    ['CPU s/GiB', (run) => run.cpuSecondsPerGibibyte, 2],
    ['peak RSS MiB', (run) => run.peakMebibytes, 0],
  ],
  connect: [
    ['connections/s', (run) => run.connectionsPerSecond, 0],
    ['p50 ms', (run) => run.p50Milliseconds, 2],
    ['p99 ms', (run) => run.p99Milliseconds, 2],
    ['CPU us/connection', (run) => run.cpuMicrosecondsPerConnection, 0],
    ['peak RSS MiB', (run) => run.peakMebibytes, 0],
  ],
} as const satisfies Record<Load['kind'], readonly Column[]>;

function printTable(kind: Load['kind'], runs: readonly Run[]): void {
  const mine: readonly Column[] = columns[kind];
  console.log(`\n| system | at once | ${mine.map(([name]) => name).join(' | ')} |\n|${'---|'.repeat(mine.length + 2)}`);
  const ofKind = runs.filter((run) => run.kind === kind);
  for (const [, group] of Map.groupBy(ofKind, (run) => `${run.atOnce} ${run.system}`)) {
    const [{ system, atOnce } = { system: '', atOnce: 0 }] = group;
    const cells = mine.map(([, pick, digits]) => {
      const figures = group.map(pick).filter((figure) => figure !== undefined);
      if (figures.length === 0) return '-';
      return median(figures).toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits });
    });
    console.log(`| ${system} | ${atOnce} | ${cells.join(' | ')} |`);
  }
}

const { values } = parseArgs({
  options: {
    mebibytes: { type: 'string', default: '512' },
    transfers: { type: 'string', default: '1,10' },
    connections: { type: 'string', default: '4000' },
    'at-once': { type: 'string', default: '10,50' },
    rounds: { type: 'string', default: '2' },
    systems: { type: 'string', default: 'postern,haproxy,direct' },
    out: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  console.log(usage);
  process.exit(0);
}
const numbers = (list: string): number[] => list.split(',').filter(Boolean).map(Number);
const octetsInAll = Number(values.mebibytes) * mebibyte;
const loads: readonly Load[] = [
  ...numbers(values.transfers).map(
    (atOnce): Load => ({ kind: 'transfer', atOnce, connections: atOnce, octets: Math.ceil(octetsInAll / atOnce) }),
  ),
  ...numbers(values['at-once']).map(
    (atOnce): Load => ({ kind: 'connect', atOnce, connections: Number(values.connections), octets: 100 }),
  ),
];
const runs: Run[] = [];
const origin = await startOrigin();
try {
  for (let round = 0; round < Number(values.rounds); round += 1) {
    for (const name of values.systems.split(',')) {
      const system = await startSystem(name, origin);
      try {
        for (const under of loads) {
          const run = await measure(system, under);
          runs.push(run);
          const line = JSON.stringify(run);
          console.log(line);
          if (values.out) appendFileSync(values.out, `${line}\n`);
        }
      } finally {
        await system.stop();
      }
    }
  }
} finally {
  await origin.stop();
}
printTable('transfer', runs);
printTable('connect', runs);
