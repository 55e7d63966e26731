// How many requests are open (D66, 1200): in all, of one zone, and of one client. Upgraded connections count until they
// close.

import { countedAddress } from '../../base/counted-address.ts';

/** How many requests may be open. */
export interface RequestLimits {
  /** In all. */
  readonly requests: number;
  /** To one zone, so that no site takes them all. */
  readonly requestsPerZone: number;
  /** Of one client: an IPv4 address or an IPv6 /64. */
  readonly requestsPerAddress: number;
}

/** One request that is counted. */
export interface OpenRequest {
  /** Whether there are more open than its zone, its client or the process may have, itself counted. */
  isOver(): boolean;
  /** It has ended; called once. */
  end(): void;
}

/** Counts requests. */
export interface OpenRequests {
  /** `zone` is the zone's id; empty for a request that is no zone's. */
  begin(zone: string, address: string): OpenRequest;
  /** Requests open now. */
  open(): number;
}

/** Counts by a key, forgotten at zero: a map is never larger than the number of requests open. */
class Counts {
  readonly #counts = new Map<string, number>();

  of(key: string): number {
    return this.#counts.get(key) ?? 0;
  }

  add(key: string): void {
    this.#counts.set(key, this.of(key) + 1);
  }

  remove(key: string): void {
    const left = this.of(key) - 1;
    if (left > 0) this.#counts.set(key, left);
    else this.#counts.delete(key);
  }
}

/** Makes the count; it lives in memory, one for each process. */
export function createOpenRequests(limits: RequestLimits): OpenRequests {
  const zones = new Counts();
  const addresses = new Counts();
  let open = 0;
  return {
    begin(zone, address) {
      const key = countedAddress(address);
      open += 1;
      zones.add(zone);
      addresses.add(key);
      return {
        isOver: () =>
          open > limits.requests ||
          (zone !== '' && zones.of(zone) > limits.requestsPerZone) ||
          addresses.of(key) > limits.requestsPerAddress,
        end() {
          open -= 1;
          zones.remove(zone);
          addresses.remove(key);
        },
      };
    },
    open: () => open,
  };
}
