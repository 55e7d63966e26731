// A bounded number of places that several owners share: one owner leaves a part to the others, and those who wait have their
// turns by owner. So whoever holds places for long keeps mostly itself waiting.

import { FairFifo } from './fifo.ts';

/** An owner may have so many times the places that it leaves free: one alone leaves a tenth. */
const usualGreed = 9;

/** Places for work that is done at the same time. */
export class FairSlots {
  readonly #most: number;
  readonly #greed: number;
  readonly #waiting = new FairFifo<() => void>();
  /** By owner; those without a place are left out. */
  readonly #byOwner = new Map<string, number>();
  #taken = 0;

  /**
   * @param most places
   * @param greed how many times the places that it leaves free one owner may have: with 1 each leaves half of them to the others
   */
  constructor(most: number, greed = usualGreed) {
    this.#most = most;
    this.#greed = greed;
  }

  /** Takes a place as soon as there is one. @returns what gives it back; to be called once */
  async take(owner: string): Promise<() => void> {
    if (this.#mayHave(owner)) this.#count(owner, 1);
    else await new Promise<void>((resolve) => this.#waiting.push(owner, resolve));
    return () => {
      this.#count(owner, -1);
      this.#giveNext();
    };
  }

  #mayHave(owner: string): boolean {
    return (this.#byOwner.get(owner) ?? 0) < this.#greed * (this.#most - this.#taken);
  }

  /** Gives free places to those who wait. */
  #giveNext(): void {
    for (let owner = this.#next(); owner !== undefined; owner = this.#next()) this.#count(owner, 1);
  }

  /** Wakes the next who may have a place. @returns its owner */
  #next(): string | undefined {
    let chosen: string | undefined;
    const wake = this.#waiting.shift((owner) => {
      if (!this.#mayHave(owner)) return false;
      chosen = owner;
      return true;
    });
    wake?.();
    return wake && chosen;
  }

  #count(owner: string, by: 1 | -1): void {
    this.#taken += by;
    const own = (this.#byOwner.get(owner) ?? 0) + by;
    if (own > 0) this.#byOwner.set(owner, own);
    else this.#byOwner.delete(owner);
  }
}
