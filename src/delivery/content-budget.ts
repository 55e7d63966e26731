// Limits how many octets of messages delivery keeps in memory.

/** An account may have so many times the octets that it leaves free. */
const greed = 9;

/**
 * Counts octets in memory against a limit. One account leaves a tenth to the others, so that messages which wait for a next
 * hop that says nothing do not take the room of all. An account with nothing in memory gets room for one message of any size
 * while the limit is kept; so the limit is exceeded by one message at a time.
 */
export class ContentBudget {
  readonly #limit: number;
  /** By account; those with nothing are left out. */
  readonly #byAccount = new Map<string, number>();
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
    const own = this.#byAccount.get(account) ?? 0;
    const isFirst = own === 0 && this.#used < this.#limit;
    const leavesEnough = own + octets <= greed * (this.#limit - this.#used - octets);
    if (this.#used > 0 && !isFirst && !leavesEnough) return false;
    this.#used += octets;
    this.#byAccount.set(account, own + octets);
    return true;
  }

  release(octets: number, account: string): void {
    this.#used -= octets;
    const own = (this.#byAccount.get(account) ?? 0) - octets;
    if (own > 0) this.#byAccount.set(account, own);
    else this.#byAccount.delete(account);
  }
}
