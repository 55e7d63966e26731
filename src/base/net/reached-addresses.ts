// Which machine a connection to an address ends at, whatever the address is spelt like (D84, D86). RFC 4291 §2.5 has the
// unspecified and the mapped addresses, RFC 3056 6to4, RFC 6052 and RFC 8215 NAT64, RFC 2765 the translated ones.

import { addressOctets, addressText } from './address-octets.ts';

/** An IPv4 address inside an IPv6 one: the octets that all such addresses begin with, and where the four of IPv4 stand. */
interface Embedding {
  readonly prefix: readonly number[];
  readonly at: readonly [number, number, number, number];
}

const last = [12, 13, 14, 15] as const;
const zeros = (count: number): readonly number[] => Array.from({ length: count }, () => 0);

const embeddings: readonly Embedding[] = [
  { prefix: [0x20, 0x02], at: [2, 3, 4, 5] },
  { prefix: [0x00, 0x64, 0xff, 0x9b, ...zeros(8)], at: last },
  // Of the prefix for local use both ways of writing are read: as a /48 of its own (RFC 6052 §2.2), and as a /96 in it.
  { prefix: [0x00, 0x64, 0xff, 0x9b, 0x00, 0x01], at: [6, 7, 9, 10] },
  { prefix: [0x00, 0x64, 0xff, 0x9b, 0x00, 0x01], at: last },
  { prefix: [...zeros(8), 0xff, 0xff, 0, 0], at: last },
  { prefix: zeros(12), at: last },
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
