// Loaded into a Postern under test (`node --import`): tells over the IPC channel what its main thread has used since it was
// last asked, and the longest turn of its event loop. Turns are measured in CPU time of the thread, so that other work on
// the machine does not count.

import { monitorEventLoopDelay } from 'node:perf_hooks';

/** What the probe answers. */
export interface ProbeAnswer {
  /** CPU milliseconds of the main thread. */
  readonly cpuMs: number;
  /** CPU milliseconds of the longest turn: nothing else was served for so long. */
  readonly longestTurnMs: number;
  /** The longest delay of a timer, by the wall clock. */
  readonly longestDelayMs: number;
}

function threadMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

let since = threadMs();
let turnStart = since;
let longest = 0;
let watching: NodeJS.Timeout | undefined;
const delay = monitorEventLoopDelay({ resolution: 1 });

/** Called each millisecond that the loop turns: what was used since the last call was one turn, or short ones. */
function watch(): void {
  const now = threadMs();
  longest = Math.max(longest, now - turnStart);
  turnStart = now;
}

process.on('message', (question) => {
  if (question === 'begin') {
    globalThis.gc?.();
    since = threadMs();
    turnStart = since;
    longest = 0;
    watching = setInterval(watch, 1);
    delay.reset();
    delay.enable();
    process.send?.({});
    return;
  }
  clearInterval(watching);
  delay.disable();
  const answer: ProbeAnswer = { cpuMs: threadMs() - since, longestTurnMs: longest, longestDelayMs: delay.max / 1e6 };
  process.send?.(answer);
});
process.channel?.unref();
