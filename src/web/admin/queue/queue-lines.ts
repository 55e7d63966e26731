// What waits, as the queue's page shows it. Reading it costs the more the more waits, so one answer serves all who ask for a while:
// the longer it took to read, the longer. The holds are few and are read each time, so that one shows as soon as it is made.

import type { MonotonicClock } from '../../../base/clock.ts';
import type { Hold } from '../../../spool/hold.ts';
import type { Spool, WaitingLine } from '../../../spool/spool.ts';

/** Lines that are read: those with the most recipients. */
const mostLines = 10_000;
const leastAgeMs = 2000;
/** Reading takes at most this share of the time. */
const share = 50;

/** What waits at a moment. */
export interface WaitingNow {
  readonly lines: readonly WaitingLine[];
  readonly holds: readonly Hold[];
}

/** Gives what waits, a few seconds old at most where little does. @param isAnew it is read now, for an action that says how many */
export type QueueLines = (isAnew?: boolean) => Promise<WaitingNow>;

/** Makes the function that gives what waits. Calls at the same time share one reading. */
export function createQueueLines(spool: Pick<Spool, 'waiting' | 'holds'>, clock: MonotonicClock): QueueLines {
  let kept: { readonly lines: Promise<readonly WaitingLine[]>; until: number } | undefined;

  function read(): Promise<readonly WaitingLine[]> {
    const begunAt = clock.monotonic();
    const reading = { lines: spool.waiting(mostLines), until: Number.POSITIVE_INFINITY };
    kept = reading;
    reading.lines.then(
      () => {
        const endedAt = clock.monotonic();
        reading.until = endedAt + Math.max(leastAgeMs, share * (endedAt - begunAt));
      },
      () => {
        if (kept === reading) kept = undefined;
      },
    );
    return reading.lines;
  }

  return async (isAnew = false) => {
    const lines = kept && !isAnew && clock.monotonic() < kept.until ? kept.lines : read();
    return { lines: await lines, holds: await spool.holds() };
  };
}
