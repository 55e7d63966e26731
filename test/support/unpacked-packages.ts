// Packages of Debian that are fetched by apt and unpacked, not installed: one would start a daemon, or belongs to no test machine.

import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';

/** Not in the folder that a run of the tests makes for what it writes: it is there in the next run too. */
const place = '/var/tmp/postern-test-packages';

/**
 * Unpacks packages, unless an earlier run has done so.
 * @param name of their folder
 * @returns the folder in which their files lie as they would below `/`
 */
export function unpackPackages(name: string, packages: readonly string[]): string {
  const root = join(place, name);
  if (existsSync(root)) return root;
  mkdirSync(place, { recursive: true });
  const folder = mkdtempSync(join(place, 'new-'));
  execFileSync('apt-get', ['download', ...packages], { cwd: folder, stdio: 'pipe' });
  for (const file of readdirSync(folder)) execFileSync('dpkg', ['-x', file, 'root'], { cwd: folder, stdio: 'pipe' });
  // Whole before it has the name by which it is found; of several that are made at once one is kept.
  if (!existsSync(root)) renameSync(join(folder, 'root'), root);
  rmSync(folder, { recursive: true, force: true });
  return root;
}
