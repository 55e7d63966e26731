// Limits how many HTTP connections there may be (D66): in all, and from one address. The listeners of a process share the limit,
// and so do the processes of a server.

import { countedAddress } from '../../../base/counted-address.ts';
import { Counts } from '../../../base/counts.ts';
import { addressTest } from '../../../base/net/address-test.ts';
import type { SharedConnections } from '../../../base/process-group.ts';

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
  /** Counts a connection that `take` has counted over all processes, too; absent where there is one. */
  readonly overAll?: {
    /** Counts it, or tells why it is refused. @throws Error where the supervisor is gone */
    readonly take: (address: string) => Promise<ConnectionRefusal | undefined>;
    readonly closed: (address: string) => void;
  };
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
 * @param shared counts the connections over all processes; absent: there is one
 */
export function createConnectionLimit(
  given: ConnectionLimits,
  trusted: readonly string[] = [],
  shared?: SharedConnections,
): ConnectionLimit {
  let limits = given;
  let isTrusted = addressTest(trusted);
  const byAddress = new Counts();
  const refused = { all: 0, address: 0 };
  let open = 0;
  const refuse = (refusal: ConnectionRefusal): ConnectionRefusal => {
    refused[refusal] += 1;
    return refusal;
  };
  const takeFrom = (from: SharedConnections) => async (address: string) => {
    const { connections, connectionsPerAddress } = limits;
    const ofAddress = isTrusted(address) ? {} : { connectionsPerAddress };
    const refusal = await from.take(countedAddress(address), { connections, ...ofAddress });
    return refusal && refuse(refusal);
  };
  return {
    take(address) {
      const key = countedAddress(address);
      const isOver = byAddress.of(key) >= limits.connectionsPerAddress && !isTrusted(address);
      const refusal = isOver ? 'address' : open >= limits.connections ? 'all' : undefined;
      if (refusal) return refuse(refusal);
      open += 1;
      byAddress.add(key);
      return undefined;
    },
    closed(address) {
      open -= 1;
      byAddress.add(countedAddress(address), -1);
    },
    ...(shared
      ? { overAll: { take: takeFrom(shared), closed: (address: string) => shared.closed(countedAddress(address)) } }
      : {}),
    follow(next, trustedNow = []) {
      limits = next;
      isTrusted = addressTest(trustedNow);
    },
    open: () => open,
    refused: () => ({ ...refused }),
  };
}
