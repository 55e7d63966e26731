// npm run bench:start: what a start takes, and what each part adds to it and to memory. `--help` tells the options.

import { appendFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { startPostgres } from '../test/support/postgres.ts';
import { benchToken, type PosternUnderTest, startPostern, type UnderTestOptions } from './postern-under-test.ts';
import { cpuSeconds, loadWarning, median, residentMebibytes } from './process-usage.ts';

const usage = `Usage: npm run bench:start -- [options]
  --rounds N    starts of each part, in alternating rounds (default 5)
  --parts LIST  names of the table, such as edge,api (default all that are possible; postgres needs root and its Debian package)
  --out FILE    append every start's JSON line to FILE too

Time to ready is from the start of the process to its line "listening", memory its resident size three seconds later. Every part but
"first start" finds what an earlier start has compiled.`;

const account = { webhooks: [{ name: 'hook', url: 'https://192.0.43.8/', secretEnv: 'BENCH_SECRET' }] };
const zone = { name: 'example.com', id: 'b2'.repeat(16), account: 'dev', hostnames: ['www.example.com'] };
const application = {
  id: `${'c3'.repeat(15)}01`,
  protocol: 'tcp/22',
  dns: { type: 'CNAME', name: 'ssh.example.com' },
  origin_direct: ['tcp://127.0.0.1:22'],
};
const routeByMx = { name: 'out', type: 'mx', tls: 'none', mtaSts: false };

/** A configuration beside the least one, and what is done with it before memory is read. */
interface Part {
  readonly options?: Partial<UnderTestOptions>;
  readonly use?: (postern: PosternUnderTest) => Promise<unknown>;
}

async function ask(postern: PosternUnderTest, path: string): Promise<void> {
  const headers = { Authorization: `Bearer ${benchToken}` };
  await (await fetch(`http://127.0.0.1:${postern.httpPort}${path}`, { headers })).arrayBuffer();
}

/** Every part with its words in the table. The first is what the others are compared with. */
const parts = {
  plain: { text: 'the least: one SMTP listener, one smarthost, no journal', options: {} },
  first: { text: 'the same, first start: nothing is compiled yet', options: { compileCache: 'none' } },
  journal: { text: 'journal', options: { journal: undefined } },
  api: { text: 'API, from its first request on', use: (postern) => ask(postern, '/openapi.json') },
  console: { text: 'API and console, from its first page on', use: (postern) => ask(postern, '/console') },
  metrics: { text: '/metrics, from its first reading on', use: (postern) => ask(postern, '/metrics') },
  edge: { text: 'edge and proxy: a zone', options: { zones: [zone] } },
  proxy: { text: 'the same with an application', options: { zones: [{ ...zone, applications: [application] }] } },
  mx: { text: 'a route by MX, before its first message', options: { routes: [routeByMx] } },
  webhooks: { text: 'a webhook', options: { account } },
  postgres: { text: 'PostgreSQL in place of SQLite', options: {} },
} as const satisfies Record<string, Part & { readonly text: string }>;

type Name = keyof typeof parts;

interface Start {
  readonly readyMs: number;
  readonly cpuMs: number;
  readonly mebibytes: number;
}

async function startOnce(name: Name, folders: { readonly cache: string; readonly database?: string }): Promise<Start> {
  const { options, use }: Part = parts[name];
  const database = name === 'postgres' && folders.database ? { database: { url: folders.database } } : {};
  const began = performance.now();
  const postern = await startPostern({
    ...{ sinkPort: 9, platformSignature: false, journal: { enabled: false }, compileCache: folders.cache },
    ...options,
    ...database,
  });
  const readyMs = performance.now() - began;
  const cpuMs = cpuSeconds(postern.pid) * 1000;
  try {
    await use?.(postern);
    await new Promise((wait) => setTimeout(wait, 3000));
    return { readyMs, cpuMs, mebibytes: residentMebibytes(postern.pid) };
  } finally {
    await postern.stop();
  }
}

function row(name: Name, starts: readonly Start[], plain: readonly Start[]): string {
  const middle = (of: readonly Start[], pick: (start: Start) => number): number => median(of.map(pick));
  const cells = (['readyMs', 'cpuMs', 'mebibytes'] as const).map((key) => {
    const figure = middle(starts, (start) => start[key]);
    const more = Math.round(figure - middle(plain, (start) => start[key]));
    return name === 'plain' ? `${Math.round(figure)}` : `${Math.round(figure)} (${more < 0 ? '' : '+'}${more})`;
  });
  return `| ${parts[name].text} | ${cells.join(' | ')} |`;
}

async function measure(names: readonly Name[], rounds: number): Promise<void> {
  const server = names.includes('postgres') ? await startPostgres() : undefined;
  const cache = mkdtempSync(join(tmpdir(), 'postern-start-'));
  mkdirSync(cache, { recursive: true });
  try {
    const starts = new Map<Name, Start[]>(names.map((name) => [name, []]));
    // The round before the first fills the cache, and is not counted.
    for (let round = -1; round < rounds; round += 1) {
      for (const [name, all] of starts) {
        const database = server && (await server.createDatabase());
        const start = await startOnce(name, { cache, ...(database === undefined ? {} : { database }) });
        if (round < 0) continue;
        all.push(start);
        if (values.out) appendFileSync(values.out, `${JSON.stringify({ part: parts[name].text, ...start })}\n`);
      }
    }
    console.log('| Part | ready, ms | CPU until then, ms | memory, MiB |\n|---|---:|---:|---:|');
    for (const [name, all] of starts) console.log(row(name, all, starts.get('plain') ?? all));
  } finally {
    rmSync(cache, { recursive: true });
    await server?.remove();
  }
}

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    parts: { type: 'string' },
    out: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) console.log(usage);
else {
  const asked =
    values.parts?.split(',') ?? Object.keys(parts).filter((name) => name !== 'postgres' || process.getuid?.() === 0);
  const names = (Object.keys(parts) as Name[]).filter((name) => name === 'plain' || asked.includes(name));
  console.log(`${loadWarning()}; ${values.rounds} rounds, Node ${process.version}`);
  await measure(names, Number(values.rounds));
}
