// Which accounts have messages under way at a next hop.

import type { MonotonicClock } from '../../base/clock.ts';
import { Counts } from '../../base/counts.ts';

/** A next hop counts as shared for so long after messages of two accounts followed one another, in milliseconds. */
const sharedMs = 600_000;

/** The accounts at one next hop. */
export class FairTurns {
  readonly #clock: MonotonicClock;
  /** Messages under way. */
  readonly #active = new Counts();
  #last: string | undefined;
  #sharedUntil = Number.NEGATIVE_INFINITY;

  constructor(clock: MonotonicClock) {
    this.#clock = clock;
  }

  /** More than one account has used the next hop lately. */
  get isShared(): boolean {
    return this.#clock.monotonic() < this.#sharedUntil;
  }

  isActive(account: string): boolean {
    return this.#active.has(account);
  }

  begin(account: string): void {
    this.#active.add(account);
    if (this.#last !== undefined && this.#last !== account) this.#sharedUntil = this.#clock.monotonic() + sharedMs;
    this.#last = account;
  }

  end(account: string): void {
    this.#active.add(account, -1);
  }
}
