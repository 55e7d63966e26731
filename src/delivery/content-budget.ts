// Limits how many octets of messages delivery keeps in memory.

import { Counts } from '../base/counts.ts';

/** An account may have so many times the octets that it leaves free. */
const greed = 9;

/**
 * Counts octets in memory against a limit. One account leaves a tenth to the others, so that messages which wait for a next
 * hop that says nothing do not take the room of all. An account with nothing in memory gets room for one message of any size
 * while the limit is kept; so the limit is exceeded by one message at a time.
 */
export class ContentBudget {
  readonly #limit: number;
  readonly #byAccount = new Counts();
  #used = 0;

  /** @param limit octets */
  constructor(limit: number) {
    this.#limit = limit;
  }

  get used(): number {
    return this.#used;
  }

  /** Takes room for a message of an account; false if there is none. */
  tryReserve(octets: number, account: string): boolean {
    const own = this.#byAccount.of(account);
    const isFirst = own === 0 && this.#used < this.#limit;
    const leavesEnough = own + octets <= greed * (this.#limit - this.#used - octets);
    if (this.#used > 0 && !isFirst && !leavesEnough) return false;
    this.#used += octets;
    this.#byAccount.add(account, octets);
    return true;
  }

  release(octets: number, account: string): void {
    this.#used -= octets;
    this.#byAccount.add(account, -octets);
  }
}
