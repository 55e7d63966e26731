// Bounds the connections to all next hops together, so that many destinations cannot use up the descriptors; idle ones make room. Each
// counts for the account that it was opened for: hops that say nothing use up the share of who sends to them.

import { Counts } from '../../base/counts.ts';

/** Who opens connections. */
export interface ConnectionHolder {
  /** Closes a connection that has no work. @returns false where there is none */
  closeIdle(): boolean;
  /** There may be room for a connection; a holder that does not take it calls `passOn`. */
  hasRoom(): void;
}

/** Room for one connection. */
export interface HopRoom {
  /** Somebody waits for room who would get this one. */
  readonly isWanted: boolean;
  /** Gives the room back, once. */
  release(): void;
}

/** An account may have so many times the connections that it leaves free. */
const greed = 9;
/** Accounts that wait, of which so many are looked at to tell whether one would get room. */
const mostLookedAt = 20;

/** The connections that may be open or opening at once. */
export class ConnectionBudget {
  taken = 0;
  readonly #most: number;
  readonly #byAccount = new Counts();
  /** Who found no room, by the accounts they wanted it for, in the order in which they get it. */
  readonly #waiting = new Map<string, Set<ConnectionHolder>>();
  readonly #accountsOf = new Map<ConnectionHolder, readonly string[]>();
  readonly #idle = new Set<ConnectionHolder>();

  /** @param most connections open or opening at once */
  constructor(most: number) {
    this.#most = most;
  }

  /** Takes room, or closes an idle connection and wakes the holder later. @param accounts of its work; the first that may have it counts */
  tryTake(holder: ConnectionHolder, accounts: readonly string[]): HopRoom | undefined {
    const account = accounts.find((one) => this.#mayHave(one, this.#most - this.taken));
    this.#stopWaiting(holder);
    if (account !== undefined) return this.#take(account);
    this.#accountsOf.set(holder, accounts);
    for (const one of accounts) this.#waiting.set(one, (this.#waiting.get(one) ?? new Set()).add(holder));
    for (const other of this.#idle) {
      if (other === holder) continue;
      this.#idle.delete(other);
      if (other.closeIdle()) break;
    }
    return undefined;
  }

  /** A holder has a connection without work; it is closed at once where somebody waits for room. */
  isIdle(holder: ConnectionHolder): void {
    if (this.#waiting.size > 0 && holder.closeIdle()) return;
    this.#idle.add(holder);
  }

  /** A holder is stopped and opens nothing more. */
  forget(holder: ConnectionHolder): void {
    this.#stopWaiting(holder);
    this.#idle.delete(holder);
  }

  #mayHave(account: string, free: number): boolean {
    return this.#byAccount.of(account) < greed * free;
  }

  #take(account: string): HopRoom {
    this.#count(account, 1);
    const isWanted = (): boolean => this.#isWantedOf(account);
    let isReleased = false;
    return {
      get isWanted() {
        return isWanted();
      },
      release: () => {
        if (isReleased) return;
        isReleased = true;
        this.#count(account, -1);
        this.passOn();
      },
    };
  }

  #count(account: string, by: 1 | -1): void {
    this.taken += by;
    this.#byAccount.add(account, by);
  }

  /** Whether one who waits would get room if a connection of this account were closed. */
  #isWantedOf(account: string): boolean {
    if (this.#waiting.has(account)) return true;
    let left = mostLookedAt;
    for (const waiting of this.#waiting.keys()) {
      if (this.#mayHave(waiting, this.#most - this.taken + 1)) return true;
      left -= 1;
      if (left === 0) return false;
    }
    return false;
  }

  /** Wakes who has waited longest of the account whose turn it is. One that does not take the room passes it on so. */
  passOn(): void {
    for (const [account, holders] of this.#waiting) {
      const [next] = holders;
      if (!next || !this.#mayHave(account, this.#most - this.taken)) continue;
      this.#stopWaiting(next);
      // The account's next holder waits behind those of all others.
      if (this.#waiting.delete(account) && holders.size > 0) this.#waiting.set(account, holders);
      return next.hasRoom();
    }
  }

  #stopWaiting(holder: ConnectionHolder): void {
    for (const account of this.#accountsOf.get(holder) ?? []) {
      const holders = this.#waiting.get(account);
      holders?.delete(holder);
      if (holders?.size === 0) this.#waiting.delete(account);
    }
    this.#accountsOf.delete(holder);
  }
}
