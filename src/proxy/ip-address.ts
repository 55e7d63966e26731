// IP addresses as the rules compare them: one spelling each (RFC 5952), IPv4-mapped IPv6 taken for the IPv4 that it is.

import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';

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

function parseNetwork(text: string): readonly [Address, number] | undefined {
  const [host = '', prefix] = text.split('/');
  if (isIP(host) === 0 || host.includes('%') || !ipaddr.isValid(host)) return undefined;
  const address = ipaddr.parse(host);
  const bits = prefix === undefined ? (address instanceof ipaddr.IPv6 ? 128 : 32) : Number(prefix);
  if (!(address instanceof ipaddr.IPv6) || !address.isIPv4MappedAddress() || bits < 96) return [address, bits];
  return [address.toIPv4Address(), bits - 96];
}

/** Whether an address is in one of some networks (CIDR, or single addresses). False for what is no address. */
export function isInNetworks(text: string, networks: readonly string[]): boolean {
  const address = parse(text);
  if (!address) return false;
  return networks.some((entry) => {
    const network = parseNetwork(entry);
    if (!network || network[0].kind() !== address.kind()) return false;
    return address.match(network[0], network[1]);
  });
}
