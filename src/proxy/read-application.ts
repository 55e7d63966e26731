// Reads the body of a proxy application: what is well formed as values, what is not as faults, each with the code of the
// row that owns it (D81, D82). Knows no zone, account or store.

import type { ApplicationFields, PortRange } from './application.ts';
import { parseDomainName } from './domain-name.ts';
import { canonicalAddress } from './ip-address.ts';
import { isJsonObject, type JsonObject, member } from './merge-patch.ts';
import { type OriginFlaw, type OriginText, parseOrigin } from './origin-text.ts';
import { parsePorts } from './port-ranges.ts';
import { type Protocol, parseProtocol } from './protocol.ts';
import { got, quote } from './quote.ts';
import type { Claims } from './store.ts';

/** Why a rule is broken: a clause without a full stop, and what in the body it is about. */
export interface Reason {
  readonly text: string;
  readonly pointer?: string;
}

/** A reason found in reading, with the code that owns it: 10001, or a row's. */
export interface ReadFault extends Reason {
  readonly code: 10001 | 11000 | 11001 | 11002 | 11004 | 11045;
}

/** The fields of an application, in the order in which they are read and answered. */
export const fieldNames = [
  'protocol',
  'dns',
  'origin_direct',
  'origin_dns',
  'origin_port',
  'edge_ips',
  'smart_routing',
  'virtual_network_id',
  'ip_firewall',
  'proxy_protocol',
  'tls',
  'traffic_type',
] as const satisfies readonly (keyof ApplicationFields)[];

/** Name of a field. */
export type FieldName = (typeof fieldNames)[number];

type Fields = { readonly [Name in FieldName]: ApplicationFields[Name] | undefined };

/** A body that was read. What is undefined is absent, or has its fault in `faults`. */
export interface ReadApplication {
  /** A PATCH read without the application it is for (the drills of D83): what is absent is not known. */
  readonly isPartial: boolean;
  /** Names of the fields that are there, well formed or not. */
  readonly given: ReadonlySet<FieldName>;
  /** As they are stored and answered: unknown members gone, domain names in lower case. */
  readonly fields: Fields;
  readonly protocol: Protocol | undefined;
  readonly dnsType: 'CNAME' | 'ADDRESS' | undefined;
  /** A-label, lower case. */
  readonly hostname: string | undefined;
  /** The entries of `origin_direct` that could be read, with their place. */
  readonly origins: readonly (OriginText & { readonly text: string; readonly pointer: string })[];
  /** Entries of `origin_direct`, readable or not. */
  readonly originCount: number;
  readonly originName: string | undefined;
  readonly originType: '' | 'A' | 'AAAA' | 'SRV' | undefined;
  readonly originPorts: PortRange | undefined;
  readonly edge: Claims['edge'] | undefined;
  readonly faults: readonly ReadFault[];
}

/** Origins and static edge IPs of one application at most: each is a listener or a health state of its own. */
export const maxAddresses = 256;

/** What the readers of the fields share. */
interface Reading {
  readonly isPartial: boolean;
  readonly report: (code: ReadFault['code'], pointer: string, text: string) => undefined;
}

function readProtocol(value: unknown, { isPartial, report }: Reading): Protocol | undefined {
  if (value === undefined) return isPartial ? undefined : report(10001, '/protocol', '"protocol" is missing');
  const protocol = typeof value === 'string' ? parseProtocol(value) : undefined;
  const want = '"protocol" must be like "tcp/22", "udp/53" or "tcp/1000-2000" (ports 1-65535, ascending), or "ftp"';
  return protocol ?? report(10001, '/protocol', `${want}; got ${got(value)}`);
}

type DnsType = ApplicationFields['dns']['type'];

function readDns(value: unknown, reading: Reading): { readonly type?: DnsType; readonly name?: string } {
  const { isPartial, report } = reading;
  if (value === undefined) {
    if (!isPartial) report(10001, '/dns', '"dns" is missing');
    return {};
  }
  if (!isJsonObject(value)) {
    report(10001, '/dns', `"dns" must be an object with "type" and "name"; got ${got(value)}`);
    return {};
  }
  const type = member(value, 'type');
  const name = member(value, 'name');
  const isTypeKnown = type === 'CNAME' || type === 'ADDRESS';
  if (!isTypeKnown && !(isPartial && type === undefined)) {
    report(11004, '/dns/type', `"dns.type" must be CNAME or ADDRESS; got ${got(type)}`);
  }
  const hostname = typeof name === 'string' ? parseDomainName(name) : undefined;
  if (hostname === undefined && !(isPartial && name === undefined)) {
    const want = name === undefined ? '"dns.name" is missing' : `"dns.name" must be a domain name; got ${got(name)}`;
    report(10001, '/dns/name', want);
  }
  return { ...(isTypeKnown ? { type } : {}), ...(hostname === undefined ? {} : { name: hostname }) };
}

const flawTexts = {
  scheme: 'does not begin with "tcp://" or "udp://"',
  brackets: 'has an IPv6 address without brackets',
  'bracketed-ipv4': 'has brackets around an IPv4 address',
  address: 'has no IP address behind its scheme',
  port: 'has no port, or no ascending range of ports, of 1-65535 at its end',
} as const satisfies Record<OriginFlaw, string>;

type Origins = Pick<ReadApplication, 'origins' | 'originCount'> & { readonly texts: readonly string[] | undefined };

function readOriginDirect(value: unknown, { report }: Reading): Origins {
  const none = { origins: [], originCount: 0, texts: undefined };
  if (value === undefined) return none;
  if (!Array.isArray(value)) {
    report(10001, '/origin_direct', `"origin_direct" must be an array of texts; got ${got(value)}`);
    return none;
  }
  const entries: readonly unknown[] = value;
  if (entries.length === 0) report(11000, '/origin_direct', '"origin_direct" is empty');
  if (entries.length > maxAddresses) {
    const text = `"origin_direct" may have at most ${maxAddresses} entries; got ${entries.length}`;
    report(10001, '/origin_direct', text);
    return { ...none, originCount: entries.length };
  }
  const origins = entries.flatMap((text, index) => {
    const pointer = `/origin_direct/${index}`;
    if (typeof text !== 'string') {
      report(11002, pointer, `an entry of "origin_direct" must be a text; got ${got(text)}`);
      return [];
    }
    const read = parseOrigin(text);
    if (read.ok) return [{ ...read.origin, text, pointer }];
    report(11002, pointer, `origin ${quote(text)} ${flawTexts[read.flaw]}`);
    return [];
  });
  return { origins, originCount: entries.length, texts: origins.map(({ text }) => text) };
}

/** D81: seconds that an answer about an origin may be kept. */
const originTtl = { min: 600, max: 86_400 } as const;

const originTypes = ['', 'A', 'AAAA', 'SRV'] as const;

type OriginDns = NonNullable<ApplicationFields['origin_dns']>;

function readOriginName(value: unknown, { isPartial, report }: Reading): string | undefined {
  const name = typeof value === 'string' ? parseDomainName(value) : undefined;
  if (name !== undefined || (isPartial && value === undefined)) return name;
  return report(11001, '/origin_dns/name', `"origin_dns.name" must be a domain name; got ${got(value)}`);
}

function readOriginDns(value: unknown, reading: Reading): Partial<OriginDns> & { readonly isTypeKnown: boolean } {
  const { report } = reading;
  if (value === undefined) return { isTypeKnown: false };
  if (!isJsonObject(value)) {
    report(10001, '/origin_dns', `"origin_dns" must be an object with "name"; got ${got(value)}`);
    return { isTypeKnown: false };
  }
  const name = readOriginName(member(value, 'name'), reading);
  const givenType = member(value, 'type');
  const type = originTypes.find((known) => known === givenType);
  const isTypeKnown = givenType === undefined || type !== undefined;
  if (!isTypeKnown) {
    report(11001, '/origin_dns/type', `"origin_dns.type" must be "", "A", "AAAA" or "SRV"; got ${got(givenType)}`);
  }
  const ttl = member(value, 'ttl');
  const { min, max } = originTtl;
  const isTtlKnown = typeof ttl === 'number' && Number.isInteger(ttl) && ttl >= min && ttl <= max;
  if (ttl !== undefined && !isTtlKnown) {
    report(11001, '/origin_dns/ttl', `"origin_dns.ttl" must be ${min} to ${max} whole seconds; got ${got(ttl)}`);
  }
  return {
    isTypeKnown,
    ...(name === undefined ? {} : { name }),
    ...(type === undefined ? {} : { type }),
    ...(isTtlKnown ? { ttl } : {}),
  };
}

/** D81: an integer, or `a-b`; a single port as text is neither. */
function readOriginPort(value: unknown, { report }: Reading): PortRange | undefined {
  if (value === undefined) return undefined;
  const text =
    typeof value === 'number' ? String(value) : typeof value === 'string' && value.includes('-') ? value : '';
  const want = '"origin_port" must be a whole number or an ascending range such as "1000-2000", of 1-65535';
  return parsePorts(text) ?? report(11000, '/origin_port', `${want}; got ${got(value)}`);
}

type EdgeRead = { readonly edge: Claims['edge']; readonly form: NonNullable<ApplicationFields['edge_ips']> };

function readAddresses(value: readonly unknown[], pointer: string, { report }: Reading): readonly string[] | undefined {
  if (value.length > maxAddresses) {
    return report(10001, pointer, `"edge_ips" may have at most ${maxAddresses} addresses; got ${value.length}`);
  }
  const addresses = value.map((entry, index) => {
    if (typeof entry === 'string' && canonicalAddress(entry) !== undefined) return entry;
    return report(10001, `${pointer}/${index}`, `an edge IP must be an IPv4 or IPv6 address; got ${got(entry)}`);
  });
  const known = addresses.filter((address) => address !== undefined);
  return known.length === addresses.length ? known : undefined;
}

function staticEdge(ips: readonly string[]): Claims['edge'] {
  return { kind: 'static', ips: [...new Set(ips.map((ip) => canonicalAddress(ip) ?? ip))] };
}

/** The mapping form. A member of the other type (left over by a PATCH that changes the type) is like an unknown one. */
function readEdgeObject(value: JsonObject, reading: Reading): EdgeRead | undefined {
  const { isPartial, report } = reading;
  const type = member(value, 'type');
  if (type === 'static') {
    const ips = member(value, 'ips');
    if (isPartial && ips === undefined) return undefined;
    if (!Array.isArray(ips) || ips.length === 0) {
      return report(10001, '/edge_ips/ips', `"edge_ips.ips" must be an array of edge IPs; got ${got(ips)}`);
    }
    const known = readAddresses(ips, '/edge_ips/ips', reading);
    return known && { edge: staticEdge(known), form: { type, ips: known } };
  }
  if (type !== 'dynamic') {
    if (isPartial && type === undefined) return undefined;
    return report(10001, '/edge_ips/type', `"edge_ips.type" must be static or dynamic; got ${got(type)}`);
  }
  const connectivity = member(value, 'connectivity');
  const known = (['all', 'ipv4', 'ipv6'] as const).find((one) => one === connectivity);
  if (connectivity !== undefined && !known) {
    const text = `"edge_ips.connectivity" must be all, ipv4 or ipv6; got ${got(connectivity)}`;
    return report(10001, '/edge_ips/connectivity', text);
  }
  const kind = known === 'ipv6' ? 'ipv6' : 'ipv4';
  return { edge: { kind }, form: { type, ...(known ? { connectivity: known } : {}) } };
}

/** D81: an array or a mapping; an empty array is dynamic. */
function readEdgeIps(value: unknown, reading: Reading): EdgeRead | undefined {
  if (isJsonObject(value)) return readEdgeObject(value, reading);
  if (!Array.isArray(value)) {
    return reading.report(10001, '/edge_ips', `"edge_ips" must be an array or an object; got ${got(value)}`);
  }
  const ips = readAddresses(value, '/edge_ips', reading);
  return ips && { edge: ips.length === 0 ? { kind: 'ipv4' } : staticEdge(ips), form: ips };
}

function readBoolean(name: FieldName, value: unknown, { report }: Reading): boolean | undefined {
  if (value === undefined || typeof value === 'boolean') return value;
  return report(10001, `/${name}`, `"${name}" must be true or false; got ${got(value)}`);
}

function readChoice<const Choice extends string>(
  name: FieldName,
  { value, choices }: { readonly value: unknown; readonly choices: readonly Choice[] },
  { report }: Reading,
): Choice | undefined {
  const choice = choices.find((one) => one === value);
  if (choice !== undefined || value === undefined) return choice;
  return report(10001, `/${name}`, `"${name}" must be one of ${choices.join(', ')}; got ${got(value)}`);
}

// RFC 9562 §4: the text form, of any version; neither braces nor a urn: prefix.
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

function readUuid(value: unknown, { report }: Reading): string | undefined {
  if (value === undefined || (typeof value === 'string' && uuid.test(value))) return value;
  return report(11045, '/virtual_network_id', `"virtual_network_id" must be a UUID; got ${got(value)}`);
}

/**
 * What D81 leaves open about fields that contradict the transport. Refused, because the data plane could only ignore
 * them: TLS, HTTP and FTP are spoken over TCP, PROXY protocol v1 knows no UDP, and `simple` is made for UDP alone.
 */
function reportTransport(
  fields: Pick<Fields, 'proxy_protocol' | 'tls' | 'traffic_type'>,
  read: Reading & { readonly transport: Protocol['transport'] },
): void {
  const { report, transport } = read;
  const { proxy_protocol: proxyProtocol, tls = 'off', traffic_type: traffic = 'direct' } = fields;
  const needs = (name: FieldName, value: string, wanted: string): undefined =>
    report(10001, `/${name}`, `"${name}" ${quote(value)} needs a ${wanted} protocol`);
  if (transport === 'tcp') {
    if (proxyProtocol === 'simple') needs('proxy_protocol', proxyProtocol, 'UDP');
    return;
  }
  if (proxyProtocol === 'v1') needs('proxy_protocol', proxyProtocol, 'TCP');
  if (tls !== 'off') needs('tls', tls, 'TCP');
  if (traffic !== 'direct') needs('traffic_type', traffic, 'TCP');
}

/**
 * Reads the body of an application, or a stored one merged with a patch. Unknown members are passed over; null is absent.
 * @param isPartial true: what is absent is not missing
 */
export function readApplication(body: JsonObject, isPartial = false): ReadApplication {
  const faults: ReadFault[] = [];
  const reading: Reading = { isPartial, report: (code, pointer, text) => void faults.push({ code, pointer, text }) };
  const value = (name: FieldName): unknown => member(body, name);
  const choice = <const Choice extends string>(name: FieldName, ...choices: readonly Choice[]) =>
    readChoice(name, { value: value(name), choices }, reading);

  const protocol = readProtocol(value('protocol'), reading);
  const dns = readDns(value('dns'), reading);
  const { origins, originCount, texts } = readOriginDirect(value('origin_direct'), reading);
  const { isTypeKnown, ...originDns } = readOriginDns(value('origin_dns'), reading);
  const originPorts = readOriginPort(value('origin_port'), reading);
  const givenEdge = value('edge_ips');
  const edgeRead = givenEdge === undefined ? undefined : readEdgeIps(givenEdge, reading);
  const isEdgeDefault = givenEdge === undefined && !isPartial;
  const later = {
    smart_routing: readBoolean('smart_routing', value('smart_routing'), reading),
    virtual_network_id: readUuid(value('virtual_network_id'), reading),
    ip_firewall: readBoolean('ip_firewall', value('ip_firewall'), reading),
    proxy_protocol: choice('proxy_protocol', 'off', 'v1', 'v2', 'simple'),
    tls: choice('tls', 'off', 'flexible', 'full', 'strict'),
    traffic_type: choice('traffic_type', 'direct', 'http', 'https', 'ftp'),
  };
  if (protocol) reportTransport(later, { ...reading, transport: protocol.transport });
  const protocolText = value('protocol');
  return {
    isPartial,
    given: new Set(fieldNames.filter((name) => value(name) !== undefined)),
    fields: {
      protocol: protocol && typeof protocolText === 'string' ? protocolText : undefined,
      dns: dns.type && dns.name !== undefined ? { type: dns.type, name: dns.name } : undefined,
      origin_direct: texts,
      origin_dns: originDns.name === undefined ? undefined : { ...originDns, name: originDns.name },
      origin_port:
        originPorts &&
        (originPorts.first === originPorts.last ? originPorts.first : `${originPorts.first}-${originPorts.last}`),
      edge_ips: edgeRead?.form,
      ...later,
    },
    protocol,
    dnsType: dns.type,
    hostname: dns.name,
    origins,
    originCount,
    originName: originDns.name,
    originType: isTypeKnown ? (originDns.type ?? '') : undefined,
    originPorts,
    edge: edgeRead?.edge ?? (isEdgeDefault ? { kind: 'ipv4' } : undefined),
    faults,
  };
}

/** The fields of an application that has no faults, without those that are absent; undefined where one is missing. */
export function completeFields({ fields }: ReadApplication): ApplicationFields | undefined {
  const { protocol, dns } = fields;
  if (protocol === undefined || dns === undefined) return undefined;
  const { origin_direct, origin_dns, origin_port, edge_ips, smart_routing, virtual_network_id } = fields;
  const { ip_firewall, proxy_protocol, tls, traffic_type } = fields;
  return {
    protocol,
    dns,
    ...(origin_direct === undefined ? {} : { origin_direct }),
    ...(origin_dns === undefined ? {} : { origin_dns }),
    ...(origin_port === undefined ? {} : { origin_port }),
    ...(edge_ips === undefined ? {} : { edge_ips }),
    ...(smart_routing === undefined ? {} : { smart_routing }),
    ...(virtual_network_id === undefined ? {} : { virtual_network_id }),
    ...(ip_firewall === undefined ? {} : { ip_firewall }),
    ...(proxy_protocol === undefined ? {} : { proxy_protocol }),
    ...(tls === undefined ? {} : { tls }),
    ...(traffic_type === undefined ? {} : { traffic_type }),
  };
}
