// The client as npm packs it, installed by npm from the tarball into a project of its own, as a consumer would.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { projectRoot } from './postern-process.ts';

/** The name that programs import the client by. */
export const clientName = 'postern-client';

/** A project that has the client. */
export interface PackedProject {
  readonly folder: string;
  /** Paths in the tarball. */
  readonly files: readonly string[];
  /** Where the client is installed. */
  readonly installed: string;
  remove(): void;
}

/** The environment without what the npm that runs the tests has put there: its settings would go before the project's. */
function plainEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('npm_')));
}

function npm(folder: string, ...args: readonly string[]): string {
  return execFileSync('npm', ['--loglevel=error', ...args], {
    cwd: folder,
    env: plainEnvironment(),
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

/** Packs the client, which builds it, and makes a project with nothing else in it. Asks no registry. Takes some seconds. */
export function makePackedProject(): PackedProject {
  const folder = mkdtempSync(join(tmpdir(), 'postern-pack-'));
  const output = npm(projectRoot, 'pack', '--json', '--workspace', clientName, '--pack-destination', folder);
  // The build's own words come before the JSON.
  const [packed] = JSON.parse(output.slice(output.indexOf('[\n'))) as readonly {
    readonly filename: string;
    readonly files: readonly { readonly path: string }[];
  }[];
  if (!packed) throw new Error(`npm pack made nothing:\n${output}`);
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ name: 'user', type: 'module', private: true }));
  npm(folder, 'install', '--offline', '--no-audit', '--no-fund', `./${packed.filename}`);
  return {
    folder,
    files: packed.files.map(({ path }) => path),
    installed: join(folder, 'node_modules', clientName),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}
