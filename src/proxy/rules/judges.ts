// The judges of the rules (D82, D86): about what an application asks of the edge, its account and its zone, and about its origin.
// Where a write may also break a rule by losing a race, the text is a function of its own (D87).

import { reachedAddresses } from '../../base/net/socket-address.ts';
import type { PortRange } from '../application/application.ts';
import { formatPorts, joinRanges, portCount } from '../application/port-ranges.ts';
import { isInNetworks, joinReasons, quote, wildcardIp } from '../application/texts.ts';
import type { ProxyAccount, ProxyZone } from '../application/zone.ts';
import type { Judge } from './facts.ts';
import type { ReadFault, Reason } from './read-addresses.ts';
import type { Judged } from './read-application.ts';

/** The fields that a pay-as-you-go account may send (10012). */
const payAsYouGoFields: readonly string[] = ['protocol', 'dns', 'origin_direct'];

/** 10012: judges the body sent (D80). Members of members are passed over, as for every account. */
export const unknownFields: Judge = ({ sentNames, account }) => {
  if (account.plan !== 'payg') return [];
  const unknown = sentNames.filter((name) => !payAsYouGoFields.includes(name)).sort();
  if (unknown.length === 0) return [];
  return [{ text: `account ${quote(account.name)} has no field ${joinReasons(unknown.map(quote), 12, ', ')}` }];
};

/** 11004. */
export const dnsType: Judge = (judged, facts) => {
  const { dnsType: type, edge, hostname } = judged.application;
  const pointer = '/dns/type';
  const wanted = edge?.kind === 'static' ? 'ADDRESS' : 'CNAME';
  const isOtherMode = type !== undefined && edge !== undefined && type !== wanted;
  const mode = `"dns.type" ${type} does not go with ${edge?.kind === 'static' ? 'static' : 'dynamic'} edge IPs`;
  const before = judged.stored?.fields.dns.type;
  const isChanged = type !== undefined && before !== undefined && type !== before;
  const isUnderNoZone = facts && hostname !== undefined && facts.dns.hostnameZone === undefined;
  return [
    ...foundIn(judged, 11004),
    ...(isOtherMode ? [{ text: `${mode}; it must be ${wanted}`, pointer }] : []),
    ...(isChanged ? [{ text: `"dns.type" cannot be changed from ${before} to ${type}`, pointer }] : []),
    ...(isUnderNoZone ? [{ text: `${quote(hostname)} is under no zone of this service`, pointer: '/dns/name' }] : []),
  ];
};

/** Tells that an account is not entitled to what is asked for; nothing where it is. */
function unentitled(
  { entitlements, name }: ProxyAccount,
  to: ProxyAccount['entitlements'][number],
  what: string,
  pointer: string,
): readonly Reason[] {
  return entitlements.includes(to) ? [] : [{ text: `account ${quote(name)} is not entitled to ${what}`, pointer }];
}

/** 11014: the FTP type by protocol or by traffic type (D81). */
export const ftp: Judge = ({ application: { protocol, fields }, account }) => {
  const isFtp = protocol?.isFtp === true || fields.traffic_type === 'ftp';
  return isFtp ? unentitled(account, 'ftp', 'FTP', protocol?.isFtp === true ? '/protocol' : '/traffic_type') : [];
};

/** 11018: static edge IPs only; the dynamic forms need no entitlement (D81). */
export const edgeIps: Judge = ({ application: { edge }, account }) =>
  edge?.kind === 'static' ? unentitled(account, 'edge_ips', 'static edge IPs', '/edge_ips') : [];

function list(ips: readonly string[]): string {
  return joinReasons(ips, 12, ', ');
}

/** 11019: needs 11018 passed (D82). */
export const edgeIpsAuthorized: Judge = ({ application: { edge }, account, rights }, facts) => {
  if (edge?.kind !== 'static' || !account.entitlements.includes('edge_ips')) return [];
  const foreign = facts ? edge.ips.filter((ip) => !isInNetworks(ip, account.prefixes)) : [];
  const pointer = '/edge_ips';
  return [
    ...(rights.readsPrefixes ? [] : [{ text: 'the token has no permission to read IP prefixes', pointer }]),
    ...(foreign.length === 0
      ? []
      : [{ text: `${list(foreign)} is in no prefix of account ${quote(account.name)}`, pointer }]),
  ];
};

/** 11026. */
export const smartRouting: Judge = ({ application: { fields }, account }) =>
  fields.smart_routing === true ? unentitled(account, 'smart_routing', 'smart routing', '/smart_routing') : [];

/** Why a write is 11033. */
export function edgeIpsInUse(ips: readonly string[]): Reason {
  return { text: `${list(ips)} is used by another zone`, pointer: '/edge_ips' };
}

/** 11033: needs 11018 passed (D82). */
export const edgeIpsFree: Judge = ({ application: { edge }, account }, facts) => {
  if (edge?.kind !== 'static' || !facts || !account.entitlements.includes('edge_ips')) return [];
  const used = facts.ipam.edgeIpsOfOthers;
  return used.length === 0 ? [] : [edgeIpsInUse(used)];
};

/** Why a write is 11034. */
export function protocolUsed(protocol: string, account: Pick<ProxyAccount, 'name'>): Reason {
  const text = `account ${quote(account.name)} has an application of protocol ${quote(protocol)} already`;
  return { text, pointer: '/protocol' };
}

/** 11034. */
export const soleProtocol: Judge = ({ application: { protocol }, account }, facts) =>
  protocol && facts?.ipam.isProtocolUsed ? [protocolUsed(protocol.canonical, account)] : [];

/** Why a write is 12005. */
export function quotaUsedUp(zone: Pick<ProxyZone, 'name' | 'ipv4Quota'>): Reason {
  const text = `zone ${quote(zone.name)} has used up its IPv4 quota, which is ${zone.ipv4Quota}`;
  return { text, pointer: '/dns/name' };
}

/** Why a write is 12005 although the zone's quota is not used up. */
export function poolUsedUp(): Reason {
  return { text: 'no IPv4 address is left to give to a hostname', pointer: '/dns/name' };
}

/** True where the application has its IPv4 already and stays on its hostname. */
function keepsIpv4({ application: { hostname }, stored }: Judged): boolean {
  if (!stored || stored.addresses.every((address) => address === wildcardIp)) return false;
  return stored.fields.dns.type === 'CNAME' && stored.fields.dns.name === hostname;
}

/** 12005: a hostname that has its address already shares it, also where the quota was made smaller since (D86). */
export const ipv4Quota: Judge = (judged, facts) => {
  const { application, zone } = judged;
  const { edge, hostname } = application;
  if (!facts || edge?.kind !== 'ipv4' || hostname === undefined || keepsIpv4(judged)) return [];
  const { ipv4Hostnames } = facts.ipam;
  if (ipv4Hostnames.some((name) => name.toLowerCase() === hostname)) return [];
  return ipv4Hostnames.length < zone.ipv4Quota ? [] : [quotaUsedUp(zone)];
};

function portList(transport: string, ports: readonly PortRange[]): string {
  return `${transport} port ${joinRanges(ports).map(formatPorts).join(', ')}`;
}

/** Why a write is 13002 because of others. */
export function portsTaken(transport: string, ports: readonly PortRange[]): Reason {
  return { text: `${portList(transport, ports)} is taken on the same address`, pointer: '/protocol' };
}

/** 13002: every refused port is named, as ranges (D86). */
export const portsAllowed: Judge = ({ application: { protocol }, zone }, facts) => {
  if (!protocol || !facts) return [];
  const { unavailablePorts, takenPorts } = facts.ipam;
  const { transport } = protocol;
  const refused = `${portList(transport, unavailablePorts)} is not available in zone ${quote(zone.name)}`;
  return [
    ...(unavailablePorts.length === 0 ? [] : [{ text: refused, pointer: '/protocol' }]),
    ...(takenPorts.length === 0 ? [] : [portsTaken(transport, takenPorts)]),
  ];
};

/** Why a write is 16001. */
export function hostnameElsewhere(hostname: string): Reason {
  return { text: `${quote(hostname)} belongs to another zone`, pointer: '/dns/name' };
}

/** 16001. */
export const hostnameZone: Judge = ({ application: { hostname }, zone }, facts) => {
  if (!facts || hostname === undefined) return [];
  const { hostnameZone: under, hostnameHolder: holder } = facts.dns;
  const isElsewhere = [under, holder].some((id) => id !== undefined && id !== zone.id);
  return isElsewhere ? [hostnameElsewhere(hostname)] : [];
};

/** The faults with the code of a row that were found while the fields were read. */
function foundIn({ application }: Judged, code: ReadFault['code']): readonly Reason[] {
  return application.faults.filter((fault) => fault.code === code).map(({ text, pointer = '' }) => ({ text, pointer }));
}

/** 11000, D82: another number of origin ports than edge ports; the origin ports follow the edge ports in step. */
function lengthReasons({ application }: Judged): readonly Reason[] {
  const { protocol, origins, originPorts } = application;
  if (!protocol) return [];
  const wanted = portCount(protocol.ports);
  const given = origins.map(({ text, ports, pointer }) => ({ what: `origin ${quote(text)}`, ports, pointer }));
  if (originPorts)
    given.push({ what: `"origin_port" ${formatPorts(originPorts)}`, ports: originPorts, pointer: '/origin_port' });
  return given
    .filter(({ ports }) => portCount(ports) !== wanted)
    .map(({ what, ports, pointer }) => ({
      text: `${what} has ${portCount(ports)} port(s), protocol ${quote(protocol.canonical)} has ${wanted}`,
      pointer,
    }));
}

/** 11000, D82: what a virtual network cannot carry. */
function virtualNetworkTrafficReasons({ application }: Judged): readonly Reason[] {
  const { traffic_type: traffic, proxy_protocol: proxyProtocol = 'off' } = application.fields;
  if (!application.given.has('virtual_network_id')) return [];
  return [
    ...(traffic === 'http' || traffic === 'https'
      ? [{ text: `"traffic_type" ${quote(traffic)} does not go with a virtual network`, pointer: '/traffic_type' }]
      : []),
    ...(proxyProtocol === 'off'
      ? []
      : [{ text: '"proxy_protocol" does not go with a virtual network', pointer: '/proxy_protocol' }]),
  ];
}

/** 11000. */
export const originForm: Judge = (judged) => {
  const { application } = judged;
  const { given, isPartial, protocol, origins } = application;
  const hasDirect = given.has('origin_direct');
  const hasDns = given.has('origin_dns');
  const isNeither = !hasDirect && !hasDns && !isPartial;
  const transport = protocol ? origins.filter((origin) => origin.transport !== protocol.transport) : [];
  return [
    ...(hasDirect && hasDns ? [{ text: '"origin_direct" and "origin_dns" are both given' }] : []),
    ...(isNeither ? [{ text: 'neither "origin_direct" nor "origin_dns" is given' }] : []),
    ...foundIn(judged, 11000),
    ...transport.map(({ text, pointer }) => ({
      text: `origin ${quote(text)} is of another transport than protocol ${quote(protocol?.canonical ?? '')}`,
      pointer,
    })),
    ...lengthReasons(judged),
    ...virtualNetworkTrafficReasons(judged),
  ];
};

/** 11001. */
export const originDns: Judge = (judged) => {
  const { given, isPartial, originType } = judged.application;
  const needsPort = originType !== undefined && originType !== 'SRV' && !given.has('origin_port') && !isPartial;
  const missing = `"origin_port" is missing; "origin_dns.type" ${quote(originType ?? '')} needs it`;
  return [...foundIn(judged, 11001), ...(needsPort ? [{ text: missing, pointer: '/origin_port' }] : [])];
};

/** 11002. */
export const originAddress: Judge = (judged, facts) => {
  const { origins } = judged.application;
  const isDenied = (address: string): boolean =>
    reachedAddresses(address).some((reached) => isInNetworks(reached, facts?.ipam.originDeny ?? []));
  const { denied = [], allowed = [] } = facts
    ? Object.groupBy(origins, ({ address }) => (isDenied(address) ? 'denied' : 'allowed'))
    : {};
  return [
    ...foundIn(judged, 11002),
    ...denied.map(({ text, pointer }) => ({
      text: `origin ${quote(text)} is in a network that is not allowed`,
      pointer,
    })),
    ...allowed
      .filter(({ text }) => facts?.ipam.ownOrigins.includes(text))
      .map(({ text, pointer }) => ({ text: `Postern itself listens at origin ${quote(text)}`, pointer })),
  ];
};

/** 11041. */
export const virtualNetworkForm: Judge = ({ application: { given } }) =>
  given.has('virtual_network_id') && given.has('origin_dns')
    ? [{ text: '"virtual_network_id" is given with "origin_dns"', pointer: '/virtual_network_id' }]
    : [];

/** 11042. */
export const virtualNetworkOrigin: Judge = ({ application: { given, originCount } }) =>
  given.has('virtual_network_id') && originCount > 1
    ? [{ text: `"origin_direct" has ${originCount} entries with "virtual_network_id"`, pointer: '/origin_direct' }]
    : [];

/** 11043. */
export const virtualNetworkPort: Judge = ({ application: { given, origins, originPorts } }) => {
  if (!given.has('virtual_network_id')) return [];
  const ranges = origins.filter(({ ports }) => portCount(ports) > 1);
  const range = originPorts && portCount(originPorts) > 1 ? quote(formatPorts(originPorts)) : undefined;
  return [
    ...ranges.map(({ text, pointer }) => ({ text: `origin ${quote(text)} has a range of ports`, pointer })),
    ...(range === undefined ? [] : [{ text: `"origin_port" ${range} is a range of ports`, pointer: '/origin_port' }]),
  ];
};

/** 11044: needs a UUID (D82), and of the addresses those that could be read. */
export const virtualNetworkRoute: Judge = ({ application, account }, facts) => {
  const id = application.fields.virtual_network_id;
  if (!facts || id === undefined) return [];
  const network = account.virtualNetworks.find((known) => known.id.toLowerCase() === id.toLowerCase());
  if (!network) return [{ text: `there is no virtual network ${quote(id)}`, pointer: '/virtual_network_id' }];
  return application.origins
    .filter(({ address }) => !isInNetworks(address, network.routes))
    .map(({ text, pointer }) => ({
      text: `virtual network ${quote(network.name)} has no route to origin ${quote(text)}`,
      pointer,
    }));
};

/** 11045. */
export const virtualNetworkId: Judge = (judged) => foundIn(judged, 11045);

/** 11050: needs a valid name (D82). */
export const originZone: Judge = ({ application: { originName }, zone }, facts) => {
  if (originName === undefined || !facts || facts.dns.isOriginPermitted) return [];
  const text = `${quote(originName)} is neither in zone ${quote(zone.name)} nor in a zone that it permits`;
  return [{ text, pointer: '/origin_dns/name' }];
};
