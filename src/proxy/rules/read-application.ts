// Reads the body of a proxy application: values, and faults with the code of their row (D81, D82). Knows no zone, account or store.

import { isRecord, type UnknownRecord } from '../../base/is-record.ts';
import type { ApplicationFields, StoredApplication } from '../application/application.ts';
import { formatPorts } from '../application/port-ranges.ts';
import { type Protocol, parseDomainName, parseProtocol, quote } from '../application/texts.ts';
import type { CallerRights, ZoneAndOwner } from '../application/zone.ts';
import {
  type FieldName,
  fieldNames,
  member,
  neededAs,
  notAs,
  type ReadFault,
  type Reading,
  readEdgeIps,
  readOriginDirect,
  readOriginDns,
  readOriginPort,
} from './read-addresses.ts';

type Fields = { readonly [Name in FieldName]: ApplicationFields[Name] | undefined };

/** A body that was read. What is undefined is absent, or has its fault in `faults`. */
export type ReadApplication = Readonly<ReturnType<typeof readApplication>>;

/** What is judged. */
export interface Judged extends ZoneAndOwner {
  readonly application: ReadApplication;
  /** Names of the members of the body as it was sent, null ones left out (10012). */
  readonly sentNames: readonly string[];
  readonly rights: CallerRights;
  readonly stored: StoredApplication | undefined;
}

function readProtocol(value: unknown, reading: Reading): Protocol | undefined {
  const must = 'must be like "tcp/22", "udp/53" or "tcp/1000-2000" (ports 1-65535, ascending), or "ftp"';
  const protocol = typeof value === 'string' ? parseProtocol(value) : undefined;
  return protocol ?? neededAs(reading, 10001, 'protocol', must, value);
}

type DnsType = ApplicationFields['dns']['type'];

function readDns(value: unknown, reading: Reading): { readonly type?: DnsType; readonly name?: string } {
  if (!isRecord(value)) {
    neededAs(reading, 10001, 'dns', 'must be an object with "type" and "name"', value);
    return {};
  }
  const type = member(value, 'type');
  const name = member(value, 'name');
  const isTypeKnown = type === 'CNAME' || type === 'ADDRESS';
  if (!isTypeKnown) neededAs(reading, 11004, 'dns.type', 'must be CNAME or ADDRESS', type);
  const hostname = typeof name === 'string' ? parseDomainName(name) : undefined;
  if (hostname === undefined) neededAs(reading, 10001, 'dns.name', 'must be a domain name', name);
  return { ...(isTypeKnown ? { type } : {}), ...(hostname === undefined ? {} : { name: hostname }) };
}

function readBoolean(name: FieldName, value: unknown, reading: Reading): boolean | undefined {
  if (value === undefined || typeof value === 'boolean') return value;
  return notAs(reading, 10001, name, 'must be true or false', value);
}

// RFC 9562 §4: the text form, of any version; neither braces nor a urn: prefix.
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

function readUuid(name: FieldName, value: unknown, reading: Reading): string | undefined {
  if (value === undefined || (typeof value === 'string' && uuid.test(value))) return value;
  return notAs(reading, 11045, name, 'must be a UUID', value);
}

/** Refuses what contradicts the transport (D81): TLS, HTTP, FTP and PROXY v1 are of TCP, `simple` of UDP alone. */
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
 * Reads a body, or a stored one merged with a patch; null is absent.
 * @param isPartial a PATCH read without the application it is for (the drills of D83): what is absent is not missing
 */
export function readApplication(body: UnknownRecord, isPartial = false) {
  const faults: ReadFault[] = [];
  const reading: Reading = { isPartial, report: (code, pointer, text) => void faults.push({ code, pointer, text }) };
  const value = (name: FieldName): unknown => member(body, name);
  const choice = <const Choice extends string>(name: FieldName, ...choices: readonly Choice[]) => {
    const given = value(name);
    const known = choices.find((one) => one === given);
    if (known !== undefined || given === undefined) return known;
    return notAs(reading, 10001, name, `must be one of ${choices.join(', ')}`, given);
  };

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
    virtual_network_id: readUuid('virtual_network_id', value('virtual_network_id'), reading),
    ip_firewall: readBoolean('ip_firewall', value('ip_firewall'), reading),
    proxy_protocol: choice('proxy_protocol', 'off', 'v1', 'v2', 'simple'),
    tls: choice('tls', 'off', 'flexible', 'full', 'strict'),
    traffic_type: choice('traffic_type', 'direct', 'http', 'https', 'ftp'),
  };
  if (protocol) reportTransport(later, { ...reading, transport: protocol.transport });
  const protocolText = value('protocol');
  return {
    isPartial,
    /** Names of the fields that are there, well formed or not. */
    given: new Set(fieldNames.filter((name) => value(name) !== undefined)) as ReadonlySet<FieldName>,
    /** As they are stored and answered: unknown members gone, domain names in lower case. */
    fields: {
      protocol: protocol && typeof protocolText === 'string' ? protocolText : undefined,
      dns: dns.type && dns.name !== undefined ? { type: dns.type, name: dns.name } : undefined,
      origin_direct: texts,
      origin_dns: originDns.name === undefined ? undefined : { ...originDns, name: originDns.name },
      origin_port:
        originPorts && (originPorts.first === originPorts.last ? originPorts.first : formatPorts(originPorts)),
      edge_ips: edgeRead?.form,
      ...later,
    } satisfies Fields,
    protocol,
    dnsType: dns.type,
    /** A-label, lower case. */
    hostname: dns.name,
    /** The entries of `origin_direct` that could be read, with their place; and how many there are, readable or not. */
    origins,
    originCount,
    originName: originDns.name,
    originType: isTypeKnown ? (originDns.type ?? '') : undefined,
    originPorts,
    edge: edgeRead?.edge ?? (isEdgeDefault ? { kind: 'ipv4' as const } : undefined),
    faults,
  };
}

/** The fields of an application that has no faults, without those that are absent; undefined where one is missing. */
export function completeFields({ fields }: ReadApplication): ApplicationFields | undefined {
  const { protocol, dns } = fields;
  if (protocol === undefined || dns === undefined) return undefined;
  const given = Object.entries(fields).filter(([, value]) => value !== undefined);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the same members, less those that are undefined
  return Object.fromEntries(given) as unknown as ApplicationFields;
}
