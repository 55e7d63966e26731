// Scripts of this folder as processes of their own: origins and load clients, whose CPU must not count as Postern's.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

/** Starts a script of this folder. */
export function script(name: string, args: readonly string[] = []): ChildProcess {
  return spawn(process.execPath, [join(import.meta.dirname, name), ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
}

/** The first line that it prints. @throws Error where it ends without one */
export async function firstLine(child: ChildProcess): Promise<string> {
  if (!child.stdout) throw new Error('A script without output');
  for await (const line of createInterface({ input: child.stdout })) return line;
  throw new Error('A script ended without a line');
}

/** Starts a script that listens, and prints its port first. */
export async function startOrigin(
  name: string,
  args: readonly string[] = [],
): Promise<{ readonly pid: number; readonly port: number; stop(): Promise<void> }> {
  const child = script(name, args);
  const port = Number(await firstLine(child));
  return {
    pid: child.pid ?? 0,
    port,
    stop: async () => {
      child.kill('SIGTERM');
      await once(child, 'exit');
    },
  };
}
