// An alarm that rings once, at the earliest of the times that it was set for.

import type { MonotonicClock } from '../../base/clock.ts';

/** Wakes whoever waits for a time. It keeps no process alive. */
export class Alarm {
  readonly #clock: MonotonicClock;
  readonly #ring: () => void;
  #timer: NodeJS.Timeout | undefined;
  #at = Number.POSITIVE_INFINITY;

  constructor(clock: MonotonicClock, ring: () => void) {
    this.#clock = clock;
    this.#ring = ring;
  }

  /** Rings after so many milliseconds, unless it is set to ring before; 0 or less sets nothing. */
  ringIn(ms: number): void {
    const at = this.#clock.monotonic() + ms;
    if (ms <= 0 || at >= this.#at) return;
    this.stop();
    this.#at = at;
    this.#timer = setTimeout(() => {
      this.#at = Number.POSITIVE_INFINITY;
      this.#ring();
    }, Math.ceil(ms)).unref();
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#at = Number.POSITIVE_INFINITY;
  }
}
