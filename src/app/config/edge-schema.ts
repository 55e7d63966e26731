// The HTTP, edge and proxy parts of the schema (D60-D88, D99).

import { Type } from '../../base/schema/schema-type.ts';
import { maxAddresses } from '../../proxy/rules/read-addresses.ts';
import { customErrors } from './account-schema.ts';
import * as value from './value-types.ts';

const { Optional, Record, Union } = Type;

const count = value.integer(1, 1_000_000);

/** `http`. */
export const http = value.partial({
  listen: value.listen,
  tlsListen: value.listenOrOff,
  adminListen: value.listenOrOff,
  apiHosts: value.list(value.hostOrAddress),
  docsBaseUrl: value.url('http', 'https'),
  metricsTokenEnv: value.variableName,
  metricsTokenFile: value.filePath,
  limits: value.partial({ connections: count, connectionsPerAddress: count }),
});

/** `console`. */
export const consolePages = value.partial({ enabled: value.boolean, publicUrl: value.url('http', 'https') });

/** `edge`. */
export const edge = value.partial({
  maxHeaderBytes: value.integer(1024, 262_144, 'octets'),
  connectTimeoutSeconds: value.seconds,
  responseTimeoutSeconds: value.seconds,
  afterCloseSeconds: value.seconds,
  originDownSeconds: value.integer(0, 60, 'seconds'),
  trustedProxies: value.list(value.network),
  limits: value.partial({ requests: count, requestsPerZone: count, requestsPerAddress: count }),
});

const applicationLimits = {
  connections: count,
  sessions: count,
  perClient: count,
  tcpIdleSeconds: value.seconds,
  udpIdleSeconds: value.seconds,
};

/** `proxy`. */
export const proxy = value.partial({
  ipv4Pool: value.network,
  portOffset: value.integer(0, 65_535),
  originDeny: value.list(value.network),
  originAllow: value.list(value.networkOrPlace),
  servedAddresses: value.list(value.network),
  limits: value.partial({
    ...applicationLimits,
    accountConnections: count,
    accountSessions: count,
    accountListeners: value.integer(1, 65_536),
    applications: Record(Type.String({ pattern: '^[0-9A-Fa-f]{32}$' }), value.partial(applicationLimits), {
      additionalProperties: false,
      want: 'a mapping of ids of applications to their limits',
      keyWant: 'the id of an application, 32 hexadecimal digits',
    }),
  }),
});

// Only the shape is checked here. The rules of D82 are checked by the code that judges the API's applications.
const application = value.object({
  id: value.hexId,
  protocol: value.words,
  dns: value.object({ type: value.words, name: value.words }),
  origin_direct: Optional(value.list(value.words)),
  origin_dns: Optional(
    value.object({
      name: value.words,
      type: Optional(value.content),
      ttl: Optional(Type.Integer({ want: 'a whole number' })),
    }),
  ),
  origin_port: Optional(value.portRange),
  edge_ips: Optional(
    Union(
      [
        value.list(value.ipAddress),
        value.object({
          type: value.choice('static', 'dynamic'),
          ips: Optional(value.list(value.ipAddress)),
          connectivity: Optional(value.choice('all', 'ipv4', 'ipv6')),
        }),
      ],
      { want: 'a list of IP addresses, or a mapping with type: static or dynamic' },
    ),
  ),
  smart_routing: Optional(value.boolean),
  virtual_network_id: Optional(value.words),
  ip_firewall: Optional(value.boolean),
  proxy_protocol: Optional(value.choice('off', 'v1', 'v2', 'simple')),
  tls: Optional(value.choice('off', 'flexible', 'full', 'strict')),
  traffic_type: Optional(value.choice('direct', 'http', 'https', 'ftp')),
});

/** As many as an application may have of origins (D81): each may be tried for a connection. */
const record = { maxItems: maxAddresses } as const;
/** Gone through for each application that is written. */
const portLists = { maxItems: 100 } as const;

const recordName = '^[A-Za-z0-9_@*](?:[A-Za-z0-9_.*-]{0,251}[A-Za-z0-9])?$';
const records = Record(
  Type.String({ pattern: recordName }),
  value.partial({
    A: value.list(value.ipAddress, record),
    AAAA: value.list(value.ipAddress, record),
    CNAME: value.list(value.domain, record),
    MX: value.list(value.words),
    SRV: value.list(value.words, record),
    TXT: value.list(value.words),
  }),
  { additionalProperties: false, want: 'a mapping of names in the zone to their records' },
);

const originUrl = value.url('http', 'https');

/** One entry of `zones`. */
export const zone = value.object({
  name: value.domain,
  id: value.hexId,
  account: value.accountReference,
  // Gone through for each request that is passed on.
  hostnames: Optional(value.list(value.domain, { maxItems: 1000 })),
  ipv4Quota: Optional(value.integer(0, 65_536)),
  protocols: Optional(
    value.partial({
      tcp: value.list(value.portRange, portLists),
      udp: value.list(value.portRange, portLists),
      unavailable: value.list(value.portOfTransport, portLists),
    }),
  ),
  records: Optional(records),
  permittedOriginZones: Optional(value.list(value.domainOrAny, { maxItems: 1000 })),
  applications: Optional(value.list(application)),
  loadBalancers: Optional(value.list(value.domain)),
  drill: Optional(value.choice('dns-down', 'ipam-down', 'internal')),
  customErrors: Optional(customErrors),
  origin: Optional(
    Union([originUrl, value.object({ url: originUrl, tls: Optional(value.choice('strict', 'full')) })], {
      want: 'a URL of http:// or https://, or a mapping with url and tls',
    }),
  ),
  block: Optional(value.list(value.network)),
  allow: Optional(value.list(value.network)),
  rateLimit: Optional(
    value.object({
      requests: value.integer(1, 1_000_000_000),
      perSeconds: value.seconds,
      retryAfterSeconds: Optional(value.integer(0, 86_400, 'seconds')),
    }),
  ),
});
