// npm run bench:rest: what sending by REST costs beside SMTP, with the same messages through the same pipeline, over connections
// that are kept open, each answer given after the durable commit. Every message is signed and relayed to Postfix's smtp-sink (Debian
// package postfix). The loads are processes of their own, whose CPU is not counted. `--help` tells the options.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { checkOut } from './checkout.ts';
import { startSettled } from './postern-under-test.ts';
import { cpuSeconds, median, peakMebibytes } from './process-usage.ts';
import { requestOf, type Shape, shapes } from './rest-shapes.ts';
import { firstLine, script } from './script.ts';
import { sinkPort, startSink, untilReceived } from './smtp-sink.ts';

const usage = `Usage: npm run bench:rest -- [options]
  --shapes LIST      what is sent: text, html, attachment (html with 100 KB), raw (text by send_raw) (default all)
  --doors LIST       rest, smtp; http, fastify: a bare server of either that reads the body and answers (default rest,smtp)
  --connections LIST connections, each with one request at a time (default 10,50)
  --requests N       requests a run (default 4000; a quarter with an attachment)
  --warm N           requests that are sent before and not counted, so that V8 has compiled (default 300)
  --rounds N         rounds; the systems alternate within each (default 3)
  --against COMMIT   runs that commit too, in the same rounds
  --journal LEVEL    what the journal keeps (default none)
  --out FILE         append every run's JSON line to FILE too`;

/** One run's figures. */
interface Run {
  readonly system: string;
  readonly connections: number;
  readonly relayedPerSecond: number;
  readonly cpuMicrosecondsPerMessage: number;
  readonly peakMebibytes: number;
  /** Milliseconds until an answer was whole, and CPU of the load; absent of SMTP, whose load does not tell. */
  readonly p50?: number;
  readonly p99?: number;
  readonly loadMicroseconds?: number;
}

interface Load {
  readonly door: string;
  readonly shape: string;
  readonly connections: number;
  readonly requests: number;
  /** The checkout that runs; absent: this one. */
  readonly root?: string | undefined;
}

interface RestLoadLine {
  readonly seconds: number;
  readonly p50: number;
  readonly p99: number;
  readonly cpu: number;
}

async function ended(child: ChildProcess): Promise<void> {
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0) throw new Error(`The load ended with ${code}`);
}

/** Sends all requests of a load. */
async function sendAll(ports: { readonly smtp: number; readonly http: number }, load: Load, file: string) {
  const { door, connections, requests } = load;
  if (door === 'rest') {
    const child = script('rest-load.ts', [`${ports.http}`, file, `${connections}`, `${requests}`]);
    return JSON.parse(await firstLine(child)) as RestLoadLine;
  }
  const args = ['-s', `${connections}`, '-m', `${requests}`, '-F', file, '-d', '-f', 'bench@example.com'];
  await ended(
    spawn('smtp-source', [...args, '-t', 'rcpt@example.net', `127.0.0.1:${ports.smtp}`], { stdio: 'inherit' }),
  );
  return undefined;
}

/** Measures a bare server, which keeps and relays nothing. */
async function measureBare(load: Load, shape: Shape): Promise<Run> {
  const folder = mkdtempSync(join(tmpdir(), 'postern-load-'));
  const file = join(folder, 'ask');
  writeFileSync(file, requestOf(shape));
  const server = script('rest-bare.ts', [load.door]);
  try {
    const pid = server.pid ?? 0;
    const ports = { smtp: 0, http: Number(await firstLine(server)) };
    const asked = { ...load, door: 'rest' };
    await sendAll(ports, { ...asked, requests: 300 }, file);
    const cpuBefore = cpuSeconds(pid);
    const { seconds, p50, p99, cpu } = (await sendAll(ports, asked, file)) ?? { seconds: 0, p50: 0, p99: 0, cpu: 0 };
    return {
      system: `bare ${load.door} ${load.shape}`,
      connections: load.connections,
      relayedPerSecond: load.requests / seconds,
      cpuMicrosecondsPerMessage: ((cpuSeconds(pid) - cpuBefore) / load.requests) * 1e6,
      peakMebibytes: peakMebibytes(pid),
      ...{ p50, p99, loadMicroseconds: (cpu / load.requests) * 1e6 },
    };
  } finally {
    server.kill('SIGTERM');
    rmSync(folder, { recursive: true });
  }
}

async function measure(load: Load, name: string): Promise<Run> {
  const shape = shapes[load.shape];
  if (!shape) throw new Error(`There is no shape ${load.shape}`);
  if (load.door === 'http' || load.door === 'fastify') return await measureBare(load, shape);
  const folder = mkdtempSync(join(tmpdir(), 'postern-load-'));
  const file = join(folder, 'ask');
  writeFileSync(file, load.door === 'rest' ? requestOf(shape) : shape.mime);
  const sink = startSink();
  const root = load.root === undefined ? {} : { root: load.root };
  const postern = await startSettled({
    sinkPort,
    platformSignature: false,
    journal: { content: values.journal },
    ...root,
  });
  const ports = { smtp: postern.port, http: postern.httpPort };
  try {
    // Warm, by either door: the first messages compile what the others run.
    const warm = Number(values.warm);
    await sendAll(ports, { ...load, requests: warm }, file);
    await untilReceived(sink, warm);
    const cpuBefore = cpuSeconds(postern.pid);
    const start = performance.now();
    const told = await sendAll(ports, load, file);
    await untilReceived(sink, warm + load.requests);
    const seconds = (performance.now() - start) / 1000;
    return {
      system: `${name}${load.door} ${load.shape}`,
      connections: load.connections,
      relayedPerSecond: load.requests / seconds,
      cpuMicrosecondsPerMessage: ((cpuSeconds(postern.pid) - cpuBefore) / load.requests) * 1e6,
      peakMebibytes: peakMebibytes(postern.pid),
      ...(told ? { p50: told.p50, p99: told.p99, loadMicroseconds: (told.cpu / load.requests) * 1e6 } : {}),
    };
  } finally {
    await postern.stop();
    sink.stop();
    rmSync(folder, { recursive: true });
  }
}

function printTable(runs: readonly Run[]): void {
  console.log(
    '\n| system | connections | relayed msg/s | CPU us/msg | peak RSS MiB | p50 ms | p99 ms | CPU us of the load |\n|---|---|---|---|---|---|---|---|',
  );
  for (const group of Map.groupBy(runs, (run) => `${run.system} | ${run.connections}`)) {
    const [name, ofGroup] = group;
    const middle = (pick: (run: Run) => number | undefined, digits = 0): string =>
      median(ofGroup.map((run) => pick(run) ?? Number.NaN)).toLocaleString('en', { maximumFractionDigits: digits });
    const figures = [
      middle((run) => run.relayedPerSecond),
      middle((run) => run.cpuMicrosecondsPerMessage),
      middle((run) => run.peakMebibytes),
      middle((run) => run.p50, 1),
      middle((run) => run.p99, 1),
      middle((run) => run.loadMicroseconds),
    ];
    console.log(`| ${name} | ${figures.join(' | ').replaceAll('NaN', '-')} |`);
  }
}

async function run(load: Load, name: string): Promise<Run> {
  const figures = await measure(load, name);
  const line = JSON.stringify(figures);
  console.log(line);
  if (values.out) appendFileSync(values.out, `${line}\n`);
  return figures;
}

/** Runs every load once, in this checkout and the other. */
async function round(then: string | undefined): Promise<Run[]> {
  const runs: Run[] = [];
  for (const connections of values.connections.split(',').map(Number)) {
    for (const shape of values.shapes.split(',')) {
      const requests = Math.ceil(Number(values.requests) / (shape === 'attachment' ? 4 : 1));
      for (const door of values.doors.split(',')) {
        // By SMTP the shape raw is that of text.
        if (door === 'smtp' && shape === 'raw' && values.shapes.includes('text')) continue;
        const load = { door, shape, connections, requests };
        if (then !== undefined) runs.push(await run({ ...load, root: then }, `${values.against} `));
        runs.push(await run(load, ''));
      }
    }
  }
  return runs;
}

const { values } = parseArgs({
  options: {
    shapes: { type: 'string', default: Object.keys(shapes).join(',') },
    doors: { type: 'string', default: 'rest,smtp' },
    connections: { type: 'string', default: '10,50' },
    requests: { type: 'string', default: '4000' },
    warm: { type: 'string', default: '300' },
    rounds: { type: 'string', default: '3' },
    against: { type: 'string' },
    journal: { type: 'string', default: 'none' },
    out: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) console.log(usage);
else {
  console.log(`Load average ${(loadavg()[0] ?? 0).toFixed(1)}`);
  const then = values.against === undefined ? undefined : checkOut(values.against);
  try {
    const runs: Run[] = [];
    for (let done = 0; done < Number(values.rounds); done += 1) runs.push(...(await round(then)));
    printTable(runs);
  } finally {
    if (then !== undefined) rmSync(then, { recursive: true });
  }
}
