import { Counts } from './counts.ts';
import { FairFifo } from './fifo.ts';

/** An owner may have so many times the places that it leaves free: one alone leaves a tenth. */
const usualGreed = 9;

/** Places for work at the same time: each owner leaves a part to others, and those who wait have their turns by owner. */
export class FairSlots {
  readonly #most: number;
  readonly #greed: number;
  /** What gives a waiting owner its place. */
  readonly #waiting = new FairFifo<() => void>();
  readonly #byOwner = new Counts();
  #taken = 0;

  /** @param most places @param greed how many times the places that it leaves free one owner may have */
  constructor(most: number, greed = usualGreed) {
    this.#most = most;
    this.#greed = greed;
  }

  /** Takes a place as soon as there is one. @returns what gives it back; to be called once */
  async take(owner: string): Promise<() => void> {
    if (this.#mayHave(owner)) this.#count(owner, 1);
    else {
      await new Promise<void>((resolve) =>
        this.#waiting.push(owner, () => {
          this.#count(owner, 1);
          resolve();
        }),
      );
    }
    return () => {
      this.#count(owner, -1);
      const next = () => this.#waiting.shift((one) => this.#mayHave(one));
      for (let give = next(); give; give = next()) give();
    };
  }

  #mayHave(owner: string): boolean {
    return this.#byOwner.of(owner) < this.#greed * (this.#most - this.#taken);
  }

  #count(owner: string, by: 1 | -1): void {
    this.#taken += by;
    this.#byOwner.add(owner, by);
  }
}
