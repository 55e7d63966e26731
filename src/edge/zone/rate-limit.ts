// Limits a client's requests to a zone (D66, 1015). A window begins with the first; what comes once it is full is not counted.

import type { MonotonicClock } from '../../base/clock.ts';
import { countedAddress } from '../../base/counted-address.ts';
import type { SharedWindows, WindowLimit } from '../../base/process-group.ts';

/** The limit of a zone. */
export interface RateLimit {
  /** Counts a request; IPv6 clients by their /64. @returns 0, or the seconds to the end of the window where it is one too many (D60) */
  take(address: string): number | Promise<number>;
}

/** The limit of a zone, counted in the memory of this process. */
export interface OwnRateLimit extends RateLimit {
  take(address: string): number;
  size(): number;
}

/** Gives the count of a zone by its id and its limit; undefined where the zone has no limit. */
export type RateLimitOf<Limit = RateLimit> = (zone: string, limit: WindowLimit | undefined) => Limit | undefined;

/** Keeps the counts of zones while the configuration changes: a zone whose limit stays the same keeps its count. */
export function keepRateLimits(clock: MonotonicClock): RateLimitOf<OwnRateLimit> {
  const kept = new Map<string, { readonly limit: WindowLimit; readonly count: OwnRateLimit }>();
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

/** Has all processes of a server count together. */
export function shareRateLimits(windows: SharedWindows): RateLimitOf {
  return (zone, limit) => {
    if (!limit) return undefined;
    const { requests, perSeconds } = limit;
    return {
      take: (address) =>
        windows
          .take(`zone ${zone}`, { requests, perSeconds }, countedAddress(address))
          // Without its supervisor this process is ending, and answers what it has.
          .catch(() => 0),
    };
  };
}

/** Has all gateways of one database count together. @param takeWindow as `ToldCounts.takeWindow` */
export function tellRateLimits(takeWindow: (name: string, limit: WindowLimit, address: string) => number): RateLimitOf {
  return (zone, limit) => limit && { take: (address) => takeWindow(`zone ${zone}`, limit, address) };
}

/** The most clients of a zone that are remembered. The oldest are forgotten, so that a flood of addresses is bounded. */
const maxClients = 50_000;

/** Makes the count of a zone in the memory of this process. */
export function createRateLimit(
  { requests, perSeconds }: WindowLimit,
  clock: MonotonicClock,
  most = maxClients,
): OwnRateLimit {
  // The map has the order in which the windows began, so that the first entries are the first to end.
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
