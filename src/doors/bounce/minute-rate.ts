// Counts what each address does in a minute, so that one address can be told to come later.

import { countedAddress } from '../../base/counted-address.ts';
import type { SharedWindows } from '../../base/process-group.ts';

const minuteMs = 60_000;
/** Addresses that are remembered. For a new one, the address that began its minute first is forgotten. */
const mostAddresses = 10_000;

/** Counts by address (IPv6: by its /64). */
class MinuteRate {
  readonly #now: () => number;
  readonly #counts = new Map<string, { readonly since: number; count: number }>();

  /** @param now milliseconds of the monotonic clock */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** Counts one more. @returns whether there are more than `most` in this minute, this one included */
  isOver(given: string, most: number): boolean {
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
    return entry.count > most;
  }
}

/** Counts what an address does in a minute. @returns whether it is more than `most` */
export type IsOverRate = (address: string, most: number) => boolean | Promise<boolean>;

/**
 * Makes the count of a minute.
 * @param name what is counted
 * @param parts `shared` counts over all processes, absent: there is one; `now` gives milliseconds of the monotonic clock
 */
export function createMinuteRate(
  name: string,
  { shared, now }: { readonly shared?: SharedWindows | undefined; readonly now: () => number },
): IsOverRate {
  if (!shared) {
    const rate = new MinuteRate(now);
    return (address, most) => rate.isOver(address, most);
  }
  return async (address, most) => {
    const limit = { requests: most, perSeconds: minuteMs / 1000 };
    // Without its supervisor this process is ending, and takes what has come.
    return (await shared.take(name, limit, countedAddress(address)).catch(() => 0)) > 0;
  };
}
