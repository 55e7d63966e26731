// How many requests a client may make of a zone (D66, 1015). A window begins with a client's first request; once it is
// full, what comes before its end is refused and not counted.

import type { MonotonicClock } from '../../base/clock.ts';
import { countedAddress } from '../../base/counted-address.ts';

/** The limit of a zone. */
export interface RateLimit {
  /**
   * Counts a request, unless it is one too many. IPv6 clients are counted by their /64.
   * @returns 0 where it is counted; else the seconds to the end of the window, rounded up, at least 1 (D60)
   */
  take(address: string): number;
  /** Clients remembered now. */
  size(): number;
}

/** What counts for a zone. */
export interface RateLimitSettings {
  readonly requests: number;
  readonly perSeconds: number;
}

/**
 * Keeps the counts of zones while the configuration changes: a zone whose limit is the same goes on with its count.
 * @returns what gives the count of a zone by its id and its limit; undefined where it has none
 */
export function keepRateLimits(
  clock: MonotonicClock,
): (zone: string, limit: RateLimitSettings | undefined) => RateLimit | undefined {
  const kept = new Map<string, { readonly limit: RateLimitSettings; readonly count: RateLimit }>();
  return (zone, limit) => {
    if (!limit) {
      kept.delete(zone);
      return undefined;
    }
    const before = kept.get(zone);
    const isSame = before?.limit.requests === limit.requests && before.limit.perSeconds === limit.perSeconds;
    if (before && isSame) return before.count;
    const count = createRateLimit(limit, clock);
    kept.set(zone, { limit, count });
    return count;
  };
}

/** Clients of a zone that are remembered: the oldest are forgotten, so that a flood of addresses costs no memory. */
const maxClients = 50_000;

/** Makes the count; it lives in memory, one for each process. */
export function createRateLimit(
  { requests, perSeconds }: RateLimitSettings,
  clock: MonotonicClock,
  most = maxClients,
): RateLimit {
  // In the order in which the windows began, so that the first are the first to end.
  const windows = new Map<string, { count: number; readonly until: number }>();
  const forget = (now: number): void => {
    for (const [key, { until }] of windows) {
      if (until > now && windows.size < most) return;
      windows.delete(key);
    }
  };
  return {
    take(address) {
      const key = countedAddress(address);
      const now = clock.monotonic();
      const window = windows.get(key);
      if (window && window.until > now) {
        if (window.count >= requests) return Math.max(1, Math.ceil((window.until - now) / 1000));
        window.count += 1;
        return 0;
      }
      windows.delete(key);
      forget(now);
      windows.set(key, { count: 1, until: now + perSeconds * 1000 });
      return 0;
    },
    size: () => windows.size,
  };
}
