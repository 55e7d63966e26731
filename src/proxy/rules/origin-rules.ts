// The rules about an application's origin: 11000-11002, 11041-11045, 11050 (D82, D86).

import { reachedAddresses } from '../../base/net/reached-addresses.ts';
import { isInNetworks } from '../application/ip-address.ts';
import { formatPorts, portCount } from '../application/port-ranges.ts';
import { quote } from '../application/quote.ts';
import type { Judge } from './facts.ts';
import type { ReadFault, Reason } from './read-addresses.ts';
import type { Judged } from './read-application.ts';

/** The faults with the code of a row that were found while the fields were read. */
function foundIn({ application }: Judged, code: ReadFault['code']): readonly Reason[] {
  return application.faults.filter((fault) => fault.code === code).map(({ text, pointer = '' }) => ({ text, pointer }));
}

/** 11000, D82: another number of origin ports than edge ports; the origin ports follow the edge ports in step. */
function lengthReasons({ application }: Judged): readonly Reason[] {
  const { protocol, origins, originPorts } = application;
  if (!protocol) return [];
  const wanted = portCount(protocol.ports);
  const other = (ports: Parameters<typeof portCount>[0]): boolean => portCount(ports) !== wanted;
  const text = (what: string, ports: Parameters<typeof portCount>[0]): string =>
    `${what} has ${portCount(ports)} port(s), protocol ${quote(protocol.canonical)} has ${wanted}`;
  return [
    ...origins
      .filter(({ ports }) => other(ports))
      .map(({ text: origin, ports, pointer }) => ({ text: text(`origin ${quote(origin)}`, ports), pointer })),
    ...(originPorts && other(originPorts)
      ? [{ text: text(`"origin_port" ${formatPorts(originPorts)}`, originPorts), pointer: '/origin_port' }]
      : []),
  ];
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
  const both = hasDirect && hasDns ? [{ text: '"origin_direct" and "origin_dns" are both given' }] : [];
  const neither =
    hasDirect || hasDns || isPartial ? [] : [{ text: 'neither "origin_direct" nor "origin_dns" is given' }];
  const transport = protocol ? origins.filter((origin) => origin.transport !== protocol.transport) : [];
  return [
    ...both,
    ...neither,
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
  const denied = facts ? origins.filter(({ address }) => isDenied(address)) : [];
  const own = facts ? origins.filter(({ text }) => facts.ipam.ownOrigins.includes(text)) : [];
  return [
    ...foundIn(judged, 11002),
    ...denied.map(({ text, pointer }) => ({
      text: `origin ${quote(text)} is in a network that is not allowed`,
      pointer,
    })),
    ...own
      .filter((origin) => !denied.includes(origin))
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
  return [
    ...ranges.map(({ text, pointer }) => ({ text: `origin ${quote(text)} has a range of ports`, pointer })),
    ...(originPorts && portCount(originPorts) > 1
      ? [{ text: `"origin_port" ${quote(formatPorts(originPorts))} is a range of ports`, pointer: '/origin_port' }]
      : []),
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
export const originZone: Judge = ({ application: { originName }, zone }, facts) =>
  originName !== undefined && facts && !facts.dns.isOriginPermitted
    ? [
        {
          text: `${quote(originName)} is neither in zone ${quote(zone.name)} nor in a zone that it permits`,
          pointer: '/origin_dns/name',
        },
      ]
    : [];
