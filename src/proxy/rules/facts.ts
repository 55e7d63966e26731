// What the rules must know besides the application (D83, D86): `dns` knows hostnames, `ipam` addresses; neither asks the network.

import { parentNames } from '../../base/net/domain-labels.ts';
import { isBoundTo, isLocalAddress, type OwnDoor } from '../../base/net/own-doors.ts';
import { reachedAddresses } from '../../base/net/socket-address.ts';
import type { PortRange, TransportProtocol } from '../application/application.ts';
import { configuredPorts, within, without } from '../application/port-ranges.ts';
import { canonicalAddress, canonicalIp, readOriginAllow } from '../application/texts.ts';
import type { ProxyOwners, ProxySettings, ProxyZone } from '../application/zone.ts';
import type { ApplicationFactsSource } from '../store/application-store.ts';
import type { ReadOrigin, Reason } from './read-addresses.ts';
import type { Judged } from './read-application.ts';

/** What the sources are asked about: the application as far as it could be read. One that is being changed is never in its own way (D80). */
type Asked = Pick<Judged, 'application' | 'zone' | 'account' | 'stored'>;

/** All facts about one application. */
export interface Facts {
  readonly dns: Awaited<ReturnType<FactSources['dns']>>;
  readonly ipam: Awaited<ReturnType<FactSources['ipam']>>;
}

/** Tells why a rule is broken; nothing where it is kept. Without facts it tells only what needs none (D83). */
export type Judge = (judged: Judged, facts: Facts | undefined) => readonly Reason[];

/** Where the facts come from, asked on every create and update. What one throws keeps it from answering: 10002 with 503. */
export type FactSources = ReturnType<typeof createFactSources>;

/** What the sources read. */
export interface FactParts extends Pick<ProxyOwners, 'zones'> {
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

/** D86: the origin's name must be under this zone or a permitted one; the innermost zone counts, as in DNS. */
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

function dnsSource({ zones, store }: FactParts) {
  const origins = zonesByName(zones);
  const named = new Map(zones.map((zone) => [zone.name.toLowerCase(), zone.id]));
  return async ({ application: { hostname, originName }, zone }: Asked) => ({
    /** Id of the configured zone that the hostname is under; of nested zones the innermost. */
    hostnameZone:
      hostname &&
      parentNames(hostname)
        .map((name) => named.get(name))
        .find((id) => id !== undefined),
    /** Id of the zone whose applications hold the hostname. */
    hostnameHolder: hostname === undefined ? undefined : await store.hostnameZone(hostname),
    /** False where the origin's name lives in another zone, which this one's applications may not use (11050). */
    isOriginPermitted: originName === undefined || isOriginPermitted(originName, zone, origins),
  });
}

/** The ports of a zone; a transport that `protocols` does not list has all (D99). @param ownPorts of TCP that the gateway has */
export function availablePorts(
  { protocols }: Pick<ProxyZone, 'protocols'>,
  transport: TransportProtocol,
  ownPorts: readonly number[] = [],
): readonly PortRange[] {
  const listed = protocols[transport]?.map(configuredPorts) ?? [{ first: 1, last: 65_535 }];
  const unavailable = (protocols.unavailable ?? [])
    .filter((entry) => entry.startsWith(`${transport}/`))
    .map((entry) => configuredPorts(entry.slice(4)));
  const own = transport === 'tcp' ? ownPorts.map((port) => ({ first: port, last: port })) : [];
  return listed.flatMap((range) => without(range, [...unavailable, ...own]));
}

function unavailablePorts({ application: { protocol }, zone }: Asked, { settings, ownDoors }: FactParts) {
  if (!protocol) return [];
  // D84: compared after the offset.
  const own = ownDoors().map(({ port }) => port - settings.portOffset);
  return without(protocol.ports, availablePorts(zone, protocol.transport, own));
}

async function takenPorts(
  { application: { protocol, hostname, edge }, stored }: Asked,
  edgeIpsOfOthers: readonly string[],
  { store }: FactParts,
): Promise<readonly PortRange[]> {
  if (!protocol || hostname === undefined || !edge) return [];
  // An edge IP of another zone is 11033; its ports are that zone's affair (D82).
  const foreign = new Set(edgeIpsOfOthers);
  const ips = edge.kind === 'static' ? edge.ips.filter((ip) => !foreign.has(ip)) : [];
  if (edge.kind === 'static' && ips.length === 0) return [];
  const { transport, ports } = protocol;
  const own = edge.kind === 'static' ? { kind: edge.kind, ips } : edge;
  return within(ports, await store.takenPorts({ transport, ports, hostname, edge: own }, stored?.id));
}

/** Ports of an address of this machine that applications have, or this one asks for; after the offset. */
async function listenersAt(
  address: string,
  { transport, ports }: ReadOrigin,
  { application }: Asked,
  parts: FactParts,
) {
  const { hostname = '', edge, protocol } = application;
  const { portOffset } = parts.settings;
  // `::` is every IPv6 address of this machine, and of no other.
  if (address.includes(':') && !isLocalAddress(address)) return [];
  const shifted = { first: Math.max(1, ports.first - portOffset), last: ports.last - portOffset };
  if (shifted.last < 1) return [];
  const here = { kind: 'static', ips: [address] } as const;
  const taken = await parts.store.takenPorts({ transport, ports: shifted, hostname, edge: here });
  const isAsked =
    edge?.kind === 'static'
      ? edge.ips.some((ip) => canonicalAddress(ip) === address)
      : address.includes(':') && (edge?.kind === 'ipv6' || edge?.andIpv6 === true);
  const own = isAsked && protocol?.transport === transport ? [protocol.ports] : [];
  return [...taken, ...own].map(({ first, last }) => ({ first: first + portOffset, last: last + portOffset }));
}

/** D84: an application that led to Postern itself would lend its clients the trust that Postern's own address has. */
async function ownOrigins(asked: Asked, parts: FactParts): Promise<readonly string[]> {
  const allowance = readOriginAllow(parts.settings.originAllow);
  const doors = parts.ownDoors();
  const isOwnAt = async (origin: ReadOrigin, address: string): Promise<boolean> => {
    const taken = origin.transport === 'tcp' ? doors.filter(({ host }) => isBoundTo(host, address)) : [];
    const listening = [
      ...taken.map(({ port }) => ({ first: port, last: port })),
      ...(await listenersAt(address, origin, asked, parts)),
    ];
    const allowed = allowance.portsOf(address);
    return within(origin.ports, listening).some((range) => without(range, allowed).length > 0);
  };
  const own: string[] = [];
  for (const origin of asked.application.origins) {
    const found = await Promise.all(reachedAddresses(origin.address).map((address) => isOwnAt(origin, address)));
    if (found.includes(true)) own.push(origin.text);
  }
  return own;
}

async function askIpam(asked: Asked, parts: FactParts) {
  const { settings, store } = parts;
  const { zone, account, stored } = asked;
  const { protocol, edge } = asked.application;
  const used = edge?.kind === 'static' ? await store.edgeIpsOfOthers(edge.ips, zone.id) : [];
  const edgeIpsOfOthers = used.map(canonicalIp);
  // Ports before the protocol: a request that sees another write's ports then also sees its protocol, and is told both (D82).
  const taken = await takenPorts(asked, edgeIpsOfOthers, parts);
  return {
    ipv4Pool: settings.ipv4Pool,
    /** Networks that no origin may be in (11002). */
    originDeny: settings.originDeny,
    /** Of the origins, the texts of those where Postern itself listens, and `proxy.originAllow` does not name it (11002). */
    ownOrigins: await ownOrigins(asked, parts),
    /** Of the static edge IPs, those of other zones, in their canonical spelling (11033). */
    edgeIpsOfOthers,
    /** The pay-as-you-go account has an application of this protocol (11034). */
    isProtocolUsed:
      account.plan === 'payg' && protocol !== undefined
        ? await store.hasProtocol(account.id, protocol.canonical, stored?.id)
        : false,
    /** Hostnames of the zone that have an IPv4 of the pool (12005). */
    ipv4Hostnames: edge?.kind === 'ipv4' ? await store.ipv4Hostnames(zone.id, stored?.id) : [],
    /** Of the ports asked for, those that the zone does not have, or that Postern listens on itself (13002). */
    unavailablePorts: unavailablePorts(asked, parts),
    /** Of the ports asked for, those that another application has on the same address (13002). */
    takenPorts: taken,
  };
}

/** Makes the two sources over configuration and store. */
export function createFactSources(parts: FactParts) {
  return { dns: dnsSource(parts), ipam: (asked: Asked) => askIpam(asked, parts) };
}
