// Time as a value that is handed in, so that nothing in a test sleeps.

/**
 * Tells the time. What people and protocols read (dates, what is kept in the database) comes from `now`; every duration
 * (timeouts, rate windows, caches, back-offs) from `monotonic`, since the wall clock can be set while we wait.
 */
export interface Clock {
  /** Milliseconds since 1970-01-01T00:00:00Z. It can jump, forwards and back. */
  now(): number;
  /**
   * Milliseconds since some moment before this process began. It never goes back and never jumps, and all processes of a
   * machine have the same until it is booted anew.
   */
  monotonic(): number;
}

/** What a duration is measured with. */
export type MonotonicClock = Pick<Clock, 'monotonic'>;

/** The machine's own clock. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => {
    const [seconds, nanoseconds] = process.hrtime();
    return seconds * 1000 + nanoseconds / 1e6;
  },
};
