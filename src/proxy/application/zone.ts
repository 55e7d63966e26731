// Zones and accounts with the members of the configuration that the proxy-application API reads (D83-D86, D99).

/** Limits of an application; absent ones are those of all applications, or the defaults. */
interface ApplicationLimits {
  /** Open TCP connections. */
  readonly connections?: number;
  /** Open UDP sessions. */
  readonly sessions?: number;
  /** Open connections or sessions of one client address. */
  readonly perClient?: number;
  /** Silence after which a TCP connection is closed. */
  readonly tcpIdleSeconds?: number;
  /** Silence after which a UDP session is over. */
  readonly udpIdleSeconds?: number;
}

/** `proxy.limits`. */
export interface ProxyLimits extends ApplicationLimits {
  /** Open TCP connections of one account. */
  readonly accountConnections?: number;
  /** Open UDP sessions of one account. */
  readonly accountSessions?: number;
  /** Listening sockets of one account. */
  readonly accountListeners?: number;
  /** By id of the application, over those of all. */
  readonly applications?: Readonly<Record<string, ApplicationLimits>>;
}

/** A virtual network of an account (11041-11045, D88). */
export interface VirtualNetwork {
  /** UUID. */
  readonly id: string;
  readonly name: string;
  /** CIDR. */
  readonly routes: readonly string[];
  /** What the data plane connects from (D84). */
  readonly sourceAddress?: string;
}

/** An account (D85, D86). */
export interface ProxyAccount {
  readonly id: string;
  readonly name: string;
  readonly plan: 'free' | 'payg' | 'enterprise';
  readonly entitlements: readonly ('ftp' | 'edge_ips' | 'smart_routing')[];
  /** CIDR. */
  readonly prefixes: readonly string[];
  readonly virtualNetworks: readonly VirtualNetwork[];
}

/** DNS records of one name, as the configuration writes them. */
export interface RecordSet {
  readonly A?: readonly string[];
  readonly AAAA?: readonly string[];
  readonly CNAME?: readonly string[];
  /** `priority weight port target`. */
  readonly SRV?: readonly string[];
}

/** A zone (D86, D99). */
export interface ProxyZone {
  readonly id: string;
  /** A-label, lower case. */
  readonly name: string;
  /** Id of its account. */
  readonly account: string;
  readonly hostnames: readonly string[];
  readonly ipv4Quota: number;
  readonly protocols: {
    readonly tcp?: readonly (number | string)[];
    readonly udp?: readonly (number | string)[];
    /** `tcp/6000-6063`. */
    readonly unavailable?: readonly string[];
  };
  /** By name relative to the zone, `@` for the zone itself. */
  readonly records?: Readonly<Record<string, RecordSet>>;
  /** Names of zones; `*` is any. */
  readonly permittedOriginZones?: readonly string[];
  readonly loadBalancers?: readonly string[];
  readonly drill?: 'dns-down' | 'ipam-down' | 'internal';
  /** For `ip_firewall` (D81). */
  readonly block?: readonly string[];
  readonly allow?: readonly string[];
  /** Written once, when the store has none of that id. */
  readonly applications?: readonly ({ readonly id: string } & Readonly<Record<string, unknown>>)[];
}

/** `proxy` of the configuration (D84, D86). */
export interface ProxySettings {
  readonly ipv4Pool: string;
  readonly portOffset: number;
  readonly originDeny: readonly string[];
  /** Addresses with ports, and CIDRs: listeners of Postern itself that may be origins all the same. */
  readonly originAllow: readonly string[];
  /** Networks of the edge addresses that this machine serves; absent: it serves all. */
  readonly servedAddresses?: readonly string[] | undefined;
  readonly limits: ProxyLimits;
}

/** What a caller may do besides the scope that the endpoint asks for. */
export interface CallerRights {
  /** `ip_prefixes:read`, which a global key has too (11019, D85). */
  readonly readsPrefixes: boolean;
}

/** The zones and accounts of a configuration. */
export interface ProxyOwners {
  readonly zones: readonly ProxyZone[];
  readonly accounts: readonly ProxyAccount[];
}

/** A zone with its account, whose plan, prefixes and entitlements hold for it whoever calls (D85). */
export interface ZoneAndOwner {
  readonly zone: ProxyZone;
  readonly account: ProxyAccount;
}

/** Every zone whose account is there, by its id. */
export function placesOf({ zones, accounts }: ProxyOwners): ReadonlyMap<string, ZoneAndOwner> {
  const accountById = new Map(accounts.map((account) => [account.id, account]));
  return new Map(
    zones.flatMap((zone) => {
      const account = accountById.get(zone.account);
      return account ? [[zone.id, { zone, account }] as const] : [];
    }),
  );
}

/** Joins what mail and proxy each read of an account. */
export function proxyAccounts(
  accounts: readonly Pick<ProxyAccount, 'id' | 'name' | 'plan'>[],
  slices: readonly (Pick<ProxyAccount, 'id'> & Partial<ProxyAccount>)[],
): readonly ProxyAccount[] {
  const sliceById = new Map(slices.map((slice) => [slice.id, slice]));
  return accounts.map(({ id, name, plan }) => {
    const { entitlements = [], prefixes = [], virtualNetworks = [] } = sliceById.get(id) ?? {};
    return { id, name, plan, entitlements, prefixes, virtualNetworks };
  });
}
