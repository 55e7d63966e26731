// The thread that shared-threads.ts starts: runs the entry of a store's thread, once for each store. What the entry imports stays loaded.

import { createRequire, syncBuiltinESMExports } from 'node:module';

const threads = createRequire(import.meta.url)('node:worker_threads');
const { parentPort } = threads;
let runs = 0;

parentPort.on('message', async ({ script, workerData, port }) => {
  Object.assign(threads, { parentPort: port, workerData });
  // The entry imports both by name.
  syncBuiltinESMExports();
  port.on('close', () => parentPort.postMessage('free', []));
  // What the entry throws ends the thread, as it would its own.
  await import(`${script}?run=${(runs += 1)}`);
});
