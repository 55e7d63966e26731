// npm run bench:hostile: the longest turn of the event loop while a client with a token posts the worst bodies it can. One
// line a body: the answer's status, time and octets, the longest turn by clock and by CPU of the main thread (the machine
// may be busy with other things), and the peak memory of the process so far.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { type HostileBody, hostileBodies } from './hostile-bodies.ts';
import { peakMebibytes } from './process-usage.ts';

const usage = `Usage: npm run bench:hostile -- [options]
  --sizes LIST     octets of each body, in MiB (default 1,2,4,8)
  --only TEXT      only bodies whose name or path holds TEXT
  --over N         show only lines whose longest turn is over N ms of CPU (default 0)`;

interface Turn {
  readonly longestWallMs: number;
  readonly longestCpuMs: number;
}

const projectRoot = resolve(import.meta.dirname, '..');
const token = 'bench-token-0123456789abcdefghijklmnopqrst';

async function startUnderProbe() {
  const folder = mkdtempSync(join(tmpdir(), 'postern-hostile-'));
  const logFile = join(folder, 'log');
  const output = openSync(logFile, 'w');
  const probe = join(import.meta.dirname, 'turn-probe.ts');
  const child = spawn(process.execPath, ['--import', probe, join(projectRoot, 'src/main.ts'), 'serve'], {
    cwd: projectRoot,
    env: {
      ...process.env,
      POSTERN_DATA_DIR: join(folder, 'data'),
      POSTERN_CERTS_DIR: join(folder, 'certs'),
      POSTERN_TOKEN: token,
      POSTERN_SMTP_PORT: '0',
      POSTERN_SMTPS_PORT: '0',
      POSTERN_HTTP_PORT: '0',
      POSTERN_HTTPS_PORT: '',
    },
    stdio: ['ignore', output, output, 'ipc'],
  });
  const deadline = performance.now() + 30_000;
  let port: number | undefined;
  while (port === undefined) {
    if (performance.now() > deadline || child.exitCode !== null) {
      child.kill('SIGKILL');
      throw new Error(`Postern did not start:\n${readFileSync(logFile, 'utf8')}`);
    }
    await new Promise((wait) => setTimeout(wait, 50));
    const line = readFileSync(logFile, 'utf8')
      .split('\n')
      .find((one) => one.includes('"listening"'));
    if (!line) continue;
    const { listeners } = JSON.parse(line) as { listeners?: readonly { name: string; port: number }[] };
    port = listeners?.find(({ name }) => name === 'http')?.port;
  }
  return {
    pid: child.pid ?? 0,
    port,
    async turn(): Promise<Turn> {
      const told = once(child, 'message') as Promise<[Turn]>;
      child.send('longest');
      const [turn] = await told;
      return turn;
    },
    async stop() {
      const exited = once(child, 'exit');
      child.kill('SIGTERM');
      await exited;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

interface Answered {
  readonly status: number;
  readonly octets: number;
  readonly ms: number;
}

function post(port: number, { method, path }: HostileBody, body: Buffer): Promise<Answered> {
  const start = performance.now();
  const headers = {
    authorization: `Bearer ${token}`,
    'content-type': 'application/json',
    'content-length': body.length,
  };
  return new Promise((done, reject) => {
    const asking = request({ host: '127.0.0.1', port, path: `/client/v4${path}`, method, headers }, (response) => {
      let octets = 0;
      response.on('data', (chunk: Buffer) => {
        octets += chunk.length;
      });
      response.on('end', () => done({ status: response.statusCode ?? 0, octets, ms: performance.now() - start }));
    });
    asking.on('error', reject).end(body);
  });
}

const { values } = parseArgs({
  options: {
    sizes: { type: 'string', default: '1,2,4,8' },
    only: { type: 'string', default: '' },
    over: { type: 'string', default: '0' },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  console.log(usage);
  process.exit(0);
}
const postern = await startUnderProbe();
console.log('| body | path | MiB | status | answer octets | answer ms | turn ms | turn CPU ms | peak RSS MiB |');
console.log('|---|---|---|---|---|---|---|---|---|');
try {
  for (const hostile of hostileBodies) {
    if (!hostile.name.includes(values.only) && !hostile.path.includes(values.only)) continue;
    for (const size of values.sizes.split(',').map(Number)) {
      // What is over the limit is refused by its Content-Length: the body stays a little below.
      const body = Buffer.from(hostile.write(size * 1_048_576 - 2_000));
      await new Promise((wait) => setTimeout(wait, 50));
      await postern.turn();
      const { status, octets, ms } = await post(postern.port, hostile, body);
      const { longestWallMs, longestCpuMs } = await postern.turn();
      if (longestCpuMs < Number(values.over)) continue;
      const shortPath = hostile.path.split('/').slice(-1)[0] ?? '';
      const figures = [octets, ms, longestWallMs, longestCpuMs, peakMebibytes(postern.pid)].map(Math.round);
      console.log(`| ${hostile.name} | ${shortPath} | ${size} | ${status} | ${figures.join(' | ')} |`);
    }
  }
} finally {
  await postern.stop();
}
