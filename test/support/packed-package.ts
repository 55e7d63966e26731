// The client as npm packs it, installed by npm from the tarball into a project of its own, as a consumer would.

import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { errorCode } from '../../src/base/errors.ts';
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

/** The environment variable that names the folder where the first test of a run that needs the project leaves it for the others. */
const place = 'POSTERN_TEST_PACKAGE';

/** Makes the folder before the first test; gives what removes it after the last. */
export default function setUp(): () => void {
  const folder = mkdtempSync(join(tmpdir(), 'postern-pack-'));
  process.env[place] = folder;
  return () => rmSync(folder, { recursive: true, force: true });
}

/** Packs the client, which builds it in the source tree, and installs it. @returns the paths in the tarball */
function makeProject(folder: string): PackedProject['files'] {
  const output = npm(projectRoot, 'pack', '--json', '--workspace', clientName, '--pack-destination', folder);
  // The build's own words come before the JSON.
  const [packed] = JSON.parse(output.slice(output.indexOf('[\n'))) as readonly {
    readonly filename: string;
    readonly files: readonly { readonly path: string }[];
  }[];
  if (!packed) throw new Error(`npm pack made nothing:\n${output}`);
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ name: 'user', type: 'module', private: true }));
  npm(folder, 'install', '--offline', '--no-audit', '--no-fund', `./${packed.filename}`);
  return packed.files.map(({ path }) => path);
}

/** The folder of the run with the project in it, and the paths in the tarball. Whoever comes while it is made waits for it. */
function sharedProject(): { readonly made: string; readonly files: PackedProject['files'] } {
  const shared = process.env[place];
  if (shared === undefined) throw new Error(`${place} names no folder: it is set by vitest.config.ts`);
  const [made, list] = [join(shared, 'project'), join(shared, 'files.json')];
  try {
    mkdirSync(made);
    writeFileSync(`${list}.new`, JSON.stringify(makeProject(made)));
    renameSync(`${list}.new`, list);
  } catch (thrown) {
    if (errorCode(thrown) !== 'EEXIST') throw thrown;
    for (let waits = 0; !existsSync(list); waits += 1) {
      if (waits === 600)
        throw new Error('The client that another test packs has not come in a minute', { cause: thrown });
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100);
    }
  }
  return { made, files: JSON.parse(readFileSync(list, 'utf8')) as string[] };
}

/** Makes a project with the packed client and nothing else in it. Asks no registry. The first of a run takes some seconds. */
export function makePackedProject(): PackedProject {
  const { made, files } = sharedProject();
  const folder = mkdtempSync(join(tmpdir(), 'postern-pack-'));
  cpSync(made, folder, { recursive: true });
  return {
    folder,
    files,
    installed: join(folder, 'node_modules', clientName),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}
