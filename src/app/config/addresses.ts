// Reads and writes addresses as the configuration has them: `host:port`, networks, ports and ranges of ports.

import { isIP } from 'node:net';
import { asciiDomain } from '../../mail/address/domain.ts';

/** A host and a port. */
export interface HostPort {
  readonly host: string;
  readonly port: number;
}

const decimal = /^\d{1,5}$/;

/** Reads a port, 0 to 65535; undefined for anything else. */
export function parsePort(text: string): number | undefined {
  return decimal.test(text) && Number(text) <= 65_535 ? Number(text) : undefined;
}

/** Splits `host:port` or `[IPv6]:port` at the port; the host has no brackets. Undefined where there is no port. */
function splitHostPort(text: string): HostPort | undefined {
  const colon = text.lastIndexOf(':');
  const port = colon < 0 ? undefined : parsePort(text.slice(colon + 1));
  if (port === undefined) return undefined;
  const host = text.slice(0, colon);
  if (host.startsWith('[') && host.endsWith(']')) {
    return isIP(host.slice(1, -1)) === 6 ? { host: host.slice(1, -1), port } : undefined;
  }
  return host === '' || host.includes(':') ? undefined : { host, port };
}

/** Reads an IP address and a port to listen on (`127.0.0.1:2587`, `[::1]:2587`); port 0 is a free one. */
export function parseListen(text: string): HostPort | undefined {
  const parts = splitHostPort(text);
  return parts && isIP(parts.host) !== 0 ? parts : undefined;
}

/** A domain as it is compared: an A-label in lower case; a text that is no domain stays as it is. */
export function domainOf(text: string): string {
  return asciiDomain(text) ?? text;
}

/** Reads `192.0.2.0/24`, `fe80::/10`, or a single address. @returns in CIDR form; undefined for anything else */
export function parseNetwork(text: string): string | undefined {
  const slash = text.indexOf('/');
  const family = isIP(slash < 0 ? text : text.slice(0, slash));
  if (family === 0 || text.includes('%')) return undefined;
  const widest = family === 6 ? 128 : 32;
  if (slash < 0) return `${text}/${widest}`;
  const prefix = text.slice(slash + 1);
  return /^\d{1,3}$/.test(prefix) && Number(prefix) <= widest ? text : undefined;
}

/** Whether a text is a range of ports `a-b`, 1 to 65535, ascending. */
export function isPortRange(text: string): boolean {
  const [first, last, ...more] = text.split('-');
  const low = parsePort(first ?? '');
  const high = parsePort(last ?? first ?? '');
  return more.length === 0 && low !== undefined && high !== undefined && low >= 1 && low <= high;
}

/** The address by which a listener is reached from its own machine. */
export function reachable({ host, port }: HostPort): HostPort {
  return { host: host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host, port };
}
