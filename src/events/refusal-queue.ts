// Refusals on their way to the store: a bounded number of them, shared out by account, so that whoever is refused most
// never takes the room of another.

import type { RefusedEvent } from './mail-event.ts';

/** What waits at most, over all accounts and of one. */
export interface QueueBounds {
  readonly all: number;
  readonly perAccount: number;
}

/** The bounds of a running gateway: at a few kilobytes each some megabytes. */
export const refusalBounds: QueueBounds = { all: 1024, perAccount: 256 };

/** Refusals that wait. */
export class RefusalQueue {
  readonly #bounds: QueueBounds;
  readonly #waiting = new Map<string, RefusedEvent[]>();
  #length = 0;

  constructor(bounds: QueueBounds = refusalBounds) {
    this.#bounds = bounds;
  }

  get length(): number {
    return this.#length;
  }

  /**
   * Puts one in. Where all room is taken, the account that has most makes room for it, by its latest.
   * @returns how many were left out for it: itself or another one; 0 or 1
   */
  put(event: RefusedEvent): number {
    const own = this.#waiting.get(event.account);
    const waiting = own?.length ?? 0;
    if (waiting >= this.#bounds.perAccount) return 1;
    const isFull = this.#length >= this.#bounds.all;
    if (isFull && !this.#makeRoom(waiting)) return 1;
    const list = this.#waiting.get(event.account);
    if (list) list.push(event);
    else this.#waiting.set(event.account, [event]);
    this.#length += 1;
    return isFull ? 1 : 0;
  }

  /** Takes up to `limit` of them, one of each account in turn. */
  take(limit: number): readonly RefusedEvent[] {
    const taken: RefusedEvent[] = [];
    for (let round = 0; taken.length < limit && this.#length > 0; round += 1) {
      for (const [account, list] of this.#waiting) {
        const event = list[round];
        if (!event) continue;
        taken.push(event);
        this.#length -= 1;
        if (round === list.length - 1) this.#waiting.delete(account);
        if (taken.length === limit) break;
      }
      if (taken.length === limit) this.#forget(taken);
    }
    return taken;
  }

  /** Removes what was taken of lists that have more. */
  #forget(taken: readonly RefusedEvent[]): void {
    const gone = new Set(taken);
    for (const [account, list] of this.#waiting) {
      const left = list.filter((event) => !gone.has(event));
      if (left.length === 0) this.#waiting.delete(account);
      else this.#waiting.set(account, left);
    }
  }

  /** Leaves out the latest of the account that has most, where that is more than `than`. */
  #makeRoom(than: number): boolean {
    let longest: RefusedEvent[] = [];
    for (const list of this.#waiting.values()) if (list.length > longest.length) longest = list;
    if (longest.length <= than + 1) return false;
    longest.pop();
    this.#length -= 1;
    return true;
  }
}
