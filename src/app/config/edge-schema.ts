// The HTTP, edge and proxy parts of the schema (D60-D88, D99).

import { Type } from '../../base/schema/schema-type.ts';
import { maxAddresses } from '../../proxy/rules/reading.ts';
import { customErrors } from './account-schema.ts';
import * as value from './value-types.ts';

const { Optional, Record, Union } = Type;

const count = value.integer(1, 1_000_000);

/** `http`. */
export const http = value.object({
  listen: Optional(value.listen),
  tlsListen: Optional(value.listenOrOff),
  adminListen: Optional(value.listenOrOff),
  apiHosts: Optional(value.list(value.hostOrAddress)),
  docsBaseUrl: Optional(value.url('http', 'https')),
  metricsTokenEnv: Optional(value.variableName),
  metricsTokenFile: Optional(value.filePath),
  limits: Optional(value.object({ connections: Optional(count), connectionsPerAddress: Optional(count) })),
});

/** `console`. */
export const consolePages = value.object({
  enabled: Optional(value.boolean),
  publicUrl: Optional(value.url('http', 'https')),
});

/** `edge`. */
export const edge = value.object({
  maxHeaderBytes: Optional(value.integer(1024, 262_144, 'octets')),
  connectTimeoutSeconds: Optional(value.seconds),
  responseTimeoutSeconds: Optional(value.seconds),
  afterCloseSeconds: Optional(value.seconds),
  originDownSeconds: Optional(value.integer(0, 60, 'seconds')),
  trustedProxies: Optional(value.list(value.network)),
  limits: Optional(
    value.object({
      requests: Optional(count),
      requestsPerZone: Optional(count),
      requestsPerAddress: Optional(count),
    }),
  ),
});

const openCount = value.integer(1, 1_000_000);

const applicationLimits = {
  connections: Optional(openCount),
  sessions: Optional(openCount),
  perClient: Optional(openCount),
  tcpIdleSeconds: Optional(value.seconds),
  udpIdleSeconds: Optional(value.seconds),
};

/** `proxy`. */
export const proxy = value.object({
  ipv4Pool: Optional(value.network),
  portOffset: Optional(value.integer(0, 65_535)),
  originDeny: Optional(value.list(value.network)),
  originAllow: Optional(value.list(value.networkOrPlace)),
  servedAddresses: Optional(value.list(value.network)),
  limits: Optional(
    value.object({
      ...applicationLimits,
      accountConnections: Optional(openCount),
      accountSessions: Optional(openCount),
      accountListeners: Optional(value.integer(1, 65_536)),
      applications: Optional(
        Record(Type.String({ pattern: '^[0-9A-Fa-f]{32}$' }), value.object(applicationLimits), {
          additionalProperties: false,
          want: 'a mapping of ids of applications to their limits',
          keyWant: 'the id of an application, 32 hexadecimal digits',
        }),
      ),
    }),
  ),
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
  value.object({
    A: Optional(value.list(value.ipAddress, record)),
    AAAA: Optional(value.list(value.ipAddress, record)),
    CNAME: Optional(value.list(value.domain, record)),
    MX: Optional(value.list(value.words)),
    SRV: Optional(value.list(value.words, record)),
    TXT: Optional(value.list(value.words)),
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
    value.object({
      tcp: Optional(value.list(value.portRange, portLists)),
      udp: Optional(value.list(value.portRange, portLists)),
      unavailable: Optional(value.list(value.portOfTransport, portLists)),
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
