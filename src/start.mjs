#!/usr/bin/env node
// Starts the program where Node is new enough, and otherwise says so in one sentence: an older Node cannot read main.ts at all.
// Plain JavaScript, which any Node can read.

const oldestNode = 24;

if (Number(process.versions.node.split('.')[0]) < oldestNode) {
  process.stderr.write(
    `Postern needs Node ${oldestNode} or newer, and ${process.execPath} is ${process.version}: install a newer one, or on Linux run "npm ci", which brings it, and then npm start or npm run postern\n`,
  );
  process.exitCode = 1;
} else {
  // For `serve` SIGHUP means to read the configuration again. One that comes while the program is still being loaded needs
  // nothing, since everything is read after that; but it must not end the process: supervisors take an end by SIGHUP for a
  // wanted one and start no other. At a terminal it means that nobody is left. `process.stdout` would open it before it is needed.
  const { isatty } = await import('node:tty');
  if ((process.argv[2] ?? 'serve') === 'serve' && !isatty(1)) process.on('SIGHUP', () => undefined);
  const { setUpRunTime } = await import('./run-time.mjs');
  setUpRunTime(process.argv.slice(2), process.env);
  await import('./main.ts');
}
