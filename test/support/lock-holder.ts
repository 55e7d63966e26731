// A process of its own that holds the write lock of a database: node lock-holder.ts FILE. Prints a line once it has it, and
// holds it until it is ended.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { DatabaseSync } from 'node:sqlite';

/** Another program that holds the lock. */
export interface LockHolder {
  /** Whether it still has it. */
  isHolding(): boolean;
  release(): Promise<void>;
}

/** Starts it; resolves once it has the lock. */
export async function holdLock(file: string): Promise<LockHolder> {
  const child: ChildProcess = spawn(process.execPath, [import.meta.filename, file], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  if (!child.stdout) throw new Error('The lock holder has no output');
  await once(child.stdout, 'data');
  return {
    isHolding: () => child.exitCode === null && child.signalCode === null,
    release: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill('SIGKILL');
      await once(child, 'exit');
    },
  };
}

if (process.argv[1] === import.meta.filename) {
  const database = new DatabaseSync(process.argv[2] ?? '', { timeout: 5000 });
  database.exec('BEGIN IMMEDIATE');
  process.stdout.write('locked\n');
  // Only what is used later is kept: a connection that is collected gives its lock back.
  setInterval(() => database.isOpen, 1000);
}
