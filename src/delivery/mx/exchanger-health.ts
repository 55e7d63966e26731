// Which addresses of mail exchangers failed a moment ago, so that not every connection waits for them first.

import type { MonotonicClock } from '../../base/clock.ts';
import { RecentMap } from '../../base/recent-map.ts';

/** Addresses that are remembered, and for how long they are tried last, in milliseconds. */
const mostKept = 10_000;
const lastForMs = 60_000;

/** The health of addresses. */
export class ExchangerHealth {
  readonly #clock: MonotonicClock;
  readonly #failedUntil = new RecentMap<string, number>(mostKept);

  constructor(clock: MonotonicClock) {
    this.#clock = clock;
  }

  /** Whether the address failed within the last minute. */
  hasFailed(address: string): boolean {
    return (this.#failedUntil.get(address) ?? Number.NEGATIVE_INFINITY) > this.#clock.monotonic();
  }

  tell(address: string, isWell: boolean): void {
    if (isWell) this.#failedUntil.delete(address);
    else this.#failedUntil.set(address, this.#clock.monotonic() + lastForMs);
  }
}
