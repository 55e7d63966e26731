// A proxy application as the API shows it and the store keeps it (D80, D81), and what the data plane runs of it (D84).

import { type Static, Type } from 'typebox';

const { Optional } = Type;

/** How octets travel. */
export type TransportProtocol = 'tcp' | 'udp';

/** Ports from `first` to `last`, both included; one port where they are equal. 1-65535. */
export interface PortRange {
  readonly first: number;
  readonly last: number;
}

/** Body of POST and PUT. */
export const newApplication = Type.Object(
  {
    protocol: Type.String({
      description: '`tcp/PORT`, `udp/PORT`, a range such as `tcp/1000-2000`, or `ftp`',
      example: 'tcp/22',
    }),
    dns: Type.Object({
      type: Type.Enum(['CNAME', 'ADDRESS'], { description: 'CNAME with dynamic edge IPs, ADDRESS with static ones' }),
      name: Type.String({ description: 'A name in the zone', example: 'ssh.example.com' }),
    }),
    origin_direct: Optional(
      Type.Array(Type.String(), {
        description: '`tcp://IP:PORT` or `udp://IP:PORT`, IPv6 in brackets; this or `origin_dns`',
        example: ['tcp://192.0.2.1:22'],
      }),
    ),
    origin_dns: Optional(
      Type.Object({
        name: Type.String({ example: 'origin.example.com' }),
        type: Optional(Type.Enum(['', 'A', 'AAAA', 'SRV'])),
        ttl: Optional(Type.Integer({ minimum: 600, maximum: 86_400, description: 'Seconds; 1200 where absent' })),
      }),
    ),
    origin_port: Optional(
      Type.Union([Type.Integer({ minimum: 1, maximum: 65_535 }), Type.String()], {
        description: 'A port, or a range as long as the protocol’s; required unless `origin_dns.type` is SRV',
      }),
    ),
    edge_ips: Optional(
      Type.Union(
        [
          Type.Array(Type.String()),
          Type.Object({ type: Type.Literal('static'), ips: Type.Array(Type.String()) }),
          Type.Object({
            type: Type.Literal('dynamic'),
            connectivity: Optional(Type.Enum(['all', 'ipv4', 'ipv6'])),
          }),
        ],
        { description: 'IP addresses of the account’s prefixes; absent, empty or `dynamic`: the platform chooses' },
      ),
    ),
    smart_routing: Optional(Type.Boolean()),
    virtual_network_id: Optional(
      Type.String({ format: 'uuid', description: 'With one single origin in `origin_direct`' }),
    ),
    ip_firewall: Optional(Type.Boolean({ description: 'The zone’s block and allow lists apply' })),
    proxy_protocol: Optional(Type.Enum(['off', 'v1', 'v2', 'simple'])),
    tls: Optional(Type.Enum(['off', 'flexible', 'full', 'strict'])),
    traffic_type: Optional(Type.Enum(['direct', 'http', 'https', 'ftp'])),
  },
  {
    title: 'NewProxyApplication',
    description:
      'Accounts on pay-as-you-go send `protocol`, `dns` and `origin_direct` alone; elsewhere fields that are not listed here are ignored.',
  },
);

type Unchanging<T> = T extends object ? { readonly [Name in keyof T]: Unchanging<T[Name]> } : T;

/** An application's own fields, spelt as in JSON; well formed, defaults not filled in (D81). */
export type ApplicationFields = Unchanging<Static<typeof newApplication>>;

/** An application in the store. */
export interface StoredApplication {
  /** 32 hex. */
  readonly id: string;
  /** Id of its zone. */
  readonly zone: string;
  /** Id of the zone's account. */
  readonly account: string;
  readonly fields: ApplicationFields;
  /** What it listens on: an IPv4 of the pool, its static edge IPs, or `::` (`ipv6`, and with `all` beside the IPv4). */
  readonly addresses: readonly string[];
  /** Milliseconds since 1970. */
  readonly createdAt: number;
  readonly modifiedAt: number;
}

/** One address and port that a connection may go to, for the first edge port; the others follow in step. */
export interface DirectOrigin {
  /** IPv4, or IPv6 without brackets. */
  readonly address: string;
  readonly ports: PortRange;
}

/** What the data plane runs: an application with every default filled in and every text read. */
export interface ForwardingPlan extends Pick<StoredApplication, 'id' | 'zone' | 'account' | 'addresses'> {
  /** `dns.name`, A-label, lower case: names the certificate (certs/tls/<name>) and the SNI expected. */
  readonly name: string;
  readonly transport: TransportProtocol;
  /** Edge ports before `proxy.portOffset`. */
  readonly ports: PortRange;
  readonly origin:
    | { readonly kind: 'direct'; readonly origins: readonly DirectOrigin[] }
    | {
        readonly kind: 'dns';
        /** A-label, lower case. */
        readonly name: string;
        /** `''`: A and AAAA. */
        readonly type: '' | 'A' | 'AAAA' | 'SRV';
        readonly ttlSeconds: number;
        /** Absent for SRV: the record names the port. */
        readonly ports?: PortRange;
      };
  readonly proxyProtocol: 'off' | 'v1' | 'v2' | 'simple';
  readonly tls: 'off' | 'flexible' | 'full' | 'strict';
  /** The zone's block and allow lists apply; both empty where `ip_firewall` is off. */
  readonly firewall: { readonly block: readonly string[]; readonly allow: readonly string[] };
  /** The virtual network's, to connect from. */
  readonly sourceAddress?: string;
  /** Why it may not be served as it is configured now; its status says so, and it has no listener. */
  readonly obstacle?: string;
  /** The addresses to bind that another machine serves; absent where this one serves all (`proxy.servedAddresses`). */
  readonly elsewhere?: readonly string[];
}

/** Whether an application carries traffic; the read-only `status` (D81, D84). */
export interface ApplicationStatus {
  readonly state: 'active' | 'pending' | 'failed';
  /** Why, for a person; empty where active. */
  readonly reason: string;
  /** When the certificate that clients are shown ends, milliseconds since 1970; absent without one. */
  readonly certificateExpiresAt?: number;
}

/** What an application has carried since the process began. */
export interface Traffic {
  /** Open now: TCP connections or UDP sessions. */
  readonly open: number;
  /** Opened in all. */
  readonly connections: number;
  /** Refused by the firewall lists or a limit. */
  readonly refused: number;
  /** Ended because no origin could be reached or agreed on TLS. */
  readonly failed: number;
  readonly bytesFromClients: number;
  readonly bytesFromOrigins: number;
  /** UDP: datagrams of open sessions that went nowhere, either way. */
  readonly datagramsDropped: number;
}

/** One thing that happened to a connection or session. */
export interface ConnectionEvent {
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly kind: 'connect' | 'disconnect' | 'refused' | 'error';
  /** Names the connection in log and events. 16 hex. */
  readonly connection: string;
  /** `address:port`, IPv6 in brackets. */
  readonly client: string;
  /** The edge port before the offset. */
  readonly port: number;
  /** `address:port` of the origin, where one was chosen. */
  readonly origin?: string;
  /** Why refused or failed; how it ended. */
  readonly reason?: string;
  readonly bytesFromClient?: number;
  readonly bytesFromOrigin?: number;
  /** Milliseconds from its beginning to its end. */
  readonly durationMs?: number;
}
