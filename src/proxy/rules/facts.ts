// What the rules must know besides the application. There are two sources (D83, D86): `dns` knows hostnames and zones, `ipam`
// knows addresses, quotas, networks and ports. Both read the configuration and the store, and ask nothing of the network.

import { parentNames } from '../../base/net/domain-labels.ts';
import { isBoundTo, isLocalAddress, type OwnDoor } from '../../base/net/own-doors.ts';
import { reachedAddresses } from '../../base/net/reached-addresses.ts';
import type { DirectOrigin, PortRange, TransportProtocol } from '../application/application.ts';
import { canonicalAddress } from '../application/ip-address.ts';
import { readOriginAllow } from '../application/origin-allow.ts';
import { configuredPorts, within, without } from '../application/port-ranges.ts';
import type { Protocol } from '../application/protocol.ts';
import type { ProxyOwners, ProxySettings, ProxyZone, VirtualNetwork } from '../application/zone.ts';
import type { ApplicationFactsSource, Claims } from '../store/store.ts';

/** What `dns` is asked. */
export interface DnsQuery {
  readonly zone: ProxyZone;
  /** `dns.name`, where it could be read. A-label, lower case. */
  readonly hostname: string | undefined;
  /** `origin_dns.name`, where it could be read. A-label, lower case. */
  readonly originName: string | undefined;
}

/** What `dns` answers. */
export interface DnsFacts {
  /** Id of the configured zone that the hostname is under; of nested zones the innermost. */
  readonly hostnameZone: string | undefined;
  /** Id of the zone whose applications hold the hostname. */
  readonly hostnameHolder: string | undefined;
  /** False where the origin's name lives in another zone, which this one's applications may not use (11050). */
  readonly isOriginPermitted: boolean;
}

/** What `ipam` is asked. */
export interface IpamQuery {
  readonly zone: ProxyZone;
  readonly protocol: Protocol | undefined;
  readonly hostname: string | undefined;
  readonly edge: Claims['edge'] | undefined;
  /** The entries of `origin_direct` that could be read. */
  readonly origins: readonly AskedOrigin[];
  /** The application that is being changed: it is never in its own way (D80). */
  readonly except: string | undefined;
}

/** A direct origin, with its text as it was given. */
export type AskedOrigin = DirectOrigin & { readonly transport: TransportProtocol; readonly text: string };

/** What `ipam` answers. */
export interface IpamFacts {
  readonly ipv4Pool: string;
  /** Networks that no origin may be in (11002). */
  readonly originDeny: readonly string[];
  /** Of the origins, the texts of those where Postern itself listens, and `proxy.originAllow` does not name it (11002). */
  readonly ownOrigins: readonly string[];
  /** Networks allocated to the account (11019). */
  readonly prefixes: readonly string[];
  readonly virtualNetworks: readonly VirtualNetwork[];
  /** Of the static edge IPs, those of other zones, in their canonical spelling (11033). */
  readonly edgeIpsOfOthers: readonly string[];
  /** The pay-as-you-go account has an application of this protocol (11034). */
  readonly isProtocolUsed: boolean;
  readonly ipv4Quota: number;
  /** Hostnames of the zone that have an IPv4 of the pool (12005). */
  readonly ipv4Hostnames: readonly string[];
  /** Of the ports asked for, those that the zone does not have, or that Postern listens on itself (13002). */
  readonly unavailablePorts: readonly PortRange[];
  /** Of the ports asked for, those that another application has on the same address (13002). */
  readonly takenPorts: readonly PortRange[];
}

/** All facts about one application. */
export interface Facts {
  readonly dns: DnsFacts;
  readonly ipam: IpamFacts;
}

/** Knows hostnames. Asked on every create and update. */
export interface DnsSource {
  /** @throws whatever keeps the source from answering; the write is then 10002 with 503 */
  ask(query: DnsQuery): Promise<DnsFacts>;
}

/**
 * Knows addresses. An application always has some: edge IPs, one of the pool, or the wildcard address, whose ports can be
 * taken; so it is asked on every create and update, too.
 */
export interface IpamSource {
  /** @throws whatever keeps the source from answering; the write is then 10002 with 503 */
  ask(query: IpamQuery): Promise<IpamFacts>;
}

/** What the sources read. */
export interface FactParts extends ProxyOwners {
  readonly settings: ProxySettings;
  readonly store: ApplicationFactsSource;
  /** Where Postern's own doors are bound; TCP. */
  readonly ownDoors: () => readonly OwnDoor[];
}

type NamedZone = Pick<ProxyZone, 'id' | 'name'>;

function zonesByName(zones: readonly ProxyZone[]): ReadonlyMap<string, NamedZone> {
  const named = zones.map((zone): [string, NamedZone] => [zone.name.toLowerCase(), zone]);
  // D86: load-balancer names are hostnames of their zone, wherever they stand.
  const balancers = zones.flatMap((zone) =>
    (zone.loadBalancers ?? []).map((name): [string, NamedZone] => [name.toLowerCase(), zone]),
  );
  return new Map([...balancers, ...named]);
}

/**
 * D86: the origin's name must be under this zone or a permitted one. The innermost zone counts, as in DNS, where a name
 * below a delegation is no longer the outer zone's.
 */
function isOriginPermitted(name: string, zone: ProxyZone, zones: ReadonlyMap<string, NamedZone>): boolean {
  const permitted = new Set((zone.permittedOriginZones ?? []).map((entry) => entry.toLowerCase()));
  if (permitted.has('*')) return true;
  for (const parent of parentNames(name)) {
    if (permitted.has(parent)) return true;
    const found = zones.get(parent);
    if (found) return found.id === zone.id || permitted.has(found.name.toLowerCase());
  }
  return false;
}

function dnsSource({ zones, store }: FactParts): DnsSource {
  const origins = zonesByName(zones);
  const named = new Map(zones.map((zone) => [zone.name.toLowerCase(), zone.id]));
  return {
    ask: async ({ zone, hostname, originName }) => ({
      hostnameZone:
        hostname &&
        parentNames(hostname)
          .map((name) => named.get(name))
          .find((id) => id !== undefined),
      hostnameHolder: hostname === undefined ? undefined : await store.hostnameZone(hostname),
      isOriginPermitted: originName === undefined || isOriginPermitted(originName, zone, origins),
    }),
  };
}

/** The ports that a zone's applications may use; a transport that `protocols` does not list has all (D99). */
export function availablePorts(zone: ProxyZone, transport: TransportProtocol): readonly PortRange[] {
  const listed = zone.protocols[transport]?.map(configuredPorts) ?? [{ first: 1, last: 65_535 }];
  const unavailable = (zone.protocols.unavailable ?? [])
    .filter((entry) => entry.startsWith(`${transport}/`))
    .map((entry) => configuredPorts(entry.slice(4)));
  return listed.flatMap((range) => without(range, unavailable));
}

function unavailablePorts(query: IpamQuery, { settings, ownDoors }: FactParts): readonly PortRange[] {
  if (!query.protocol) return [];
  const { transport, ports } = query.protocol;
  // D84: compared after the offset. The doors are all TCP; the same number is free for UDP.
  const own = transport === 'tcp' ? ownDoors().map(({ port }) => port - settings.portOffset) : [];
  const ownRanges = own.map((port) => ({ first: port, last: port }));
  const available = availablePorts(query.zone, transport).flatMap((range) => without(range, ownRanges));
  return without(ports, available);
}

async function takenPorts(
  query: IpamQuery,
  edgeIpsOfOthers: readonly string[],
  store: ApplicationFactsSource,
): Promise<readonly PortRange[]> {
  const { zone, protocol, hostname, edge, except } = query;
  if (!protocol || hostname === undefined || !edge) return [];
  // An edge IP of another zone is 11033; its ports are that zone's affair (D82).
  const foreign = new Set(edgeIpsOfOthers);
  const ips = edge.kind === 'static' ? edge.ips.filter((ip) => !foreign.has(ip)) : [];
  if (edge.kind === 'static' && ips.length === 0) return [];
  const { transport, ports } = protocol;
  const where = {
    transport,
    ports,
    zone: zone.id,
    hostname,
    edge: edge.kind === 'static' ? { kind: edge.kind, ips } : edge,
  };
  return within(ports, await store.takenPorts(where, except));
}

/** Ports of an address of this machine that applications have, or this one asks for; after the offset. */
async function listenersAt(address: string, { transport, ports }: AskedOrigin, asked: IpamQuery & FactParts) {
  const { zone, hostname = '', edge, protocol, settings, store } = asked;
  // `::` is every IPv6 address of this machine, and of no other.
  if (address.includes(':') && !isLocalAddress(address)) return [];
  const { portOffset } = settings;
  const shifted = { first: Math.max(1, ports.first - portOffset), last: ports.last - portOffset };
  if (shifted.last < 1) return [];
  const where = {
    transport,
    ports: shifted,
    zone: zone.id,
    hostname,
    edge: { kind: 'static', ips: [address] },
  } as const;
  const taken = await store.takenPorts(where);
  const isAsked =
    edge?.kind === 'static'
      ? edge.ips.some((ip) => canonicalAddress(ip) === address)
      : address.includes(':') && (edge?.kind === 'ipv6' || edge?.andIpv6 === true);
  const own = isAsked && protocol?.transport === transport ? [protocol.ports] : [];
  return [...taken, ...own].map(({ first, last }) => ({ first: first + portOffset, last: last + portOffset }));
}

/** D84: an application that led to Postern itself would lend its clients the trust that Postern's own address has. */
async function ownOrigins(query: IpamQuery, parts: FactParts): Promise<readonly string[]> {
  const { settings, ownDoors } = parts;
  const allowance = readOriginAllow(settings.originAllow);
  const doors = ownDoors();
  const isOwnAt = async (origin: AskedOrigin, address: string): Promise<boolean> => {
    const taken = origin.transport === 'tcp' ? doors.filter(({ host }) => isBoundTo(host, address)) : [];
    const listening = [
      ...taken.map(({ port }) => ({ first: port, last: port })),
      ...(await listenersAt(address, origin, { ...query, ...parts })),
    ];
    const allowed = allowance.portsOf(address);
    return within(origin.ports, listening).some((range) => without(range, allowed).length > 0);
  };
  const own: string[] = [];
  for (const origin of query.origins) {
    const found = await Promise.all(reachedAddresses(origin.address).map((address) => isOwnAt(origin, address)));
    if (found.includes(true)) own.push(origin.text);
  }
  return own;
}

function ipamSource(parts: FactParts): IpamSource {
  const { settings, store } = parts;
  const accounts = new Map(parts.accounts.map((account) => [account.id, account]));
  return {
    ask: async (query) => {
      const { zone, protocol, edge, except } = query;
      // D85: plan and prefixes are those of the zone's account, whoever calls.
      const account = accounts.get(zone.account);
      if (!account) throw new Error(`Zone ${zone.name} is of account ${zone.account}, which is not there`);
      const used = edge?.kind === 'static' ? await store.edgeIpsOfOthers(edge.ips, zone.id) : [];
      const edgeIpsOfOthers = used.map((ip) => canonicalAddress(ip) ?? ip);
      const isPayAsYouGo = account.plan === 'payg';
      // Ports are read before the protocol. If another write comes in between, a request that sees its ports also sees its
      // protocol, and is told both (D82).
      const taken = await takenPorts(query, edgeIpsOfOthers, store);
      return {
        ipv4Pool: settings.ipv4Pool,
        originDeny: settings.originDeny,
        ownOrigins: await ownOrigins(query, parts),
        prefixes: account.prefixes,
        virtualNetworks: account.virtualNetworks,
        edgeIpsOfOthers,
        isProtocolUsed:
          isPayAsYouGo && protocol ? await store.hasProtocol(account.id, protocol.canonical, except) : false,
        ipv4Quota: zone.ipv4Quota,
        ipv4Hostnames: edge?.kind === 'ipv4' ? await store.ipv4Hostnames(zone.id, except) : [],
        unavailablePorts: unavailablePorts(query, parts),
        takenPorts: taken,
      };
    },
  };
}

/** Makes the two sources over configuration and store. */
export function createFactSources(parts: FactParts): { readonly dns: DnsSource; readonly ipam: IpamSource } {
  return { dns: dnsSource(parts), ipam: ipamSource(parts) };
}
