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
  const { setUpRunTime } = await import('./run-time.mjs');
  setUpRunTime(process.argv.slice(2), process.env);
  await import('./main.ts');
}
