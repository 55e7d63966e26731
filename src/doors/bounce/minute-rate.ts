// Counts what each address (IPv6: each /64) does in a minute, so that one address can be told to come later.

import { countedAddress } from '../../base/counted-address.ts';
import type { SharedWindows } from '../../base/process-group.ts';
import { RecentMap } from '../../base/recent-map.ts';

const minuteMs = 60_000;
/** Addresses that are remembered. For a new one, the address that began its minute first is forgotten. */
const mostAddresses = 10_000;

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
    const counts = new RecentMap<string, { readonly since: number; count: number }>(mostAddresses);
    return (given, most) => {
      const address = countedAddress(given);
      const at = now();
      const known = counts.get(address);
      const entry = known && at - known.since < minuteMs ? known : { since: at, count: 0 };
      if (entry !== known) counts.set(address, entry);
      entry.count += 1;
      return entry.count > most;
    };
  }
  return async (address, most) => {
    const limit = { requests: most, perSeconds: minuteMs / 1000 };
    // Without its supervisor this process is ending, and takes what has come.
    return (await shared.take(name, limit, countedAddress(address)).catch(() => 0)) > 0;
  };
}
