// Starts a Postern of its own for a measurement: scratch folder, a listener without AUTH or TLS (D40c), one smarthost.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { deviceConfiguration } from '../test/support/device-config.ts';
import type { ProbeAnswer } from './loop-probe.ts';

const projectRoot = resolve(import.meta.dirname, '..');

/** The token of the account that it sends as, `dev`. */
export const benchToken = 'bench-token-0123456789abcdefghijklmnopqrst';

/** A running Postern and how to end it. */
export interface PosternUnderTest {
  readonly pid: number;
  /** Configuration, data and log; its `data` is the data folder. */
  readonly folder: string;
  /** Of the SMTP listener. */
  readonly port: number;
  readonly httpPort: number;
  /** Of every listener, by its name. */
  readonly ports: ReadonlyMap<string, number>;
  /** Asks the probe in it; rejects where there is none. */
  ask(question: 'begin' | 'end'): Promise<ProbeAnswer>;
  /** Sends SIGTERM and waits for the end; removes the scratch folder. */
  stop(): Promise<void>;
}

/** What a measurement may set. */
export interface UnderTestOptions {
  /** The checkout whose `src` runs; absent: this one. */
  readonly root?: string;
  /** Where the smarthost listens; absent: what is sent stays in the capture folder. */
  readonly sinkPort?: number;
  readonly platformSignature: boolean;
  /** Loads loop-probe.ts into it. */
  readonly probe?: boolean;
  /** Zones of the configuration; none if absent. */
  readonly zones?: readonly object[];
  /** `proxy` of the configuration. */
  readonly proxy?: object;
  readonly smtpLimits?: object;
  /** SMTP listeners beside the one, and `bounces` of the configuration. */
  readonly listeners?: readonly object[];
  readonly bounces?: object;
  /** `limits` of the configuration. */
  readonly limits?: object;
  /** A scratch folder that has something in its `data` already; one of its own if absent. */
  readonly folder?: string;
  /** `routes` of the configuration, in place of the one to the sink or the capture folder. */
  readonly routes?: readonly object[];
  /** `processes` of the configuration; absent: one. */
  readonly processes?: number;
  /** `database` of the configuration; absent: SQLite in the data folder. */
  readonly database?: object;
  /** `journal` of the configuration; absent: the default. */
  readonly journal?: object | undefined;
  /** `account` of the test's configuration: keys of the account. */
  readonly account?: object;
  /** Accounts beside the one. */
  readonly moreAccounts?: readonly object[];
  /** Other sections of the configuration. */
  readonly more?: object;
  /** Where Node keeps what it compiles: a folder, or `none`; absent: one for all measurements, as on a server that has started before. */
  readonly compileCache?: string;
  /** Fills the data folder before the start. */
  readonly prepare?: (dataFolder: string) => Promise<void>;
}

function configuration({
  sinkPort,
  platformSignature,
  routes,
  root: _root,
  compileCache: _cache,
  moreAccounts = [],
  more = {},
  ...options
}: UnderTestOptions): string {
  const url = `smtp://127.0.0.1:${sinkPort ?? 0}`;
  const route =
    sinkPort === undefined
      ? { name: 'keep', type: 'capture', platformSignature }
      : { name: 'sink', type: 'smarthost', url, tls: 'none', connections: 8, platformSignature };
  const least = deviceConfiguration({ routes: routes ?? [route], ...options }) as { accounts: readonly object[] };
  return JSON.stringify({ ...least, ...more, accounts: [...least.accounts, ...moreAccounts] });
}

/** The file that starts a checkout: `src/start.mjs`, or `src/main.ts` where the checkout is from before there was one. */
function entryOf(root: string): string {
  const entry = join(root, 'src/start.mjs');
  return existsSync(entry) ? entry : join(root, 'src/main.ts');
}

/** The bound ports by listener, once the log tells them. */
function boundPorts(logFile: string): ReadonlyMap<string, number> | undefined {
  for (const line of readFileSync(logFile, 'utf8').split('\n')) {
    if (!line.includes('"listening"')) continue;
    const entry = JSON.parse(line) as { listeners?: readonly { name: string; port: number }[] };
    return new Map(entry.listeners?.map(({ name, port }) => [name, port]));
  }
  return undefined;
}

/**
 * How long a gateway rests behind its start before mail is measured, in milliseconds: it serves for months, and by then it has given
 * back what only the start needed.
 */
const settleMs = 3500;

/** Starts it, waits until its listener is up, and until the start is behind it. */
export async function startSettled(options: UnderTestOptions): Promise<PosternUnderTest> {
  const postern = await startPostern(options);
  await sleep(settleMs);
  return postern;
}

/** Starts it and waits until its listener is up. */
export async function startPostern(options: UnderTestOptions): Promise<PosternUnderTest> {
  const folder = options.folder ?? mkdtempSync(join(tmpdir(), 'postern-bench-'));
  const configFile = join(folder, 'postern.yaml');
  const logFile = join(folder, 'log');
  writeFileSync(configFile, configuration(options));
  if (options.prepare) {
    mkdirSync(join(folder, 'data'), { recursive: true });
    await options.prepare(join(folder, 'data'));
  }
  const output = openSync(logFile, 'w');
  const { compileCache = join(tmpdir(), 'postern-bench-compile-cache') } = options;
  const probe = options.probe ? ['--expose-gc', '--import', join(import.meta.dirname, 'loop-probe.ts')] : [];
  const child: ChildProcess = spawn(process.execPath, [...probe, entryOf(options.root ?? projectRoot), 'serve'], {
    env: {
      ...process.env,
      POSTERN_CONFIG: configFile,
      POSTERN_DATA_DIR: join(folder, 'data'),
      POSTERN_CERTS_DIR: join(folder, 'certs'),
      POSTERN_TOKEN: benchToken,
      POSTERN_HTTPS_PORT: '', // none: its usual port may be taken
      BENCH_SECRET: 'whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=',
      ...(compileCache === 'none' ? { NODE_DISABLE_COMPILE_CACHE: '1' } : { NODE_COMPILE_CACHE: compileCache }),
    },
    stdio: ['ignore', output, output, ...(options.probe ? (['ipc'] as const) : [])],
  });
  const endWithUs = (): void => void child.kill('SIGKILL');
  process.once('exit', endWithUs);
  const exited = new Promise<void>((done) => child.once('exit', () => done()));
  void exited.then(() => process.off('exit', endWithUs));
  const deadline = Date.now() + 60_000;
  for (;;) {
    const ports = boundPorts(logFile);
    if (ports && child.pid !== undefined) {
      return {
        pid: child.pid,
        folder,
        port: ports.get('devices') ?? 0,
        httpPort: ports.get('http') ?? 0,
        ports,
        ask: async (question) => {
          child.send(question);
          const [answer] = (await once(child, 'message')) as [ProbeAnswer];
          return answer;
        },
        stop: async () => {
          child.kill('SIGTERM');
          await exited;
          rmSync(folder, { recursive: true, force: true });
        },
      };
    }
    if (Date.now() > deadline || child.exitCode !== null) {
      child.kill('SIGKILL');
      const log = readFileSync(logFile, 'utf8');
      await exited;
      rmSync(folder, { recursive: true, force: true });
      throw new Error(`Postern did not start:\n${log}`);
    }
    await new Promise((wait) => setTimeout(wait, 10));
  }
}
