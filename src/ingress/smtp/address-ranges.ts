// IP addresses in one form, and lists of address ranges (RFC 4632, RFC 4291).

import ipaddr from 'ipaddr.js';
import { ConfigurationError } from '../../base/errors.ts';

/**
 * Gives an address its normal form: an IPv4 address inside IPv6 (`::ffff:192.0.2.1`, what a dual-stack socket reports)
 * as IPv4, IPv6 as RFC 5952 writes it, without a zone.
 * @returns undefined when it is no IP address
 */
export function normalAddress(address: string): string | undefined {
  const bare = address.includes('%') ? address.slice(0, address.indexOf('%')) : address;
  return ipaddr.isValid(bare) ? ipaddr.process(bare).toString() : undefined;
}

type Range = readonly [ipaddr.IPv4 | ipaddr.IPv6, number];

function readRange(text: string): Range {
  try {
    if (!text.includes('/')) {
      const address = ipaddr.process(text);
      return [address, address.kind() === 'ipv4' ? 32 : 128];
    }
    const [address, bits] = ipaddr.parseCIDR(text);
    const mapped = address instanceof ipaddr.IPv6 && address.isIPv4MappedAddress() && bits >= 96;
    return mapped ? [address.toIPv4Address(), bits - 96] : [address, bits];
  } catch (cause) {
    throw new ConfigurationError(`Cannot read "${text}" as an address range: want an IP address, or one with /bits`, {
      cause,
    });
  }
}

/**
 * Makes the test whether an address, in its normal form, lies in one of the ranges.
 * @param ranges CIDRs or single addresses
 * @throws ConfigurationError for one that is neither
 */
export function addressMatcher(ranges: readonly string[]): (address: string) => boolean {
  const read = ranges.map(readRange);
  return (address) => {
    if (read.length === 0 || !ipaddr.isValid(address)) return false;
    const given = ipaddr.process(address);
    return read.some(([network, bits]) => given.kind() === network.kind() && given.match(network, bits));
  };
}
