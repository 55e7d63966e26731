// IP addresses as octets in network order, as headers and address lists need them (RFC 4291 §2.2, §2.5.5.2).

import ipaddr from 'ipaddr.js';

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
