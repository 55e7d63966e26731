// The package as npm packs it, put where an installed package lies (no symlink: Node treats those differently).

import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { projectRoot } from './postern-process.ts';

/** A project that has the package. */
export interface PackedProject {
  readonly folder: string;
  /** Paths in the tarball. */
  readonly files: readonly string[];
  remove(): void;
}

/** Packs the package, which builds it, and makes a project with nothing else in it. Takes some seconds. */
export function makePackedProject(): PackedProject {
  const folder = mkdtempSync(join(tmpdir(), 'postern-pack-'));
  const installed = join(folder, 'node_modules/postern');
  mkdirSync(installed, { recursive: true });
  const output = execFileSync('npm', ['pack', '--json', '--loglevel=error', '--pack-destination', folder], {
    cwd: projectRoot,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  // The build's own words come before the JSON.
  const [packed] = JSON.parse(output.slice(output.indexOf('[\n'))) as readonly {
    readonly filename: string;
    readonly files: readonly { readonly path: string }[];
  }[];
  if (!packed) throw new Error(`npm pack made nothing:\n${output}`);
  execFileSync('tar', ['-xzf', join(folder, packed.filename), '-C', installed, '--strip-components=1']);
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ name: 'user', type: 'module', private: true }));
  return {
    folder,
    files: packed.files.map(({ path }) => path),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}
