// Sets of IP addresses given as networks (D66): block lists, allow lists, trusted proxies.

import { BlockList, isIP } from 'node:net';

/** Says whether an address is in the set; what is no address is in none. */
export type AddressSet = (address: string) => boolean;

/** An IPv4 address that came mapped into IPv6 (RFC 4291 §2.5.5.2) as IPv4; lower case. */
export function plainAddress(address: string): string {
  const lower = address.toLowerCase();
  return lower.startsWith('::ffff:') ? lower.replace(/^::ffff:(?=[0-9.]{7,15}$)/, '') : lower;
}

/** Makes a set of networks (CIDR) and single addresses, as the configuration has checked them. */
export function addressSet(networks: readonly string[]): AddressSet {
  if (networks.length === 0) return () => false;
  const list = new BlockList();
  for (const network of networks) {
    const [given = '', prefix] = network.split('/');
    const address = plainAddress(given);
    const family = isIP(address) === 6 ? 'ipv6' : 'ipv4';
    // A network of mapped addresses counts its prefix from the IPv6 side.
    const bits = prefix === undefined ? undefined : Number(prefix) - (address === given.toLowerCase() ? 0 : 96);
    if (bits === undefined) list.addAddress(address, family);
    else list.addSubnet(address, Math.max(0, bits), family);
  }
  return (given) => {
    const address = plainAddress(given);
    const family = isIP(address);
    return family !== 0 && list.check(address, family === 6 ? 'ipv6' : 'ipv4');
  };
}
