// The system tests use programs from Debian (.ci/packages). A missing one fails with its name; nothing is ever skipped.

import { spawn } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { join } from 'node:path';

/** Throws one line that names every program that is missing and the command that installs them. */
export function requirePrograms(...names: readonly string[]): void {
  const folders = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin'];
  const missing = names.filter((name) => {
    return !folders.some((folder) => {
      try {
        accessSync(join(folder, name), constants.X_OK);
        return true;
      } catch {
        return false; // not in this folder
      }
    });
  });
  if (missing.length > 0) {
    throw new Error(`Missing ${missing.join(', ')}: apt-get install --no-install-recommends $(cat .ci/packages)`);
  }
  if (process.getuid?.() !== 0)
    throw new Error('The system tests need root (Postfix and the image are started with it)');
}

/** How a program ended. */
export interface Ended {
  readonly code: number | null;
  readonly output: string;
}

/** Runs a program to its end, with a bound in time; standard output and error together. */
export function runProgram(
  command: string,
  args: readonly string[],
  options: {
    readonly input?: string | Buffer;
    readonly env?: NodeJS.ProcessEnv;
    readonly cwd?: string;
    readonly seconds?: number;
  } = {},
): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      env: { ...process.env, ...options.env },
      cwd: options.cwd,
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    let output = '';
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => (output += text));
    const timer = setTimeout(() => child.kill('SIGKILL'), (options.seconds ?? 60) * 1000);
    child.once('error', reject);
    child.stdin.on('error', () => undefined); // a program that ends early closes its input
    child.once('close', (code) => {
      clearTimeout(timer);
      resolve({ code, output });
    });
    child.stdin.end(options.input ?? '');
  });
}
