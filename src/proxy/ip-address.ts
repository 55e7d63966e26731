// IP addresses as the rules compare them: one spelling each (RFC 5952), IPv4-mapped IPv6 taken for the IPv4 that it is.

import { isIP } from 'node:net';
import { type AddressTest, addressTest } from './address-lists.ts';
import { addressOctets, addressText } from './address-octets.ts';

/**
 * The one spelling of an address. IPv4-mapped IPv6 is the IPv4 address: both reach the same host, and a list that knows
 * only one of them would let the other through.
 * @param text IPv4 as four decimal numbers without leading zeros, or IPv6 without brackets and without a zone id
 * @returns undefined for anything else
 */
export function canonicalAddress(text: string): string | undefined {
  if (isIP(text) === 0 || text.includes('%')) return undefined;
  const octets = addressOctets(text);
  return octets && addressText(octets);
}

// Lists of the configuration are the same arrays for every request: each is read once.
const tests = new WeakMap<readonly string[], AddressTest>();

/**
 * Whether an address is in one of some networks (CIDR, or single addresses). False for what is no address.
 * @throws RangeError for a network that is none
 */
export function isInNetworks(text: string, networks: readonly string[]): boolean {
  if (isIP(text) === 0 || text.includes('%')) return false;
  const known = tests.get(networks);
  const test = known ?? addressTest(networks);
  if (!known) tests.set(networks, test);
  return test(text);
}
