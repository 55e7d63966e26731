// The protocols that applications of a zone may have, for `GET .../proxy/protocols` (D80, D86).

import type { PortRange, TransportProtocol } from '../application/application.ts';
import { formatPorts, joinRanges } from '../application/port-ranges.ts';
import type { ProxyAccount, ProxyZone } from '../application/zone.ts';
import { availablePorts } from './facts.ts';

/** One entry of the listing. */
export interface ZoneProtocol {
  /** `tcp/22`, `udp/1-1899`, `ftp`. */
  readonly name: string;
  readonly transport: TransportProtocol;
  /** A port or a range. */
  readonly ports: string;
  readonly description: string;
}

/** What usually speaks on a port (the service names of RFC 6335). */
const services: Readonly<Record<string, string>> = {
  'tcp/22': 'SSH',
  'tcp/25': 'SMTP',
  'tcp/53': 'DNS over TCP',
  'tcp/80': 'HTTP',
  'tcp/143': 'IMAP',
  'tcp/443': 'HTTPS',
  'tcp/465': 'mail submission over TLS',
  'tcp/587': 'mail submission',
  'tcp/993': 'IMAP over TLS',
  'tcp/3306': 'MySQL',
  'tcp/3389': 'remote desktop',
  'tcp/5432': 'PostgreSQL',
  'udp/53': 'DNS',
  'udp/123': 'NTP',
  'udp/443': 'QUIC',
};

function describe(transport: TransportProtocol, ports: PortRange): string {
  const upper = transport.toUpperCase();
  if (ports.first !== ports.last) return `Any ${upper} port or range of ports from ${ports.first} to ${ports.last}`;
  const service = services[`${transport}/${ports.first}`];
  return service === undefined ? `${upper} port ${ports.first}` : `${upper} port ${ports.first}, usually ${service}`;
}

/**
 * Lists them: ranges as wide as they go, without the ports that are unavailable; FTP where the account may.
 * @param ownPorts edge ports of TCP that the gateway itself has
 */
export function zoneProtocols(
  zone: ProxyZone,
  account: ProxyAccount,
  ownPorts: readonly number[],
): readonly ZoneProtocol[] {
  const ranges = (['tcp', 'udp'] as const).flatMap((transport) =>
    joinRanges(availablePorts(zone, transport, ownPorts)).map((ports) => ({ transport, ports })),
  );
  const hasFtp =
    account.entitlements.includes('ftp') &&
    ranges.some(({ transport, ports }) => transport === 'tcp' && ports.first <= 21 && ports.last >= 21);
  return [
    ...ranges.map(({ transport, ports }) => ({
      name: `${transport}/${formatPorts(ports)}`,
      transport,
      ports: formatPorts(ports),
      description: describe(transport, ports),
    })),
    ...(hasFtp
      ? [{ name: 'ftp', transport: 'tcp', ports: '21', description: 'FTP, the control connection only' } as const]
      : []),
  ];
}
