// A proxy application as the API shows it and the store keeps it (D80, D81), and what the data plane runs of it (D84).

/** How octets travel. */
export type TransportProtocol = 'tcp' | 'udp';

/** Ports from `first` to `last`, both included; one port where they are equal. 1-65535. */
export interface PortRange {
  readonly first: number;
  readonly last: number;
}

/** The edge IPs of an application, in the form they were given in (D81). Absent: dynamic. */
export type EdgeIps =
  | readonly string[]
  | { readonly type: 'static'; readonly ips: readonly string[] }
  | { readonly type: 'dynamic'; readonly connectivity?: 'all' | 'ipv4' | 'ipv6' };

/** An application's own fields, spelt as in JSON; well formed, defaults not filled in (D81). */
export interface ApplicationFields {
  /** `tcp/22`, `udp/53`, `tcp/1000-2000`, or `ftp`. */
  readonly protocol: string;
  readonly dns: { readonly type: 'CNAME' | 'ADDRESS'; readonly name: string };
  readonly origin_direct?: readonly string[];
  readonly origin_dns?: {
    readonly name: string;
    readonly type?: '' | 'A' | 'AAAA' | 'SRV';
    /** Seconds, 600-86400; absent 1200. */
    readonly ttl?: number;
  };
  readonly origin_port?: number | string;
  readonly edge_ips?: EdgeIps;
  readonly smart_routing?: boolean;
  readonly virtual_network_id?: string;
  readonly ip_firewall?: boolean;
  readonly proxy_protocol?: 'off' | 'v1' | 'v2' | 'simple';
  readonly tls?: 'off' | 'flexible' | 'full' | 'strict';
  readonly traffic_type?: 'direct' | 'http' | 'https' | 'ftp';
}

/** An application in the store. */
export interface StoredApplication {
  /** 32 hex. */
  readonly id: string;
  /** Id of its zone. */
  readonly zone: string;
  /** Id of the zone's account. */
  readonly account: string;
  readonly fields: ApplicationFields;
  /**
   * What it listens on: the hostname's IPv4 of the pool, its static edge IPs, or `::` (`connectivity: ipv6`, and with
   * `all` beside the IPv4).
   */
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
export interface ForwardingPlan {
  /** Id of the application. */
  readonly id: string;
  readonly zone: string;
  readonly account: string;
  /** `dns.name`, A-label, lower case: names the certificate (certs/tls/<name>) and the SNI expected. */
  readonly name: string;
  readonly transport: TransportProtocol;
  /** Edge ports before `proxy.portOffset`. */
  readonly ports: PortRange;
  /** Addresses to bind. */
  readonly addresses: readonly string[];
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
