// Limits HTTP connections (D66), in all and from one address, over the listeners of a process and the processes of a server.

import { countedAddress } from '../../../base/counted-address.ts';
import { Counts } from '../../../base/counts.ts';
import { addressTest } from '../../../base/net/socket-address.ts';
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

/** Makes the count. @param trusted networks whose addresses have no limit of their own @param shared counts over all processes */
export function createConnectionLimit(
  given: ConnectionLimits,
  trusted: readonly string[] = [],
  shared?: SharedConnections,
) {
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
    /** Counts a connection from this address, or tells why it is refused. `closed` gives a counted connection back. */
    take(address: string): ConnectionRefusal | undefined {
      const key = countedAddress(address);
      const isOver = byAddress.of(key) >= limits.connectionsPerAddress && !isTrusted(address);
      const refusal = isOver ? 'address' : open >= limits.connections ? 'all' : undefined;
      if (refusal) return refuse(refusal);
      open += 1;
      byAddress.add(key);
      return undefined;
    },
    closed(address: string): void {
      open -= 1;
      byAddress.add(countedAddress(address), -1);
    },
    /** Counts a connection that `take` has counted over all processes, too; absent where there is one. Throws where the supervisor is gone. */
    overAll: shared && {
      take: takeFrom(shared),
      closed: (address: string): void => shared.closed(countedAddress(address)),
    },
    /** Uses other limits from now on; open connections stay. */
    follow(next: ConnectionLimits, trustedNow: readonly string[] = []): void {
      limits = next;
      isTrusted = addressTest(trustedNow);
    },
    open: (): number => open,
    /** Connections refused since the start. */
    refused: (): Readonly<Record<ConnectionRefusal, number>> => ({ ...refused }),
  };
}

/** Counts connections. */
export type ConnectionLimit = ReturnType<typeof createConnectionLimit>;
