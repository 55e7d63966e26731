// IP addresses as the rules compare them: one spelling each (RFC 5952), IPv4-mapped IPv6 taken for the IPv4 that it is.

import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { addressTest } from '../../base/net/address-test.ts';
import type { OwnDoor } from '../../base/net/own-doors.ts';
import { normalAddress } from '../../base/net/socket-address.ts';
import { oncePer } from '../../base/once-per.ts';
import type { PortRange } from './application.ts';

/** The one spelling of an address. @param text IPv4, or IPv6 without brackets and zone @returns undefined for anything else */
export function canonicalAddress(text: string): string | undefined {
  return isIP(text) === 0 || text.includes('%') ? undefined : normalAddress(text);
}

// Lists of the configuration are the same arrays for every request: each is read once.
const testOf = oncePer(addressTest);

/** Whether an address is in one of some networks; false for what is none. @throws ConfigurationError for a network that is none */
export function isInNetworks(text: string, networks: readonly string[]): boolean {
  return canonicalAddress(text) !== undefined && testOf(networks)(text);
}

/** What an application with `connectivity: ipv6` or `all` listens on: every IPv6 address. */
export const wildcardIp = '::';

/** An IP address in the one spelling it has in the store (RFC 5952; IPv4-mapped as IPv4); other text in lower case. */
export function canonicalIp(text: string): string {
  return canonicalAddress(text) ?? text.toLowerCase();
}

/** The number of an IPv4 address; undefined for any other text. */
export function ipv4Number(text: string): number | undefined {
  if (!ipaddr.IPv4.isValidFourPartDecimal(text)) return undefined;
  return ipaddr.IPv4.parse(text)
    .toByteArray()
    .reduce((value, octet) => value * 256 + octet, 0);
}

/** Writes the number of an IPv4 address. */
export function ipv4Text(number: number): string {
  return [24, 16, 8, 0].map((shift) => (number >>> shift) & 0xff).join('.');
}

/** The addresses of a pool that hosts may have. */
interface Ipv4Range {
  readonly first: number;
  readonly last: number;
}

/**
 * Reads a pool. The network's own address and the broadcast address are nobody's, but in networks of one or two
 * addresses (RFC 3021).
 * @param cidr `127.64.0.0/16`, or a single address
 * @returns undefined where it is no IPv4 network
 */
export function ipv4Range(cidr: string): Ipv4Range | undefined {
  const [text = '', prefixText = '32'] = cidr.split('/');
  const number = ipv4Number(text);
  const prefix = Number(prefixText);
  if (number === undefined || !/^\d{1,2}$/.test(prefixText) || prefix > 32) return undefined;
  const size = 2 ** (32 - prefix);
  const first = number - (number % size);
  const last = first + size - 1;
  return prefix >= 31 ? { first, last } : { first: first + 1, last: last - 1 };
}

/** A hostname as the store compares it: lower case, without the root's dot. */
export function comparableHostname(name: string): string {
  const lower = name.toLowerCase();
  return lower.endsWith('.') ? lower.slice(0, -1) : lower;
}

const placePattern = /^(?:\[([0-9a-f:.]+)\]|([0-9.]+)):(\d{1,5})$/i;

/** Reads `127.0.0.1:2587` or `[::1]:2587`; undefined for anything else. */
function doorOf(text: string): OwnDoor | undefined {
  const [, ipv6, ipv4, port = ''] = placePattern.exec(text) ?? [];
  const host = normalAddress(ipv6 ?? ipv4 ?? '');
  return host === undefined ? undefined : { host, port: Number(port) };
}

/**
 * Reads `proxy.originAllow`.
 * @param entries `127.0.0.1:2587`, `[::1]:2587`, or networks and addresses, which stand for all of their ports
 * @throws ConfigurationError for an entry that is none of them
 */
export function readOriginAllow(entries: readonly string[]) {
  const places = entries.flatMap((entry) => doorOf(entry) ?? []);
  const isInNetwork = addressTest(entries.filter((entry) => doorOf(entry) === undefined));
  const portsOf = (address: string): readonly PortRange[] => {
    if (isInNetwork(address)) return [{ first: 1, last: 65_535 }];
    const wanted = normalAddress(address);
    return places.filter(({ host }) => host === wanted).map(({ port }) => ({ first: port, last: port }));
  };
  return {
    /** The ports of an address that an origin may have though Postern listens there. */
    portsOf,
    isAllowed: (address: string, port: number): boolean =>
      portsOf(address).some(({ first, last }) => first <= port && port <= last),
  };
}
