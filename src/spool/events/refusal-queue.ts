// Refusals that wait to be written: a bounded number, divided among the accounts, so that the account with the most
// refusals never takes the room of another, nor copies that of refusals.

import type { WrittenRefusal } from './refusal.ts';

/** How many refusals may wait, over all accounts and for each: at a few kilobytes for each refusal, some megabytes. */
const [mostOfAll, mostOfAccount] = [1024, 256];

/** Whose room one takes: that of its account, which for copies of a shadow listener has one of its own. */
function ownerOf({ event: { kind, account } }: WrittenRefusal): string {
  return `${kind} ${account}`;
}

function octetsOf({ journal }: WrittenRefusal): number {
  return journal?.octets?.length ?? 0;
}

/** The refusals that wait to be written. */
export class RefusalQueue {
  readonly #waiting = new Map<string, WrittenRefusal[]>();
  #length = 0;
  #octets = 0;

  /** Octets of the messages that wait with them, for the journal. */
  get octets(): number {
    return this.#octets;
  }

  get length(): number {
    return this.#length;
  }

  /**
   * Puts a refusal in. When the queue is full, the latest refusal of the account with the most is dropped to make room.
   * @returns how many refusals were dropped, this one or another: 0 or 1
   */
  put(refusal: WrittenRefusal): number {
    const owner = ownerOf(refusal);
    const waiting = this.#waiting.get(owner)?.length ?? 0;
    if (waiting >= mostOfAccount) return 1;
    const isFull = this.#length >= mostOfAll;
    if (isFull && !this.#makeRoom(waiting)) return 1;
    const list = this.#waiting.get(owner);
    if (list) list.push(refusal);
    else this.#waiting.set(owner, [refusal]);
    this.#length += 1;
    this.#octets += octetsOf(refusal);
    return isFull ? 1 : 0;
  }

  /** Takes up to `limit` refusals, one of each account in turn. */
  take(limit: number): readonly WrittenRefusal[] {
    const taken: WrittenRefusal[] = [];
    while (taken.length < limit && this.#length > 0) {
      for (const [owner, list] of this.#waiting) {
        const refusal = list.shift();
        if (refusal) {
          taken.push(refusal);
          this.#leaves(refusal);
        }
        if (list.length === 0) this.#waiting.delete(owner);
        if (taken.length === limit) break;
      }
    }
    return taken;
  }

  #leaves(refusal: WrittenRefusal): void {
    this.#length -= 1;
    this.#octets -= octetsOf(refusal);
  }

  /** Drops the latest refusal of the account with the most, if it has more than `than`; tells whether it did. */
  #makeRoom(than: number): boolean {
    let longest: WrittenRefusal[] = [];
    for (const list of this.#waiting.values()) if (list.length > longest.length) longest = list;
    if (longest.length <= than + 1) return false;
    const dropped = longest.pop();
    if (dropped) this.#leaves(dropped);
    return true;
  }
}
