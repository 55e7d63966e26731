// Puts another commit beside this checkout, so that both can be measured in turn.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '..');

/** Asks git about this checkout. */
export function git(...args: readonly string[]): string {
  return execFileSync('git', ['-C', root, ...args], { encoding: 'utf8' }).trim();
}

/**
 * Puts the files of a commit into a folder, beside the packages that are installed here where it asks for the same ones, else beside
 * its own. Whoever asks removes the folder.
 */
export function checkOut(commit: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'postern-commit-'));
  const command = 'git -C "$0" archive "$1" | tar -x --exclude=test/* -C "$2"';
  execFileSync('bash', ['-c', command, root, commit, folder]);
  if (git('diff', '--name-only', commit, '--', 'package-lock.json') === '') {
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  } else execFileSync('npm', ['ci', '--ignore-scripts', '--silent'], { cwd: folder, stdio: 'inherit' });
  return folder;
}
