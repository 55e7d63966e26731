// IP addresses: as octets (RFC 4291 §2.2, §2.5.5.2), in the one form that counters, keys and events use, in lists of networks
// (RFC 4632), and which machine a connection to one ends at, whatever it is spelt like (D84, D86; RFC 3056, 6052, 8215, 2765).

import { isIPv4 } from 'node:net';
import ipaddr from 'ipaddr.js';
import { ConfigurationError } from '../errors.ts';

/** Reads an IP address without brackets or zone. @returns 4 octets, also of IPv4 inside IPv6, or 16; undefined for anything else */
export function addressOctets(address: string): Uint8Array | undefined {
  const percent = address.indexOf('%');
  const bare = percent < 0 ? address : address.slice(0, percent);
  // Only four decimal numbers are accepted; the library would accept `10.1` and octal numbers as well.
  if (!bare.includes(':') && !ipaddr.IPv4.isValidFourPartDecimal(bare)) return undefined;
  if (!ipaddr.isValid(bare)) return undefined;
  // `::192.0.2.1` is no IPv4 address, though the library takes it for one, so that an allow list of IPv4 would let it through.
  if (/^::\d+\.\d+\.\d+\.\d+$/.test(bare)) {
    const octets = new Uint8Array(16);
    octets.set(ipaddr.IPv4.parse(bare.slice(2)).toByteArray(), 12);
    return octets;
  }
  return Uint8Array.from(ipaddr.process(bare).toByteArray());
}

/** An address in 16 octets; an IPv4 address becomes `::ffff:a.b.c.d`. */
export function mappedOctets(octets: Uint8Array): Uint8Array {
  if (octets.length === 16) return octets;
  const mapped = new Uint8Array(16);
  mapped.fill(0xff, 10, 12);
  mapped.set(octets, 12);
  return mapped;
}

/** Writes octets as text: IPv4 dotted, IPv6 as RFC 5952 has it. @throws Error unless they are 4 or 16 */
export function addressText(octets: Uint8Array): string {
  const address = ipaddr.fromByteArray([...octets]);
  return address instanceof ipaddr.IPv6 ? address.toRFC5952String() : address.toString();
}

/** Gives an address its normal form: IPv4 inside IPv6 as IPv4, IPv6 as RFC 5952 has it, without a zone; undefined for none. */
export function normalAddress(address: string): string | undefined {
  // What sockets report for IPv4 is in normal form already.
  if (isIPv4(address)) return address;
  const octets = addressOctets(address);
  return octets && addressText(octets);
}

/** Writes `address:port`, an IPv6 address in brackets. */
export function hostPort(address: string, port: number | string): string {
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
}

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

/** An IPv4 address inside an IPv6 one: the octets that all such addresses begin with, and where the four of IPv4 stand. */
interface Embedding {
  readonly prefix: readonly number[];
  readonly at: readonly [number, number, number, number];
}

const lastFour = [12, 13, 14, 15] as const;
const zeros = (count: number): readonly number[] => Array.from({ length: count }, () => 0);

const embeddings: readonly Embedding[] = [
  { prefix: [0x20, 0x02], at: [2, 3, 4, 5] },
  { prefix: [0x00, 0x64, 0xff, 0x9b, ...zeros(8)], at: lastFour },
  // Of the prefix for local use both ways of writing are read: as a /48 of its own (RFC 6052 §2.2), and as a /96 in it.
  { prefix: [0x00, 0x64, 0xff, 0x9b, 0x00, 0x01], at: [6, 7, 9, 10] },
  { prefix: [0x00, 0x64, 0xff, 0x9b, 0x00, 0x01], at: lastFour },
  { prefix: [...zeros(8), 0xff, 0xff, 0, 0], at: lastFour },
  { prefix: zeros(12), at: lastFour },
];

/** What the system puts in the place of an address that is all zeros. */
function standIn(octets: Uint8Array): string | undefined {
  if (octets.some((octet) => octet !== 0)) return undefined;
  return octets.length === 4 ? '127.0.0.1' : '::1';
}

function embeddedIn(octets: Uint8Array): readonly Uint8Array[] {
  if (octets.length === 4) return [];
  return embeddings
    .filter(({ prefix }) => prefix.every((octet, index) => octets[index] === octet))
    .map(({ at }) => Uint8Array.from(at, (index) => octets[index] ?? 0));
}

/**
 * The addresses that a connection to this one may end at, each in its normal form: the address itself, loopback for the
 * unspecified addresses, and the IPv4 address inside one of 6to4, NAT64 or another translation. A rule about addresses
 * holds where it holds for one of them.
 * @param address IPv4 or IPv6 without brackets; a zone behind `%` is left out
 * @returns nothing for what is no address
 */
export function reachedAddresses(address: string): readonly string[] {
  const octets = addressOctets(address);
  if (!octets) return [];
  const own = addressText(octets);
  const other = standIn(octets);
  // `::` and `::1` begin like an IPv4 address in the last four octets, and are none.
  if (other !== undefined) return [own, other];
  if (own === '::1') return [own];
  return [...new Set([own, ...embeddedIn(octets).flatMap((inner) => reachedAddresses(addressText(inner)))])];
}
