// What waits, as the queue's page shows it. Reading it costs the more the more waits, so one answer serves all who ask for a while:
// the longer it took to read, the longer.

import type { MonotonicClock } from '../../base/clock.ts';
import type { Hold } from '../../spool/hold.ts';
import type { Spool, WaitingLine } from '../../spool/spool.ts';

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

/** Gives what waits, a few seconds old at most where little does. Calls at the same time share one reading. */
export function createQueueLines(
  spool: Pick<Spool, 'waiting' | 'holds'>,
  clock: MonotonicClock,
): () => Promise<WaitingNow> {
  let kept: { readonly now: Promise<WaitingNow>; readonly until: number } | undefined;

  async function read(): Promise<WaitingNow> {
    const begunAt = clock.monotonic();
    const [lines, holds] = [await spool.waiting(mostLines), await spool.holds()];
    const endedAt = clock.monotonic();
    const now = { lines, holds };
    kept = { now: Promise.resolve(now), until: endedAt + Math.max(leastAgeMs, share * (endedAt - begunAt)) };
    return now;
  }

  return () => {
    if (kept && clock.monotonic() < kept.until) return kept.now;
    const now = read().catch((error: unknown) => {
      kept = undefined;
      throw error;
    });
    kept = { now, until: Number.POSITIVE_INFINITY };
    return now;
  };
}
