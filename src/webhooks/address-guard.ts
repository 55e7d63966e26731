// Judges where a webhook may lead: a request of ours must reach neither what only this network reaches nor ourselves.

import ipaddr from 'ipaddr.js';
import { addressTest } from '../base/net/address-test.ts';
import { reachedAddresses } from '../base/net/reached-addresses.ts';

/** What operators allow and what Postern itself listens on. */
export interface GuardSettings {
  /** Networks that may be called although they are not public. */
  readonly allowNetworks: readonly string[];
  /** Whether Postern itself listens at an address; asked with each connection. Absent: nowhere. */
  readonly isOwn?: (address: string, port: number) => boolean;
}

/** @returns why an address may not be called; undefined where it may */
export type RefuseAddress = (address: string, port: number) => string | undefined;

/** Ranges that ipaddr.js takes for public and that are not: documentation (RFC 9637, RFC 5737), benchmarks, 192.0.0.0/24. */
const besides = addressTest([
  ...['192.0.0.0/24', '192.0.2.0/24', '198.51.100.0/24', '203.0.113.0/24', '198.18.0.0/15', '192.88.99.0/24'],
  ...['3fff::/20', '2001:db8::/32', '2001::/23', '100::/64', 'fec0::/10', '5f00::/16'],
]);

function isPublic(address: string): boolean {
  return ipaddr.process(address).range() === 'unicast' && !besides(address);
}

/**
 * Makes the judge. An address is judged by each address that a connection to it may end at, so that no spelling helps.
 * @throws ConfigurationError for a network that is none
 */
export function createAddressGuard({ allowNetworks, isOwn }: GuardSettings): RefuseAddress {
  const isAllowed = addressTest(allowNetworks);
  return (address, port) => {
    const reached = reachedAddresses(address);
    const [own = ''] = reached;
    // Behind 6to4 and NAT64 stands an IPv4 address, which decides; the range of the wrapping tells nothing.
    const judged = reached.length > 1 ? reached.slice(1) : reached;
    if (judged.length === 0) return 'it has no IP address';
    if (reached.some((one) => isOwn?.(one, port))) return `Postern itself listens at ${own}`;
    if (isAllowed(own) || judged.every((one) => isAllowed(one) || isPublic(one))) return undefined;
    return `${own} is no public address, and webhooks.allowNetworks does not name it`;
  };
}
