// IP addresses as the rules compare them: one spelling each (RFC 5952), IPv4-mapped IPv6 taken for the IPv4 that it is.

import { isIP } from 'node:net';
import { type AddressTest, addressTest } from '../../base/net/address-test.ts';
import { normalAddress } from '../../base/net/socket-address.ts';

/**
 * The one spelling of an address.
 * @param text IPv4 as four decimal numbers without leading zeros, or IPv6 without brackets and without a zone id
 * @returns undefined for anything else
 */
export function canonicalAddress(text: string): string | undefined {
  return isIP(text) === 0 || text.includes('%') ? undefined : normalAddress(text);
}

// Lists of the configuration are the same arrays for every request: each is read once.
const tests = new WeakMap<readonly string[], AddressTest>();

/**
 * Whether an address is in one of some networks (CIDR, or single addresses). False for what is no address.
 * @throws ConfigurationError for a network that is none
 */
export function isInNetworks(text: string, networks: readonly string[]): boolean {
  if (canonicalAddress(text) === undefined) return false;
  const known = tests.get(networks);
  const test = known ?? addressTest(networks);
  if (!known) tests.set(networks, test);
  return test(text);
}
