// The command line's entry. It checks Node's version before anything newer than that is loaded.

import { availableParallelism } from 'node:os';

const oldestNode = 24;
/** How long something that a finished command left open may still keep the process. */
const lingerMs = 2000;

/** Asks at the terminal, on standard error: standard output may be somebody's file. */
async function ask(question: string): Promise<string> {
  const { createInterface } = await import('node:readline/promises');
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    // An end of the input (Ctrl-D) is an empty answer.
    const end = new Promise<string>((resolve) => terminal.once('close', () => resolve('')));
    return await Promise.race([terminal.question(question), end]);
  } finally {
    terminal.close();
  }
}

if (Number(process.versions.node.split('.')[0]) < oldestNode) {
  process.stderr.write(
    `Postern needs Node ${oldestNode} or newer, this is ${process.version}: run it through npm (npm start, npm run postern -- COMMAND)\n`,
  );
  process.exitCode = 1;
} else {
  // Signatures are made in libuv's pool, whose size is read at its first use: a thread a core and two for files.
  process.env['UV_THREADPOOL_SIZE'] ??= String(Math.max(4, availableParallelism() + 2));
  // A reader that has seen enough (`| head`) is no fault of ours; an output that takes nothing ends a command with 1.
  // `serve` never writes here: its log has a way of its own and goes on without an output.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(0);
    process.stderr.write(`Cannot write to standard output: ${error.message}\n`);
    process.exit(1);
  });
  // There is nowhere left to say it.
  process.stderr.on('error', () => undefined);
  const { runCommandLine } = await import('./cli/run.ts');
  process.exitCode = await runCommandLine(process.argv.slice(2), {
    stdout: process.stdout,
    stderr: process.stderr,
    env: process.env,
    cwd: process.cwd(),
    ...(process.stdin.isTTY ? { ask } : {}),
  });
  // The command is done. Whatever it left open (a failed start above all) must not keep the process.
  setTimeout(() => {
    process.stderr.write('Something was left open; the process ends all the same\n');
    process.exit();
  }, lingerMs).unref();
}
