// The rules about what an application asks of the edge, its account and its zone: 10012, 11004, 11014-11034, 12005, 13002, 16001
// (D82, D86). Where a write may also break a rule by losing a race, the text is a function of its own (D87).

import type { PortRange } from '../application/application.ts';
import { isInNetworks, wildcardIp } from '../application/ip-address.ts';
import { formatPorts, joinRanges } from '../application/port-ranges.ts';
import { joinReasons, quote } from '../application/quote.ts';
import type { ProxyAccount, ProxyZone } from '../application/zone.ts';
import type { Judge } from './facts.ts';
import type { Reason } from './read-addresses.ts';
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
export const dnsType: Judge = ({ application, stored }, facts) => {
  const { dnsType: type, edge, faults, hostname } = application;
  const pointer = '/dns/type';
  const found = faults.filter(({ code }) => code === 11004).map(({ text }) => ({ text, pointer }));
  const wanted = edge?.kind === 'static' ? 'ADDRESS' : 'CNAME';
  const isOtherMode = type !== undefined && edge !== undefined && type !== wanted;
  const mode = `"dns.type" ${type} does not go with ${edge?.kind === 'static' ? 'static' : 'dynamic'} edge IPs`;
  const before = stored?.fields.dns.type;
  const isChanged = type !== undefined && before !== undefined && type !== before;
  const isUnderNoZone = facts && hostname !== undefined && facts.dns.hostnameZone === undefined;
  return [
    ...found,
    ...(isOtherMode ? [{ text: `${mode}; it must be ${wanted}`, pointer }] : []),
    ...(isChanged ? [{ text: `"dns.type" cannot be changed from ${before} to ${type}`, pointer }] : []),
    ...(isUnderNoZone ? [{ text: `${quote(hostname)} is under no zone of this service`, pointer: '/dns/name' }] : []),
  ];
};

/** 11014: the FTP type by protocol or by traffic type (D81). */
export const ftp: Judge = ({ application: { protocol, fields }, account }) => {
  const isFtp = protocol?.isFtp === true || fields.traffic_type === 'ftp';
  if (!isFtp || account.entitlements.includes('ftp')) return [];
  const pointer = protocol?.isFtp === true ? '/protocol' : '/traffic_type';
  return [{ text: `account ${quote(account.name)} is not entitled to FTP`, pointer }];
};

/** 11018: static edge IPs only; the dynamic forms need no entitlement (D81). */
export const edgeIps: Judge = ({ application: { edge }, account }) =>
  edge?.kind === 'static' && !account.entitlements.includes('edge_ips')
    ? [{ text: `account ${quote(account.name)} is not entitled to static edge IPs`, pointer: '/edge_ips' }]
    : [];

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
  fields.smart_routing === true && !account.entitlements.includes('smart_routing')
    ? [{ text: `account ${quote(account.name)} is not entitled to smart routing`, pointer: '/smart_routing' }]
    : [];

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
  return {
    text: `zone ${quote(zone.name)} has used up its IPv4 quota, which is ${zone.ipv4Quota}`,
    pointer: '/dns/name',
  };
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
