// Counts the open requests (D66, 1200): in all, to each zone, and of each client. Upgraded connections count until they close.

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
  /** Whether more requests are open, this one included, than its zone, its client or the process may have. */
  isOver(): boolean;
  /** Must be called once, when the request has ended. */
  end(): void;
}

/** Counts requests. */
export interface OpenRequests {
  /** Counts a request. `zone` is the zone's id; empty for a request to no zone. */
  begin(zone: string, address: string): OpenRequest;
  /** Requests open now. */
  open(): number;
}

/** Counts by a key. A count of zero is removed, so the map is never larger than the number of open requests. */
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

/** Makes the count, which each process keeps in its own memory. */
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
