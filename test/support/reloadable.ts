// A running Postern whose configuration file a test changes, and the command that has it read again.

import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { type PosternHere, startHere } from './postern-here.ts';
import { type PosternProcess, projectRoot, type RunningPostern, startPostern, testToken } from './postern-process.ts';
import { runHere } from './run-cli.ts';

/** A configuration as far as these tests change it. */
export interface ReloadedConfig {
  smtp: { hostname: string; listeners: Record<string, unknown>[]; limits: Record<string, unknown> };
  http: Record<string, unknown>;
  routes: Record<string, unknown>[];
  accounts: {
    name: string;
    id: string;
    sendingDomains: Record<string, unknown>[];
    credentials: Record<string, unknown>[];
    limits?: Record<string, unknown>;
  }[];
  zones: Record<string, unknown>[];
  [key: string]: unknown;
}

/** The token of a credential by its SHA-256, as the file has it. */
export function sha256Of(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}

/** A Postern and its file. */
export interface Reloadable<Postern extends RunningPostern = PosternProcess> {
  readonly postern: Postern;
  /** What the file has; changed by `change`. */
  readonly config: ReloadedConfig;
  /** Changes the configuration and writes the file. */
  change(edit: (config: ReloadedConfig) => void): void;
  /** Writes any text as the file. */
  write(text: string): void;
  /** Runs `postern reload`, in the test's process. */
  reload(): Promise<{ readonly code: number | null; readonly output: string }>;
  /** The numbers of /metrics by name with labels. */
  metrics(): Promise<ReadonlyMap<string, number>>;
}

/** The shipped configuration with ports of its own. */
export function shippedConfig(): ReloadedConfig {
  const config = parse(readFileSync(join(projectRoot, 'config/postern.yaml'), 'utf8')) as ReloadedConfig;
  for (const listener of config.smtp.listeners) listener['listen'] = '127.0.0.1:0';
  config.http['listen'] = '127.0.0.1:0';
  config.http['tlsListen'] = '127.0.0.1:0';
  return config;
}

type Edit = (config: ReloadedConfig) => void;

/** Starts it. The caller ends it by `postern.cleanUp()`. */
export async function startReloadable(
  edit: Edit = () => undefined,
  options: { readonly folder?: string } = {},
): Promise<Reloadable> {
  const config = shippedConfig();
  edit(config);
  return reloadable(await startPostern({ config, ...options }), config);
}

/** Starts it in the test's process. The caller ends it by `postern.cleanUp()`. */
export async function startReloadableHere(
  edit: Edit = () => undefined,
  options: { readonly folder?: string } = {},
): Promise<Reloadable<PosternHere>> {
  const config = shippedConfig();
  edit(config);
  return reloadable(await startHere({ config, ...options }), config);
}

function reloadable<Postern extends RunningPostern>(postern: Postern, config: ReloadedConfig): Reloadable<Postern> {
  const file = join(postern.folder, 'postern.yaml');
  return {
    postern,
    config,
    change(change) {
      change(config);
      writeFileSync(file, JSON.stringify(config));
    },
    write: (text) => writeFileSync(file, text),
    async reload() {
      const { exitCode, stdout, stderr } = await runHere(['reload'], { env: postern.env, cwd: postern.folder });
      return { code: exitCode, output: stdout + stderr };
    },
    async metrics() {
      const text = await (await fetch(`http://127.0.0.1:${postern.ports['http']}/metrics`)).text();
      const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
      return new Map(
        lines.map((line): [string, number] => {
          const at = line.lastIndexOf(' ');
          return [line.slice(0, at), Number(line.slice(at + 1))];
        }),
      );
    },
  };
}

export { testToken };
