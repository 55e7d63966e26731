// Runs the command line: as a process of its own, or in the test's.

import { spawn } from 'node:child_process';
import { join, resolve } from 'node:path';
import { runCommandLine } from '../../src/cli/run.ts';

const root = resolve(import.meta.dirname, '../..');

/** How a process ended. */
export interface CliResult {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** What a command line finds around it: this environment and no other, and the project's folder if `cwd` is absent. */
export interface CliOptions {
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
}

/**
 * Runs a command line in this process, by the function that src/main.ts calls: where nothing is asked about the process, which
 * takes longer to start than most commands. That a command leaves nothing open is shown by `runCli` alone.
 */
export async function runHere(args: readonly string[], options: CliOptions = {}): Promise<CliResult> {
  const written = { stdout: '', stderr: '' };
  const into = (name: 'stdout' | 'stderr') => ({
    write: (text: string | Uint8Array) => {
      written[name] += Buffer.from(text).toString();
    },
  });
  const io = { stdout: into('stdout'), stderr: into('stderr'), env: options.env ?? {}, cwd: options.cwd ?? root };
  return { exitCode: await runCommandLine(args, io), ...written };
}

/** Runs `node src/main.ts ARGS`. */
export function runCli(args: readonly string[], options: CliOptions = {}): Promise<CliResult> {
  const child = spawn(process.execPath, [join(root, 'src/main.ts'), ...args], {
    cwd: options.cwd ?? root,
    env: { PATH: process.env['PATH'], NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'], ...options.env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const stdout: Buffer[] = [];
  const stderr: Buffer[] = [];
  child.stdout.on('data', (chunk: Buffer) => stdout.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => stderr.push(chunk));
  return new Promise((settle, reject) => {
    child.on('error', reject);
    child.on('close', (exitCode) =>
      settle({ exitCode, stdout: Buffer.concat(stdout).toString(), stderr: Buffer.concat(stderr).toString() }),
    );
  });
}
