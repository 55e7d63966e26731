// npm run bench:edge: proxied requests and error responses a second through Postern, beside Debian's nginx (package nginx)
// and the origin alone, in turn in one run. Origin and load are processes of their own (edge-origin, edge-load).
// `--help` tells the options. Prints one JSON line a run, then a table of medians.

import { appendFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { startCaddy } from './caddy-under-test.ts';
import { type Ask, closedPort, errorAsks, errorPages, proxied } from './edge-asks.ts';
import { startNginx } from './nginx-under-test.ts';
import { startPostern } from './postern-under-test.ts';
import { cpuSeconds, median, peakMebibytes } from './process-usage.ts';
import { firstLine, script, startOrigin } from './script.ts';

const usage = `Usage: npm run bench:edge -- [options]
  --requests N       requests a run, behind 8000 that do not count (default 10000; half of it for bodies of 64 KB and more)
  --sizes LIST       proxied requests by octets of the body (default 1024,65536; empty: none)
  --errors LIST      error responses: of json,markdown,html (/cdn-cgi/error/522), down (an origin that refuses
                     connections), (default all; empty: none)
  --connections LIST connections, each with one request at a time (default 10,50)
  --rounds N         rounds (default 1)
  --systems LIST     of postern,before,nginx,caddy,node proxy,node server,direct (default all but before)
  --before DIR       the checkout that "before" runs, in the same rounds
  --out FILE         append every run's JSON line to FILE too`;

/** One run's figures. */
interface Run {
  readonly system: string;
  readonly load: string;
  readonly connections: number;
  readonly requestsPerSecond: number;
  readonly p50Milliseconds: number;
  readonly p99Milliseconds: number;
  /** Of the proxy; absent where there is none. */
  readonly cpuMicrosecondsPerRequest?: number;
  readonly peakMebibytes?: number;
}

/** What is measured: where it listens, and the process whose CPU counts. */
interface UnderTest {
  readonly name: string;
  readonly port: number;
  readonly pid?: number;
  stop(): Promise<void>;
}

interface Load {
  readonly ask: Ask;
  readonly connections: number;
  readonly requests: number;
}

async function startSystem(name: string, origin: UnderTest): Promise<UnderTest> {
  if (name === 'direct') return { name, port: origin.port, stop: async () => undefined };
  const options = { originPort: origin.port, closedPort, pages: errorPages() };
  if (name === 'nginx') return { name, ...(await startNginx(options)) };
  if (name === 'caddy') return { name, ...(await startCaddy(options)) };
  if (name.startsWith('node ')) {
    return { name, ...(await startOrigin('edge-node.ts', [name.slice(5), `${origin.port}`])) };
  }
  const zones = [
    { name: 'bench.example', id: '1'.repeat(32), account: 'dev', origin: `http://127.0.0.1:${origin.port}` },
    { name: 'down.example', id: '2'.repeat(32), account: 'dev', origin: `http://127.0.0.1:${closedPort}` },
  ];
  // No message is sent: the port of the smarthost is never used.
  const root = name === 'before' ? { root: values.before ?? '' } : {};
  const postern = await startPostern({ sinkPort: 9, platformSignature: false, zones, ...root });
  return { name, pid: postern.pid, port: postern.httpPort, stop: () => postern.stop() };
}

async function load({ name, port }: UnderTest, under: Load): Promise<Record<string, number>> {
  const { ask, connections, requests } = under;
  const args = [port, ask.host, ask.path, ask.accept, ask.status[name], connections, requests].map(String);
  const child = script('edge-load.ts', args);
  const line = await firstLine(child);
  return JSON.parse(line) as Record<string, number>;
}

/** Requests before those that count. V8 compiles for some thousands; the systems beside it are compiled from the start. */
const warmRequests = 8000;

async function measure(system: UnderTest, under: Load): Promise<Run> {
  // Warm: the first requests compile what the others run, and fill the pool of connections.
  await load(system, { ...under, requests: warmRequests });
  const cpuBefore = system.pid === undefined ? 0 : cpuSeconds(system.pid);
  const { seconds = Number.NaN, p50 = Number.NaN, p99 = Number.NaN } = await load(system, under);
  return {
    system: system.name,
    load: under.ask.name,
    connections: under.connections,
    requestsPerSecond: under.requests / seconds,
    p50Milliseconds: p50,
    p99Milliseconds: p99,
    ...(system.pid === undefined
      ? {}
      : {
          cpuMicrosecondsPerRequest: ((cpuSeconds(system.pid) - cpuBefore) / under.requests) * 1e6,
          peakMebibytes: peakMebibytes(system.pid),
        }),
  };
}

function printTable(runs: readonly Run[]): void {
  console.log(
    '\n| load | system | connections | requests/s | p50 ms | p99 ms | CPU us/request | peak RSS MiB |\n|---|---|---|---|---|---|---|---|',
  );
  for (const [, group] of Map.groupBy(runs, (run) => `${run.load} ${run.connections} ${run.system}`)) {
    const [{ system, load: name, connections } = { system: '', load: '', connections: 0 }] = group;
    const middle = (pick: (run: Run) => number | undefined, digits = 0): string => {
      const figures = group.map(pick).filter((figure) => figure !== undefined);
      if (figures.length === 0) return '-';
      return median(figures).toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits });
    };
    console.log(
      `| ${name} | ${system} | ${connections} | ${middle((run) => run.requestsPerSecond)} | ${middle((run) => run.p50Milliseconds, 2)} | ${middle((run) => run.p99Milliseconds, 2)} | ${middle((run) => run.cpuMicrosecondsPerRequest)} | ${middle((run) => run.peakMebibytes)} |`,
    );
  }
}

const { values } = parseArgs({
  options: {
    requests: { type: 'string', default: '10000' },
    errors: { type: 'string', default: Object.keys(errorAsks).join(',') },
    sizes: { type: 'string', default: '1024,65536' },
    connections: { type: 'string', default: '10,50' },
    rounds: { type: 'string', default: '1' },
    systems: { type: 'string', default: 'postern,nginx,caddy,node proxy,node server,direct' },
    before: { type: 'string' },
    out: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  console.log(usage);
  process.exit(0);
}
const listed = (list: string): string[] => list.split(',').filter((text) => text !== '');
const asks: readonly Ask[] = [
  ...listed(values.sizes).map((octets) => proxied(Number(octets))),
  ...listed(values.errors).map((name) => {
    const ask = Object.entries(errorAsks).find(([known]) => known === name)?.[1];
    if (!ask) throw new Error(`--errors ${JSON.stringify(name)}: there is none of this name`);
    return ask;
  }),
];
const runs: Run[] = [];

async function runOnce(name: string, under: Load): Promise<void> {
  const system = await startSystem(name, origin);
  try {
    const run = await measure(system, under);
    runs.push(run);
    const line = JSON.stringify(run);
    console.log(line);
    if (values.out) appendFileSync(values.out, `${line}\n`);
  } finally {
    await system.stop();
  }
}

const origin = { name: 'direct', ...(await startOrigin('edge-origin.ts')) };
try {
  for (let round = 0; round < Number(values.rounds); round += 1) {
    for (const ask of asks) {
      for (const connections of listed(values.connections).map(Number)) {
        for (const name of listed(values.systems)) {
          const requests = Math.ceil(Number(values.requests) * ask.share);
          if (ask.status[name] !== undefined) await runOnce(name, { ask, connections, requests });
        }
      }
    }
  }
} finally {
  await origin.stop();
}
printTable(runs);
