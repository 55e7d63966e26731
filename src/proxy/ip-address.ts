// IP addresses as the rules compare them: one spelling each (RFC 5952), IPv4-mapped IPv6 taken for the IPv4 that it is.

import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { type AddressTest, addressTest } from './address-lists.ts';

type Address = ipaddr.IPv4 | ipaddr.IPv6;

// `process` turns ::ffff:192.0.2.1 into 192.0.2.1. Both reach the same host: a list that knows only one of them would
// let the other through.
function parse(text: string): Address | undefined {
  if (isIP(text) === 0 || text.includes('%')) return undefined;
  return ipaddr.isValid(text) ? ipaddr.process(text) : undefined;
}

function write(address: Address): string {
  return address instanceof ipaddr.IPv6 ? address.toRFC5952String() : address.toString();
}

/**
 * The one spelling of an address.
 * @param text IPv4 as four decimal numbers without leading zeros, or IPv6 without brackets and without a zone id
 * @returns undefined for anything else
 */
export function canonicalAddress(text: string): string | undefined {
  const address = parse(text);
  return address && write(address);
}

// Lists of the configuration are the same arrays for every request: each is read once.
const tests = new WeakMap<readonly string[], AddressTest>();

/**
 * Whether an address is in one of some networks (CIDR, or single addresses). False for what is no address.
 * @throws RangeError for a network that is none
 */
export function isInNetworks(text: string, networks: readonly string[]): boolean {
  if (!parse(text)) return false;
  const known = tests.get(networks);
  const test = known ?? addressTest(networks);
  if (!known) tests.set(networks, test);
  return test(text);
}
