// Writes a proxy application, and what it has carried, as answers show them (D80, D81).

import type { ApplicationStatus, ConnectionEvent, StoredApplication } from '../application/application.ts';
import type { ProxyAccount } from '../application/zone.ts';
import type { DataPlane } from '../plane/data-plane.ts';
import { noTraffic } from '../plane/running-applications.ts';

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
