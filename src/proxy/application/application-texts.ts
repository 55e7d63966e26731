// Reads the texts of an application: `protocol` (`tcp/22`, `tcp/1000-2000`), domain names, entries of `origin_direct` (D81, D82).

import { isIPv6 } from 'node:net';
import type { DirectOrigin, PortRange, TransportProtocol } from './application.ts';
import { canonicalAddress } from './ip-address.ts';
import { formatPorts, parsePorts } from './port-ranges.ts';

/** A protocol that was read. */
export interface Protocol {
  /** The one spelling of it, which a pay-as-you-go account may have once (11034). */
  readonly canonical: string;
  readonly transport: TransportProtocol;
  readonly ports: PortRange;
  /** The FTP type, which an account has to be entitled to (11014). */
  readonly isFtp: boolean;
}

// `tcp/21` carries the same octets, but is no FTP (D81): the two are different protocols, on the same port.
const ftp: Protocol = { canonical: 'ftp', transport: 'tcp', ports: { first: 21, last: 21 }, isFtp: true };

/** Reads a protocol in lower case with ascending ports 1-65535; `ftp` and `ftp/21` are one. @returns undefined for anything else */
export function parseProtocol(text: string): Protocol | undefined {
  if (text === 'ftp' || text === 'ftp/21') return ftp;
  const transport = text.slice(0, 4) === 'tcp/' ? 'tcp' : text.slice(0, 4) === 'udp/' ? 'udp' : undefined;
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

function transportOf(text: string): TransportProtocol | undefined {
  if (text.startsWith('tcp://')) return 'tcp';
  return text.startsWith('udp://') ? 'udp' : undefined;
}

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
  const transport = transportOf(text);
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
