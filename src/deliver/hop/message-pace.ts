// How many messages a next hop is given in a second.

import type { MonotonicClock } from '../../base/clock.ts';

/** Counts messages against a rate. After a pause, as many as one second allows may begin at once. */
export class MessagePace {
  readonly #clock: MonotonicClock;
  #perSecond: number | undefined;
  /** When the last message that was begun would have begun, had they come evenly. */
  #at = Number.NEGATIVE_INFINITY;

  /** @param perSecond absent: no limit */
  constructor(perSecond: number | undefined, clock: MonotonicClock) {
    this.#perSecond = perSecond;
    this.#clock = clock;
  }

  /** The rate is another from now on; absent: no limit. */
  limit(perSecond: number | undefined): void {
    this.#perSecond = perSecond;
  }

  /** Milliseconds until a message may begin. */
  get waitMs(): number {
    if (this.#perSecond === undefined) return 0;
    return Math.max(0, this.#at + 1000 / this.#perSecond - this.#clock.monotonic());
  }

  /** A message begins. */
  begin(): void {
    if (this.#perSecond === undefined) return;
    const step = 1000 / this.#perSecond;
    this.#at = Math.max(this.#at + step, this.#clock.monotonic() - 1000 + step);
  }
}
