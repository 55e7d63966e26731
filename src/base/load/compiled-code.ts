// What each thread does once it has started: keeps what V8 has compiled of our files for the next start (src/run-time.mjs names the
// folder), and gives back the memory that only the start needed. And a setting for all threads that must come after.

import { statfsSync } from 'node:fs';
import { flushCompileCache, getCompileCacheDir } from 'node:module';
import { dirname } from 'node:path';
import { performance } from 'node:perf_hooks';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Octets that must be free where compiled code is kept: three times what all of it has. */
const roomToKeep = 33_554_432;

/** Whether there is room for compiled code. For each file that Node 24 cannot write it leaves a descriptor open, 2,000 in all. */
function hasRoom(): boolean {
  const folder = getCompileCacheDir();
  try {
    const { bavail, bsize } = statfsSync(folder ?? '');
    return bavail * bsize >= roomToKeep;
  } catch {
    return false;
  }
}

function keepCompiled(): void {
  if (hasRoom()) flushCompileCache();
}

/** The environment of a thread that may end before the process: Node writes what such a thread has compiled at its end. */
export function environmentOfThread(): NodeJS.ProcessEnv {
  return hasRoom() ? process.env : { ...process.env, NODE_DISABLE_COMPILE_CACHE: '1' };
}

/** The environment of a process of ours that needs what has been compiled before, and nothing else of the environment. */
export function environmentOfProcess(): NodeJS.ProcessEnv {
  const folder = getCompileCacheDir();
  return folder !== undefined && hasRoom() ? { NODE_COMPILE_CACHE: dirname(folder) } : {};
}

/** Settings of V8 that nobody has to have set otherwise, by the name of each. */
const heapSettings = {
  'heap-growing-percent': '--heap-growing-percent=60',
  'allocation-site-pretenuring': '--no-allocation-site-pretenuring',
};

/** How often a thread looks whether it rests, in milliseconds, and how often at most. */
const lookMs = 250;
const looks = 4;

/** A thread rests if it has worked less than this part of the time since the last look. */
const restsBelow = 0.05;

/** Collects what the start has left, once at rest: V8 would keep it, in three threads together 19 MiB. It takes some 30 ms. */
function collectOnceAtRest(): void {
  let seen = performance.eventLoopUtilization();
  let left = looks;
  const timer = setInterval(() => {
    const { utilization } = performance.eventLoopUtilization(seen);
    seen = performance.eventLoopUtilization();
    left -= 1;
    if (utilization >= restsBelow && left > 0) return;
    clearInterval(timer);
    if (utilization >= restsBelow) return;
    // V8 shows the function to contexts that are made from here on.
    setFlagsFromString('--expose-gc');
    const collect: NodeJS.GCFunction = runInNewContext('gc');
    // Code that has not run for a while is kept, since it would only have to be compiled again.
    setFlagsFromString('--no-flush-bytecode');
    // The other flavor leaves the pages mapped.
    collect({ type: 'major', flavor: 'last-resort' });
    setFlagsFromString('--flush-bytecode');
  }, lookMs).unref();
}

/** Whether this thread has settled: one that serves several stores in turn, as those of tests do, does so for the first alone. */
let hasSettled = false;

/** Writes what this thread has compiled, and gives back what its start has left. Every thread but the first calls it at its start. */
export function settleThread(): void {
  if (hasSettled) return;
  hasSettled = true;
  keepCompiled();
  setTimeout(collectOnceAtRest, 2000).unref();
}

/**
 * Does that for the first thread, and sets two things for all threads, unless somebody has set them otherwise. Garbage is collected once the
 * heap has grown by 60 %, in place of up to four times: while a long queue drains, each message lives a little too long for the collection
 * of young objects, and left to itself V8 let 120 MiB of such garbage gather. With 30 % a message cost a sixth more CPU time. And every
 * object begins among the young ones: else, where many messages of one moment lived on, V8 makes those that follow among the old, and
 * collects these twice as often from then on. As options of the command line they would have every thread compile Node's own modules anew.
 */
export function settleHeap(): void {
  keepCompiled();
  const given = [...process.execArgv, process.env['NODE_OPTIONS'] ?? ''].join(' ').replaceAll('_', '-');
  for (const [name, setting] of Object.entries(heapSettings)) if (!given.includes(name)) setFlagsFromString(setting);
  collectOnceAtRest();
}
