// Limits how many HTTP connections there may be (D66): in all, and from one address. The listeners of a process share the limit.

import { countedAddress } from '../../base/counted-address.ts';
import { addressTest } from '../../base/net/address-test.ts';

/** How many connections are taken. */
export interface ConnectionLimits {
  /** In all, HTTP and HTTPS together. */
  readonly connections: number;
  /** From one IPv4 address or IPv6 /64. */
  readonly connectionsPerAddress: number;
}

/** Why a connection is not taken. */
export type ConnectionRefusal = 'all' | 'address';

/** Counts connections. */
export interface ConnectionLimit {
  /** Counts a connection from this address, or tells why it is refused. `closed` gives a counted connection back. */
  take(address: string): ConnectionRefusal | undefined;
  closed(address: string): void;
  /** Uses other limits from now on; open connections stay. */
  follow(limits: ConnectionLimits, trusted?: readonly string[]): void;
  /** Connections open now. */
  open(): number;
  /** Connections refused since the start. */
  refused(): Readonly<Record<ConnectionRefusal, number>>;
}

/**
 * Makes the count of connections.
 * @param trusted networks to whose addresses the limit of one address does not apply: a proxy brings many clients
 */
export function createConnectionLimit(given: ConnectionLimits, trusted: readonly string[] = []): ConnectionLimit {
  let limits = given;
  let isTrusted = addressTest(trusted);
  const byAddress = new Map<string, number>();
  const refused = { all: 0, address: 0 };
  let open = 0;
  return {
    take(address) {
      const key = countedAddress(address);
      const count = byAddress.get(key) ?? 0;
      const isOver = count >= limits.connectionsPerAddress && !isTrusted(address);
      const refusal = isOver ? 'address' : open >= limits.connections ? 'all' : undefined;
      if (refusal) {
        refused[refusal] += 1;
        return refusal;
      }
      open += 1;
      byAddress.set(key, count + 1);
      return undefined;
    },
    closed(address) {
      const key = countedAddress(address);
      const count = byAddress.get(key) ?? 0;
      open -= 1;
      if (count > 1) byAddress.set(key, count - 1);
      else byAddress.delete(key);
    },
    follow(next, trustedNow = []) {
      limits = next;
      isTrusted = addressTest(trustedNow);
    },
    open: () => open,
    refused: () => ({ ...refused }),
  };
}
