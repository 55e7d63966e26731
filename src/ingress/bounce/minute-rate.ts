// Counts what each address does in a minute, so that one address can be told to come later.

import { countedAddress } from '../../base/counted-address.ts';

const minuteMs = 60_000;
/** Addresses that are remembered. For a new one, the address that began its minute first is forgotten. */
const mostAddresses = 10_000;

/** Counts by address (IPv6: by its /64). */
export class MinuteRate {
  readonly #now: () => number;
  readonly #counts = new Map<string, { readonly since: number; count: number }>();

  /** @param now milliseconds of the monotonic clock */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** Counts one more. @returns how many there are in this minute, this one included */
  add(given: string): number {
    const address = countedAddress(given);
    const now = this.#now();
    let entry = this.#counts.get(address);
    if (!entry || now - entry.since >= minuteMs) {
      this.#counts.delete(address);
      entry = { since: now, count: 0 };
      this.#counts.set(address, entry);
      const [oldest] = this.#counts.keys();
      if (this.#counts.size > mostAddresses && oldest !== undefined) this.#counts.delete(oldest);
    }
    entry.count += 1;
    return entry.count;
  }
}
