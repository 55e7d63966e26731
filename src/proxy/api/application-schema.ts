// What is asked of the proxy-application API and what it answers (D80, D81, D86). The rules own every fault of a body, not these schemas (D82).

import { Type } from 'typebox';
import {
  type ApplicationStatus,
  newApplication,
  type PortRange,
  type StoredApplication,
  type TransportProtocol,
} from '../application/application.ts';
import { formatPorts, joinRanges } from '../application/port-ranges.ts';
import type { ProxyAccount, ProxyZone } from '../application/zone.ts';
import type { DataPlane } from '../plane/data-plane.ts';
import { noTraffic } from '../plane/running-applications.ts';
import { availablePorts } from '../rules/facts.ts';

const { Optional } = Type;

const time = Type.String({ format: 'date-time', example: '2026-11-21T12:35:51.931Z' });

/** Body of PATCH. */
export const applicationPatch = Type.Partial(newApplication, {
  title: 'ProxyApplicationPatch',
  description:
    'A JSON merge patch (RFC 7396): arrays are replaced, null removes. One form of origin replaces the other one.',
  example: { origin_direct: ['tcp://192.0.2.2:22'], proxy_protocol: 'v1' },
});

/** What answers show. */
export const shownApplication = Type.Object(
  {
    id: Type.String({ pattern: '^[0-9a-f]{32}$' }),
    ...newApplication.properties,
    created_on: time,
    modified_on: time,
    status: Type.Object({
      state: Type.Enum(['active', 'pending', 'failed']),
      reason: Type.String({ description: 'Why, for a person; empty where active' }),
      certificate_expires_on: Optional(
        Type.String({
          format: 'date-time',
          description: 'With `tls`: the end of the certificate that clients are shown',
        }),
      ),
    }),
  },
  { title: 'ProxyApplication' },
);

const count = Type.Integer({ minimum: 0 });

/** What an application has carried, in numbers. */
export const shownCounters = {
  open: count,
  connections: count,
  refused: count,
  failed: count,
  bytes_from_clients: count,
  bytes_from_origins: count,
};

/** What an application has carried. */
export const shownTraffic = Type.Object(
  {
    counters: Type.Object(shownCounters, { description: 'Since the process began; `open` is now' }),
    listening: Type.Array(Type.String({ example: '127.64.0.1:20022' }), {
      description: 'Addresses and ports that clients connect to, `proxy.portOffset` added',
    }),
    origins: Type.Array(
      Type.Object({
        address: Type.String(),
        port: Type.Integer(),
        name: Optional(Type.String({ description: 'The name it was found under' })),
        healthy: Type.Boolean(),
        failures: count,
      }),
    ),
    events: Type.Array(
      Type.Object({
        at: time,
        kind: Type.Enum(['connect', 'disconnect', 'refused', 'error']),
        connection: Type.String({ pattern: '^[0-9a-f]{16}$' }),
        client: Type.String({ example: '192.0.2.7:50123' }),
        port: Type.Integer({ description: 'The edge port, as the application names it' }),
        origin: Optional(Type.String()),
        reason: Optional(Type.String()),
        bytes_from_client: Optional(count),
        bytes_from_origin: Optional(count),
        duration_ms: Optional(count),
      }),
      { description: 'The latest, the newest first' },
    ),
  },
  { title: 'ProxyTraffic' },
);

/** One entry of the protocols that a zone may use. */
export const shownProtocol = Type.Object(
  {
    name: Type.String({ example: 'tcp/22' }),
    transport: Type.Enum(['tcp', 'udp']),
    ports: Type.String({ description: 'A port or a range', example: '22' }),
    description: Type.String(),
  },
  { title: 'ProxyProtocol' },
);

/** The zone of the path. */
export const zonePath = Type.Object({
  zone_id: Type.String({ description: 'Id of the zone', example: '1'.repeat(32) }),
});

/** An application of the path. */
export const applicationPath = Type.Object({
  ...zonePath.properties,
  app_id: Type.String({ description: 'Id of the application', example: '0123456789abcdef'.repeat(2) }),
});

/** A page of a list. */
export const pageQuery = {
  page: Optional(
    Type.String({
      pattern: '^[1-9][0-9]{0,8}$',
      want: 'a whole number from 1 on',
      description: 'From 1, which it is where absent',
    }),
  ),
  per_page: Optional(
    Type.String({
      pattern: '^(?:[1-9][0-9]?|100)$',
      want: 'a whole number, 1 to 100',
      description: 'Entries of a page, 1 to 100; 20 where absent',
    }),
  ),
};

/** Parameters of the list of applications. */
export const listQuery = Type.Object(
  {
    ...pageQuery,
    order: Optional(
      Type.Enum(['protocol', 'dns', 'created_on', 'modified_on'], {
        want: 'one of protocol, dns, created_on, modified_on',
        description: '`dns` where absent',
      }),
    ),
    dns: Optional(Type.String({ maxLength: 255, description: 'Only applications of this `dns.name`' })),
    protocol: Optional(
      Type.String({
        maxLength: 16,
        description: 'Only applications of exactly this protocol: `tcp/22`, `tcp/1000-2000`, `ftp`',
      }),
    ),
    status: Optional(
      Type.Enum(['active', 'pending', 'failed'], {
        want: 'one of active, pending, failed',
        description: 'Only applications whose `status.state` this is now',
      }),
    ),
    direction: Optional(Type.Enum(['asc', 'desc'], { want: 'asc or desc', description: '`asc` where absent' })),
  },
  { additionalProperties: false },
);

/** The answer to a DELETE. */
export const removedApplication = Type.Object({ id: Type.String() });

/** Reads the query's parameters, which the schema has judged: the page, from 1, and how many entries one has. */
export function readPage(query: { readonly page?: string; readonly per_page?: string }) {
  return { page: Number(query.page ?? 1), perPage: Number(query.per_page ?? 20) };
}

/** `result_info` of a page with so many entries of so many in all. */
export function pageInfo({ page, perPage }: ReturnType<typeof readPage>, count: number, total: number) {
  return { page, per_page: perPage, count, total_count: total, total_pages: Math.ceil(total / perPage) };
}

function isoTime(ms: number): string {
  return new Date(ms).toISOString();
}

/** Members with their names in snake_case, as answers have them. */
function inSnakeCase(members: object): Readonly<Record<string, unknown>> {
  const entries = Object.entries(members).map(([name, value]) => [name.replace(/[A-Z]/g, '_$&').toLowerCase(), value]);
  return Object.fromEntries(entries);
}

/** Shows an application: its fields as they were given; of a pay-as-you-go account only the three it may have (D81). */
export function showApplication(
  { id, fields, createdAt, modifiedAt }: StoredApplication,
  { plan }: ProxyAccount,
  status: ApplicationStatus,
): Readonly<Record<string, unknown>> {
  const { protocol, dns, origin_direct: originDirect } = fields;
  const shown = plan === 'payg' ? { protocol, dns, origin_direct: originDirect } : fields;
  const { certificateExpiresAt: at, ...now } = status;
  const ending = at === undefined ? {} : { certificate_expires_on: isoTime(at) };
  const times = { created_on: isoTime(createdAt), modified_on: isoTime(modifiedAt) };
  return { id, ...shown, ...times, status: { ...now, ...ending } };
}

/** Shows what an application has carried; nothing yet where the data plane has not seen it. */
export function showTraffic(traffic: ReturnType<DataPlane['traffic']>): Readonly<Record<string, unknown>> {
  const { datagramsDropped: _, ...counters } = traffic?.counters ?? noTraffic();
  return {
    counters: inSnakeCase(counters),
    listening: traffic?.listening ?? [],
    origins: (traffic?.origins ?? []).map(({ origin, healthy, failures }) => ({ ...origin, healthy, failures })),
    events: (traffic?.events ?? []).map((event) => ({ ...inSnakeCase(event), at: isoTime(event.at) })),
  };
}

function describe(transport: TransportProtocol, ports: PortRange): string {
  const upper = transport.toUpperCase();
  if (ports.first !== ports.last) return `Any ${upper} port or range of ports from ${ports.first} to ${ports.last}`;
  return `${upper} port ${ports.first}`;
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
