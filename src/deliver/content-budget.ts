// Limits how many octets of messages delivery keeps in memory.

/** Counts octets in memory against a limit. While nothing is counted, one message of any size finds room. */
export class ContentBudget {
  readonly #limit: number;
  #used = 0;

  /** @param limit octets */
  constructor(limit: number) {
    this.#limit = limit;
  }

  get used(): number {
    return this.#used;
  }

  /** Takes room for a message; false if there is none. */
  tryReserve(octets: number): boolean {
    if (this.#used > 0 && this.#used + octets > this.#limit) return false;
    this.#used += octets;
    return true;
  }

  release(octets: number): void {
    this.#used -= octets;
  }
}
