// What V8 has compiled of our files, kept for the next start (src/run-time.mjs names the folder), and a setting that must come after.

import { flushCompileCache } from 'node:module';
import { setFlagsFromString } from 'node:v8';

/** V8's name of the setting below. */
const growing = '--heap-growing-percent';

/** Writes what this thread has compiled so far. Every thread does so before it says that it is open, since the setting comes later. */
export function keepCompiledCode(): void {
  flushCompileCache();
}

/**
 * Writes what was compiled, and has garbage of all threads collected once the heap has grown by 60 %, in place of up to four times,
 * unless somebody has set that otherwise. While a long queue drains, each message lives a little too long for the collection of young objects;
 * left to itself, V8 let 120 MiB of such garbage gather. With 30 % a message cost a sixth more CPU time. As an option of the
 * command line the setting would have every thread compile Node's own modules anew: 150 ms of each start.
 */
export function settleHeap(): void {
  keepCompiledCode();
  const given = [...process.execArgv, process.env['NODE_OPTIONS'] ?? ''].join(' ').replaceAll('_', '-');
  if (!given.includes(growing)) setFlagsFromString(`${growing}=60`);
}
