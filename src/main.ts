#!/usr/bin/env node
// The command line's entry. It checks Node's version before anything newer than that is loaded.

import { availableParallelism } from 'node:os';

const oldestNode = 24;

if (Number(process.versions.node.split('.')[0]) < oldestNode) {
  process.stderr.write(
    `Postern needs Node ${oldestNode} or newer, this is ${process.version}: run it through npm (npm start, npm run postern -- COMMAND)\n`,
  );
  process.exitCode = 1;
} else {
  // Signatures are made in libuv's pool, whose size is read at its first use: a thread a core and two for files.
  process.env['UV_THREADPOOL_SIZE'] ??= String(Math.max(4, availableParallelism() + 2));
  // A reader that has seen enough (`| head`) is no fault of ours.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(0);
    throw error;
  });
  const { runCommandLine } = await import('./cli/run.ts');
  process.exitCode = await runCommandLine(process.argv.slice(2), {
    stdout: process.stdout,
    stderr: process.stderr,
    env: process.env,
    cwd: process.cwd(),
  });
}
