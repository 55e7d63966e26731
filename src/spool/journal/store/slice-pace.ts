// How many rows a slice of work may have, so that it takes only some milliseconds on whatever machine: found out by doing it.

/** What a slice should take at most, in milliseconds: for so long an accept may have to wait for it. */
const sliceMs = 20;
const fewestRows = 8;
const mostRows = 512;

/** The pace of one kind of work. */
export class SlicePace {
  #rows = 64;
  readonly #most: number;

  /** @param most rows of a slice at most */
  constructor(most = mostRows) {
    this.#most = most;
  }

  /** Rows of the next slice at most. */
  get rows(): number {
    return this.#rows;
  }

  /** Does a slice, and learns from it. @param work gives how long it took, in milliseconds */
  async take(work: () => Promise<number>): Promise<void> {
    const ms = await work();
    if (ms > sliceMs) this.#rows = Math.max(fewestRows, Math.floor(this.#rows / 2));
    else if (ms < sliceMs / 2) this.#rows = Math.min(this.#most, this.#rows * 2);
  }
}
