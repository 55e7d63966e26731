// The time by which old rows are removed. What is removed does not come back, so a clock that was set ahead is not believed at once.

import { type Clock, type ClockReading, clockStep, readClock } from '../base/clock.ts';

/** Smaller steps are believed: they remove nothing that would not have gone soon. */
const leastStepMs = 3_600_000;
/** After how long a clock that was set ahead is believed, in milliseconds; nobody has set it back by then. */
const doubtMs = 86_400_000;

/** A clock that doubts large steps ahead for a day, or until they are taken back. */
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
    if (step >= leastStepMs) {
      this.#doubted += step;
      this.#since = reading.monotonic;
    } else if (step < 0) this.#doubted = Math.max(0, this.#doubted + step);
    if (reading.monotonic - this.#since >= doubtMs) this.#doubted = 0;
    return reading.wall - this.#doubted;
  }
}
