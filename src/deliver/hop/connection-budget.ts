// Bounds the connections to all next hops together, so that mail for very many destinations cannot use up the descriptors of
// the process. Idle connections make room for those that have work.

/** Who opens connections. */
export interface ConnectionHolder {
  /** Closes a connection that has no work. @returns false where there is none */
  closeIdle(): boolean;
  /** There may be room for a connection. */
  wake(): void;
}

/** The connections that may be open or opening at once. */
export class ConnectionBudget {
  readonly #most: number;
  #taken = 0;
  /** Who found no room, in the order in which they get it. */
  readonly #waiting = new Set<ConnectionHolder>();
  readonly #idle = new Set<ConnectionHolder>();

  /** @param most connections open or opening at once */
  constructor(most: number) {
    this.#most = most;
  }

  get taken(): number {
    return this.#taken;
  }

  /** Takes room for a connection. Where there is none, an idle one is closed, and the holder is woken when there may be room. */
  tryTake(holder: ConnectionHolder): boolean {
    if (this.#taken < this.#most) {
      this.#taken += 1;
      this.#waiting.delete(holder);
      return true;
    }
    this.#waiting.add(holder);
    for (const other of this.#idle) {
      this.#idle.delete(other);
      if (other !== holder && other.closeIdle()) break;
    }
    return false;
  }

  release(): void {
    this.#taken -= 1;
    const [next] = this.#waiting;
    if (!next) return;
    this.#waiting.delete(next);
    next.wake();
  }

  /** Somebody waits for room. */
  get isWanted(): boolean {
    return this.#waiting.size > 0;
  }

  /** A holder has a connection without work; it is closed at once where somebody waits for room. */
  isIdle(holder: ConnectionHolder): void {
    if (this.isWanted && holder.closeIdle()) return;
    this.#idle.add(holder);
  }

  /** A holder is stopped and opens nothing more. */
  forget(holder: ConnectionHolder): void {
    this.#waiting.delete(holder);
    this.#idle.delete(holder);
  }
}
