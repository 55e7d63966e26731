// One entry of `origin_direct`: `tcp://192.0.2.1:22`, `udp://[2001:db8::1]:53`, a range of ports at the end (D81, 11002).

import { isIPv6 } from 'node:net';
import type { DirectOrigin, PortRange, TransportProtocol } from './application.ts';
import { canonicalAddress } from './ip-address.ts';
import { parsePorts } from './port-ranges.ts';

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

/**
 * Reads an entry. The scheme is lower case; the port is required; nothing stands behind it.
 * @returns the origin, or the first flaw: scheme, then the address and its brackets, then the port
 */
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
