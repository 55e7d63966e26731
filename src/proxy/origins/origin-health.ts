// Remembers which origins failed lately, so that they are tried last, and for how long (D84).

import type { MonotonicClock } from '../../base/clock.ts';
import type { OriginAddress } from './origin.ts';

/** What is known of one origin that failed. */
interface Failing {
  readonly origin: OriginAddress;
  failures: number;
  /** Milliseconds. */
  backOff: number;
  /** Until then it is tried last; milliseconds since 1970. */
  until: number;
  /** A connection has been sent to see whether it is back. */
  isProbed: boolean;
}

const firstBackOffMs = 1000;
const longestBackOffMs = 30_000;
/** Of a range of ports each is an origin of its own; beyond this the oldest is forgotten. */
const mostRemembered = 4096;

/** One text for one place. */
function keyOf({ address, port }: OriginAddress): string {
  return `${address} ${port}`;
}

/** Makes the memory: an origin that failed is tried last for 1 s, then 2 s, doubling up to 30 s, until it succeeds. */
export function createOriginHealth(clock: MonotonicClock) {
  const failing = new Map<string, Failing>();
  return {
    failed(origin: OriginAddress) {
      const now = clock.monotonic();
      const key = keyOf(origin);
      const known = failing.get(key);
      if (!known) {
        const [oldest] = failing.size >= mostRemembered ? failing.keys() : [];
        if (oldest !== undefined) failing.delete(oldest);
        const backOff = firstBackOffMs;
        failing.set(key, { origin, failures: 1, backOff, until: now + backOff, isProbed: false });
        return;
      }
      known.failures += 1;
      // Connections that fail together are one failure: only a later one makes the time longer.
      if (now < known.until && !known.isProbed) return;
      known.backOff = Math.min(known.backOff * 2, longestBackOffMs);
      known.until = now + known.backOff;
      known.isProbed = false;
    },
    succeeded(origin: OriginAddress) {
      failing.delete(keyOf(origin));
    },
    failures: (origin: OriginAddress) => failing.get(keyOf(origin))?.failures ?? 0,
    /** Healthy ones and those that are due for another try, in their order; then the others, the soonest due first. */
    sort(origins: readonly OriginAddress[], firstOf: (usable: readonly OriginAddress[]) => number) {
      if (failing.size === 0) return rotate(origins, firstOf(origins));
      const now = clock.monotonic();
      const untilOf = (origin: OriginAddress): number => failing.get(keyOf(origin))?.until ?? 0;
      const eligible = origins.filter((origin) => untilOf(origin) <= now);
      const usable = rotate(eligible, firstOf(eligible));
      const first = usable[0] && failing.get(keyOf(usable[0]));
      if (first) {
        // One connection tries it; until that has ended, the others go elsewhere.
        first.isProbed = true;
        first.until = now + first.backOff;
      }
      const isUsable = new Set(eligible);
      const others = origins.filter((origin) => !isUsable.has(origin));
      return [...usable, ...others.toSorted((left, right) => untilOf(left) - untilOf(right))];
    },
    /** All that failed last. */
    all: () => [...failing.values()].map(({ origin }) => origin),
  };
}

/** The list from one place on, then what stands before it. @param by any whole number from 0 on */
export function rotate<T>(list: readonly T[], by: number): T[] {
  const start = list.length === 0 ? 0 : by % list.length;
  return [...list.slice(start), ...list.slice(0, start)];
}
