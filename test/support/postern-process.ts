// A real Postern process for end-to-end tests: free ports, folders of its own, a known token.

import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

import { databaseOfFolder } from './postgres-setup.ts';
import { copyTestKeys } from './test-keys.ts';

export const projectRoot = resolve(import.meta.dirname, '../..');

/** The token every test process starts with. */
export const testToken = 'test-token-0123456789abcdefghijklmnopqrstuvwxyz';

/** A gateway that a test has started, by a process of its own or in the test's. */
export interface RunningPostern {
  readonly folder: string;
  readonly dataDir: string;
  readonly certsDir: string;
  readonly env: NodeJS.ProcessEnv;
  /** Ports by listener name, and `http`. */
  readonly ports: Readonly<Record<string, number>>;
  /** Everything written to standard output and standard error so far. */
  output(): string;
  /** The log's JSON lines. */
  log(): readonly Record<string, unknown>[];
  /** Waits until something holds, looking every 50 ms; fails with the output after `seconds`. */
  until<T>(find: () => T | undefined | false | null, seconds?: number): Promise<T>;
  /** Files of the capture Maildir, oldest first. */
  captured(): readonly Buffer[];
  /** Ends it if it still runs; removes the folders. */
  cleanUp(): Promise<void>;
}

export interface PosternProcess extends RunningPostern {
  readonly pid: number;
  /** Sends a signal and waits for the end; resolves to the exit code (null when killed). */
  end(signal: 'SIGTERM' | 'SIGKILL'): Promise<number | null>;
}

export interface PosternOptions {
  /** A configuration as an object (YAML is a superset of JSON); the shipped one if absent. */
  readonly config?: object;
  readonly env?: NodeJS.ProcessEnv;
  /** Folder of an earlier process, to start again on its data. */
  readonly folder?: string;
  /** A command that runs the rest of its arguments in its own place, such as setpriv. */
  readonly under?: readonly string[];
  /** Whether its first start makes every key itself; if absent, it finds those of the shipped configuration. */
  readonly makesKeys?: boolean;
  /** How long its start may take; 30 if absent. */
  readonly startSeconds?: number;
  /** The folder of the release that is run, where it is not this one. */
  readonly checkout?: string;
  /** The file of `src` that is run; `main.ts` if absent. */
  readonly entry?: 'start.mjs';
  /** Told of the process before it listens. */
  readonly onSpawn?: (pid: number) => void;
}

/** Folders, keys and configuration of a gateway that is to start, and the environment that names them. */
export async function makePlace(options: PosternOptions) {
  const folder = options.folder ?? mkdtempSync(join(tmpdir(), 'postern-test-'));
  const dataDir = join(folder, 'data');
  const certsDir = join(folder, 'certs');
  const configFile = join(folder, 'postern.yaml');
  if (options.folder === undefined && !options.makesKeys) copyTestKeys(certsDir);
  if (options.config) writeFileSync(configFile, JSON.stringify(options.config));
  const database = await databaseOfFolder(folder);
  const env: NodeJS.ProcessEnv = {
    PATH: process.env['PATH'],
    NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'],
    HOME: folder,
    POSTERN_CONFIG: options.config ? configFile : join(projectRoot, 'config/postern.yaml'),
    POSTERN_DATA_DIR: dataDir,
    POSTERN_CERTS_DIR: certsDir,
    ...(options.config ? {} : { POSTERN_SMTP_PORT: '0', POSTERN_SMTPS_PORT: '0', POSTERN_HTTP_PORT: '0' }),
    POSTERN_HTTPS_PORT: '0',
    POSTERN_TOKEN: testToken,
    ...(database === undefined ? {} : { POSTERN_DATABASE_URL: database }),
    ...options.env,
  };
  return { folder, dataDir, certsDir, env };
}

/** What tests look for in the output of a gateway, which `text` gives, and in its data folder. */
export function watching(text: () => string, dataDir: string): Pick<RunningPostern, 'log' | 'until' | 'captured'> {
  // Tests look at the log every few milliseconds: each line is parsed once.
  const lines: Record<string, unknown>[] = [];
  let parsed = 0;
  function log(): Record<string, unknown>[] {
    const output = text();
    const end = output.lastIndexOf('\n') + 1;
    for (const line of output.slice(parsed, end).split('\n'))
      if (line.startsWith('{') && line.endsWith('}')) lines.push(JSON.parse(line) as Record<string, unknown>);
    parsed = end;
    return [...lines];
  }

  async function until<T>(find: () => T | undefined | false | null, seconds = 30): Promise<T> {
    const deadline = Date.now() + seconds * 1000;
    for (;;) {
      const found = find();
      if (found) return found;
      if (Date.now() > deadline)
        throw new Error(`It did not come within ${seconds} s. Output:\n${text().slice(-8000)}`);
      await new Promise((wait) => setTimeout(wait, 50));
    }
  }

  function captured(): Buffer[] {
    const inbox = join(dataDir, 'capture/new');
    try {
      return readdirSync(inbox)
        .sort()
        .map((name) => readFileSync(join(inbox, name)));
    } catch {
      return []; // no message has come yet, so there is no folder
    }
  }
  return { log, until, captured };
}

/** Starts it and waits until it says it is listening. */
export async function startPostern(options: PosternOptions = {}): Promise<PosternProcess> {
  const { folder, dataDir, certsDir, env } = await makePlace(options);
  const command = [
    ...(options.under ?? []),
    process.execPath,
    join(options.checkout ?? projectRoot, 'src', options.entry ?? 'main.ts'),
    'serve',
  ];
  const child: ChildProcess = spawn(command[0] ?? '', command.slice(1), {
    cwd: folder,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  options.onSpawn?.(child.pid ?? 0);
  let output = '';
  let exitCode: number | null | undefined;
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding('utf8').on('data', (text: string) => (output += text));
  const exited = new Promise<number | null>((done) => child.once('close', (code) => done((exitCode = code))));

  const { log, until, captured } = watching(() => output, dataDir);
  const end = async (signal: 'SIGTERM' | 'SIGKILL'): Promise<number | null> => {
    if (exitCode === undefined) child.kill(signal);
    return exited;
  };

  const ports: Record<string, number> = {};
  const running: PosternProcess = {
    pid: child.pid ?? 0,
    folder,
    dataDir,
    certsDir,
    env,
    ports,
    output: () => output,
    log,
    until,
    captured,
    end,
    cleanUp: async () => {
      await end('SIGTERM');
      rmSync(folder, { recursive: true, force: true });
    },
  };
  try {
    const listening = await until(() => {
      if (exitCode !== undefined) throw new Error(`Postern ended with ${exitCode} before it listened:\n${output}`);
      return log().find((line) => line['msg'] === 'listening');
    }, options.startSeconds);
    for (const { name, port } of listening['listeners'] as readonly { name: string; port: number }[])
      ports[name] = port;
  } catch (error) {
    await end('SIGKILL');
    if (options.folder === undefined) rmSync(folder, { recursive: true, force: true });
    throw error;
  }
  return running;
}
