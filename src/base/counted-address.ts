import { isIPv6 } from 'node:net';

/** Tells as which address limits count a client: an IPv4 address, or the /64 of an IPv6 address, since one client has all of it. */
export function countedAddress(given: string): string {
  // Asked several times for each message, mostly of IPv4.
  if (!given.includes(':')) return given;
  // A listener on :: sees IPv4 clients as ::ffff:192.0.2.1. Each is counted by itself, not all of them as one /64.
  const address = given.replace(/^::ffff:(?=[0-9.]+$)/i, '');
  if (!isIPv6(address)) return address;
  const [head = '', tail] = address.split('::');
  const groups = head === '' ? [] : head.split(':');
  const filled = tail === undefined ? groups : [...groups, ...Array<string>(Math.max(0, 8 - groups.length)).fill('0')];
  return filled.slice(0, 4).join(':');
}
