// The texts of an application: `protocol` (`tcp/22`), domain names, IP addresses in one spelling each (RFC 5952; IPv4-mapped IPv6 as the IPv4
// that it is), entries of `origin_direct` (D81, D82), and how messages quote them.

import { isIP, isIPv6 } from 'node:net';
import ipaddr from 'ipaddr.js';
import type { OwnDoor } from '../../base/net/own-doors.ts';
import { addressTest, normalAddress } from '../../base/net/socket-address.ts';
import { oncePer } from '../../base/once-per.ts';
import type { DirectOrigin, PortRange, TransportProtocol } from './application.ts';
import { formatPorts, parsePorts } from './port-ranges.ts';

const shownCharacters = 80;

/** A text in quotes, escaped as in JSON, at most 80 characters of it. */
export function quote(text: string): string {
  return JSON.stringify(text.length > shownCharacters ? `${text.slice(0, shownCharacters)}...` : text);
}

/** What a message says that it got: a text quoted, a number or truth value itself, anything else by its kind. */
export function got(value: unknown): string {
  if (typeof value === 'string') return quote(value);
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  if (value === undefined) return 'nothing';
  if (value === null) return 'null';
  if (!Array.isArray(value)) return 'an object';
  return value.length === 0 ? 'an empty array' : 'an array';
}

/** Joins reasons; after so many, only their number is told, so that no request makes a message of its own size. */
export function joinReasons(texts: readonly string[], most: number, separator = '; '): string {
  const more = texts.length - most;
  return more > 0 ? `${texts.slice(0, most).join(separator)}${separator}and ${more} more` : texts.join(separator);
}

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

/**
 * Reads a pool. The network's own address and the broadcast address are nobody's, but in networks of one or two
 * addresses (RFC 3021).
 * @param cidr `127.64.0.0/16`, or a single address
 * @returns undefined where it is no IPv4 network
 */
export function ipv4Range(cidr: string): { readonly first: number; readonly last: number } | undefined {
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

/** A protocol that was read. */
export interface Protocol {
  /** The one spelling of it, which a pay-as-you-go account may have once (11034). */
  readonly canonical: string;
  readonly transport: TransportProtocol;
  readonly ports: PortRange;
  /** The FTP type, which an account has to be entitled to (11014). */
  readonly isFtp: boolean;
}

const transports: readonly TransportProtocol[] = ['tcp', 'udp'];

// `tcp/21` carries the same octets, but is no FTP (D81): the two are different protocols, on the same port.
const ftp: Protocol = { canonical: 'ftp', transport: 'tcp', ports: { first: 21, last: 21 }, isFtp: true };

/** Reads a protocol in lower case with ascending ports 1-65535; `ftp` and `ftp/21` are one. @returns undefined for anything else */
export function parseProtocol(text: string): Protocol | undefined {
  if (text === 'ftp' || text === 'ftp/21') return ftp;
  const transport = transports.find((one) => text.startsWith(`${one}/`));
  const ports = transport && parsePorts(text.slice(4));
  return ports && { canonical: `${transport}/${formatPorts(ports)}`, transport, ports, isFtp: false };
}

// Domain names as applications have them: A-labels, compared in lower case (D82, RFC 1035 §2.3.4, RFC 5891 §4.2.1).

const label = /^_?[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/;
// A name that ends in a number is an IPv4 address to many programs: `127.1`, `2130706433` and `0x7f.1` are all loopback.
const number = /^(?:\d+|0x[0-9a-f]*)$/;

/**
 * Reads a domain name: labels of 1-63 letters, digits and hyphens, no hyphen at either end, one underscore before it
 * allowed; at most 253 characters; no IP address. A dot at the end is refused: the root's label is empty (D82).
 * Unicode is refused too: it has to come as A-labels (`xn--`).
 * @returns the name in lower case, undefined for anything else
 */
export function parseDomainName(text: string): string | undefined {
  if (text.length === 0 || text.length > 253) return undefined;
  // ASCII only: toLowerCase turns the Kelvin sign into k.
  const name = text.replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase());
  const labels = name.split('.');
  if (number.test(labels.at(-1) ?? '')) return undefined;
  return labels.every((part) => part.length <= 63 && label.test(part)) ? name : undefined;
}

/** An entry that was read. The address has its canonical spelling. */
export interface OriginText extends DirectOrigin {
  readonly transport: TransportProtocol;
  readonly ports: PortRange;
}

/** What keeps an entry from being read. */
export type OriginFlaw = 'scheme' | 'brackets' | 'bracketed-ipv4' | 'address' | 'port';

function readHost(host: string): { readonly address: string } | OriginFlaw {
  const isBracketed = host.startsWith('[') && host.endsWith(']');
  const inner = isBracketed ? host.slice(1, -1) : host;
  const address = canonicalAddress(inner);
  if (address === undefined) return 'address';
  if (isIPv6(inner) && !isBracketed) return 'brackets';
  return !isIPv6(inner) && isBracketed ? 'bracketed-ipv4' : { address };
}

/** Reads an entry: scheme in lower case, address, port. @returns the origin, or the first flaw */
export function parseOrigin(text: string): OriginText | OriginFlaw {
  const transport = transports.find((one) => text.startsWith(`${one}://`));
  if (!transport) return 'scheme';
  const rest = text.slice(6);
  // Without a port, `tcp://2001:db8::1` is an address as a whole; its last group is no port.
  if (isIPv6(rest)) return 'brackets';
  const colon = rest.lastIndexOf(':');
  const isPortAbsent = colon < 0 || rest.endsWith(']');
  const host = readHost(isPortAbsent ? rest : rest.slice(0, colon));
  if (typeof host === 'string') return host;
  const ports = isPortAbsent ? undefined : parsePorts(rest.slice(colon + 1));
  return ports ? { transport, address: host.address, ports } : 'port';
}
