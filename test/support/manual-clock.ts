// A clock that a test moves: both its times together, as time passes, or the wall clock alone, as somebody sets it.

import type { Clock } from '../../src/base/clock.ts';

/** A clock that a test moves. */
export interface ManualClock extends Clock {
  /** Time passes. */
  pass(seconds: number): void;
  /** The wall clock is set forward, or back where the seconds are negative; no time passes. */
  jump(seconds: number): void;
}

/**
 * Makes a clock that stands still until it is moved.
 * @param start wall time, milliseconds since 1970
 */
export function manualClock(start = 1_700_000_000_000): ManualClock {
  let now = start;
  let monotonic = 5000;
  return {
    now: () => now,
    monotonic: () => monotonic,
    pass: (seconds) => {
      now += seconds * 1000;
      monotonic += seconds * 1000;
    },
    jump: (seconds) => {
      now += seconds * 1000;
    },
  };
}

/** A clock whose times are both what `now` says, in milliseconds. */
export function clockOf(now: () => number): Clock {
  return { now, monotonic: now };
}
