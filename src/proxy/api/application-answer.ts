// Writes a proxy application, what it has carried, and a zone's protocols as answers show them (D80, D81, D86).

import type {
  ApplicationStatus,
  ConnectionEvent,
  PortRange,
  StoredApplication,
  TransportProtocol,
} from '../application/application.ts';
import { formatPorts, joinRanges } from '../application/port-ranges.ts';
import type { ProxyAccount, ProxyZone } from '../application/zone.ts';
import type { DataPlane } from '../plane/data-plane.ts';
import { noTraffic } from '../plane/running-applications.ts';
import { availablePorts } from '../rules/facts.ts';

function isoTime(ms: number): string {
  return new Date(ms).toISOString();
}

/** Shows an application: its fields as they were given; of a pay-as-you-go account only the three it may have (D81). */
export function showApplication(
  { id, fields, createdAt, modifiedAt }: StoredApplication,
  { plan }: ProxyAccount,
  status: ApplicationStatus,
): Readonly<Record<string, unknown>> {
  const { protocol, dns, origin_direct: originDirect } = fields;
  const shown = plan === 'payg' ? { protocol, dns, origin_direct: originDirect } : fields;
  return { id, ...shown, created_on: isoTime(createdAt), modified_on: isoTime(modifiedAt), status: showStatus(status) };
}

function showStatus({ state, reason, certificateExpiresAt: at }: ApplicationStatus): Readonly<Record<string, unknown>> {
  return { state, reason, ...(at === undefined ? {} : { certificate_expires_on: isoTime(at) }) };
}

function showEvent(event: ConnectionEvent): Readonly<Record<string, unknown>> {
  const { at, kind, connection, client, port, origin, reason } = event;
  return {
    at: isoTime(at),
    kind,
    connection,
    client,
    port,
    origin,
    reason,
    bytes_from_client: event.bytesFromClient,
    bytes_from_origin: event.bytesFromOrigin,
    duration_ms: event.durationMs,
  };
}

/** Shows what an application has carried; nothing yet where the data plane has not seen it. */
export function showTraffic(traffic: ReturnType<DataPlane['traffic']>): Readonly<Record<string, unknown>> {
  const { open, connections, refused, failed, ...bytes } = traffic?.counters ?? noTraffic();
  return {
    counters: {
      open,
      connections,
      refused,
      failed,
      bytes_from_clients: bytes.bytesFromClients,
      bytes_from_origins: bytes.bytesFromOrigins,
    },
    listening: traffic?.listening ?? [],
    origins: (traffic?.origins ?? []).map(({ origin: { address, port, name }, healthy, failures }) => ({
      address,
      port,
      name,
      healthy,
      failures,
    })),
    events: (traffic?.events ?? []).map(showEvent),
  };
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

/** Lists ranges as wide as they go, without unavailable ports; FTP where the account may. @param ownPorts of TCP that the gateway has */
export function zoneProtocols(zone: ProxyZone, account: ProxyAccount, ownPorts: readonly number[]) {
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
