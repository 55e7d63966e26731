// A clock is passed to whatever needs the time, so that no test has to sleep.

/** Tells the time: `now` for what is read and kept, `monotonic` for every duration, since the wall clock may be set meanwhile. */
export interface Clock {
  /** Milliseconds since 1970-01-01T00:00:00Z. It can jump, forwards and back. */
  now(): number;
  /** Milliseconds since some moment: they never go back or jump, and all processes of a machine have the same until it is booted. */
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

/** Both times of one moment, in milliseconds. */
export interface ClockReading {
  readonly wall: number;
  readonly monotonic: number;
}

/** Smaller differences come from the drift of the two clocks, and from reading one after the other; they are no step. */
const leastStepMs = 1000;

/** Reads both times of a clock. */
export function readClock(clock: Clock): ClockReading {
  return { wall: clock.now(), monotonic: clock.monotonic() };
}

/** How far the wall clock was set between two readings, in milliseconds: 0 for under a second, negative for backwards. */
export function clockStep(before: ClockReading, after: ClockReading): number {
  const step = Math.round(after.wall - before.wall - (after.monotonic - before.monotonic));
  return Math.abs(step) < leastStepMs ? 0 : step;
}

/** Smaller steps are believed: they remove nothing that would not have gone soon. */
const leastDoubtedMs = 3_600_000;
/** After how long a clock that was set ahead is believed, in milliseconds; nobody has set it back by then. */
const doubtMs = 86_400_000;

/** The time by which what is old is removed. What is removed does not come back, so large steps ahead are doubted for a day. */
export class BelievedTime {
  readonly #clock: Clock;
  #seen: ClockReading;
  #doubted = 0;
  #since = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#seen = readClock(clock);
  }

  /** Milliseconds since 1970. To be asked from time to time, so that steps are noticed. */
  now(): number {
    const reading = readClock(this.#clock);
    const step = clockStep(this.#seen, reading);
    this.#seen = reading;
    if (step >= leastDoubtedMs) {
      this.#doubted += step;
      this.#since = reading.monotonic;
    } else if (step < 0) this.#doubted = Math.max(0, this.#doubted + step);
    if (reading.monotonic - this.#since >= doubtMs) this.#doubted = 0;
    return reading.wall - this.#doubted;
  }
}
