// Which accounts have messages under way at a next hop.

import type { MonotonicClock } from '../../base/clock.ts';

/** A next hop counts as shared for so long after messages of two accounts followed one another, in milliseconds. */
const sharedMs = 600_000;

/** The accounts at one next hop. */
export class FairTurns {
  readonly #clock: MonotonicClock;
  /** Messages under way; accounts with none are left out. */
  readonly #active = new Map<string, number>();
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

  /** A message of the account begins. */
  begin(account: string): void {
    this.#active.set(account, (this.#active.get(account) ?? 0) + 1);
    if (this.#last !== undefined && this.#last !== account) this.#sharedUntil = this.#clock.monotonic() + sharedMs;
    this.#last = account;
  }

  /** A message of the account has ended. */
  end(account: string): void {
    const left = (this.#active.get(account) ?? 1) - 1;
    if (left > 0) this.#active.set(account, left);
    else this.#active.delete(account);
  }
}
