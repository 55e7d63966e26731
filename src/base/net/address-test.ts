// Sets of IP addresses given as networks (RFC 4632, RFC 4291): block and allow lists, trusted proxies, ranges of clients.

import { ConfigurationError } from '../errors.ts';
import { addressOctets, mappedOctets } from './address-octets.ts';

/** Whether an address is in a set. */
export type AddressTest = (address: string) => boolean;

/** The first `bits` bits of an address as a key to look up. The key's length tells the address family. */
function prefixKey(octets: Uint8Array, bits: number): string {
  const whole = bits >> 3;
  const rest = bits & 7;
  let key = octets.length === 4 ? '4' : '6';
  for (let index = 0; index < whole; index += 1) key += String.fromCharCode(octets[index] ?? 0);
  return rest === 0 ? key : key + String.fromCharCode((octets[whole] ?? 0) & (0xff << (8 - rest)));
}

function unreadable(text: string): ConfigurationError {
  return new ConfigurationError(`Not an address range: "${text}"; want an IP address, or one with /bits`);
}

function readNetwork(text: string): { readonly octets: Uint8Array; readonly bits: number } {
  const slash = text.indexOf('/');
  const octets = addressOctets(slash < 0 ? text : text.slice(0, slash));
  const digits = slash < 0 ? undefined : text.slice(slash + 1);
  if (!octets || (digits !== undefined && !/^\d{1,3}$/.test(digits))) throw unreadable(text);
  const size = octets.length * 8;
  const bits = digits === undefined ? size : Number(digits);
  if (bits > (text.includes(':') ? 128 : 32)) throw unreadable(text);
  if (size === 128 || !text.includes(':') || digits === undefined) return { octets, bits };
  // `::ffff:192.0.2.0/120` is 192.0.2.0/24; with fewer than 96 bits it is a network of IPv6.
  return bits >= 96 ? { octets, bits: bits - 96 } : { octets: mappedOctets(octets), bits };
}

/**
 * Makes a test whether an address is in one of some networks. It needs one look-up for each prefix length among them,
 * however many networks there are. A text that is no IP address is in none.
 * @param networks addresses and CIDRs
 * @throws ConfigurationError for one that is neither
 */
export function addressTest(networks: readonly string[]): AddressTest {
  const lengths: Record<4 | 16, Set<number>> = { 4: new Set(), 16: new Set() };
  const prefixes = new Set<string>();
  for (const text of networks) {
    const { octets, bits } = readNetwork(text);
    lengths[octets.length === 4 ? 4 : 16].add(bits);
    prefixes.add(`${bits}/${prefixKey(octets, bits)}`);
  }
  const has = (address: string): boolean => {
    const octets = prefixes.size === 0 ? undefined : addressOctets(address);
    if (!octets) return false;
    for (const bits of lengths[octets.length === 4 ? 4 : 16]) {
      if (prefixes.has(`${bits}/${prefixKey(octets, bits)}`)) return true;
    }
    return false;
  };
  // One address after another is the same: a proxy's, a client's on one connection, that of a listener.
  let [last, isIn] = ['', false];
  return (address) => {
    if (address !== last) [last, isIn] = [address, has(address)];
    return isIn;
  };
}

/** The networks that the Internet cannot reach: loopback, private (RFC 1918, 4193), link-local (RFC 3927, 4291), shared (RFC 6598). */
export const privateNetworks: readonly string[] = [
  ...['127.0.0.0/8', '10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '169.254.0.0/16', '100.64.0.0/10'],
  ...['::1/128', 'fc00::/7', 'fe80::/10'],
];
