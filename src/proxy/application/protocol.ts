// The `protocol` of an application: `tcp/22`, `udp/53`, `tcp/1000-2000`, or the FTP type (D81).

import type { PortRange, TransportProtocol } from './application.ts';
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

/**
 * Reads a protocol. Lower case only; ports are 1-65535, ascending, without leading zeros. `ftp` and `ftp/21` are one.
 * @returns undefined for anything else
 */
export function parseProtocol(text: string): Protocol | undefined {
  if (text === 'ftp' || text === 'ftp/21') return ftp;
  const transport = text.slice(0, 4) === 'tcp/' ? 'tcp' : text.slice(0, 4) === 'udp/' ? 'udp' : undefined;
  const ports = transport && parsePorts(text.slice(4));
  return ports && { canonical: `${transport}/${formatPorts(ports)}`, transport, ports, isFtp: false };
}
