// What a client's address is counted as where a limit is one client's.

import { isIPv6 } from 'node:net';

/** An IPv4 address as it is, an IPv6 address as its /64, its first four groups: who has one has all of them. */
export function countedAddress(given: string): string {
  // A listener on :: sees IPv4 clients as ::ffff:192.0.2.1: each is its own, not all of them one network.
  const address = given.replace(/^::ffff:(?=[0-9.]+$)/i, '');
  if (!isIPv6(address)) return address;
  const [head = '', tail] = address.split('::');
  const groups = head === '' ? [] : head.split(':');
  const filled = tail === undefined ? groups : [...groups, ...Array<string>(Math.max(0, 8 - groups.length)).fill('0')];
  return filled.slice(0, 4).join(':');
}
