// Reads where an application's traffic goes (`origin_direct`, `origin_dns`, `origin_port`), and its edge IPs (D81, D82).

import { isRecord, type UnknownRecord } from '../../base/is-record.ts';
import type { ApplicationFields, PortRange } from '../application/application.ts';
import { parsePorts } from '../application/port-ranges.ts';
import {
  canonicalAddress,
  canonicalIp,
  got,
  type OriginFlaw,
  type OriginText,
  parseDomainName,
  parseOrigin,
  quote,
} from '../application/texts.ts';
import type { Claims } from '../store/application-writing.ts';

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

/** Origins and static edge IPs of one application at most: each is a listener or a health state of its own. */
export const maxAddresses = 256;

/** What the readers of the fields share. */
export interface Reading {
  readonly isPartial: boolean;
  /** Takes a fault down; gives undefined, to be returned in place of a value. */
  readonly report: (code: ReadFault['code'], pointer: string, text: string) => undefined;
}

/** Takes down that a field is not what it must be. @param name its path: `dns.name` @param must `must be a domain name` */
export function notAs(
  { report }: Reading,
  code: ReadFault['code'],
  name: string,
  must: string,
  value: unknown,
): undefined {
  return report(code, `/${name.replaceAll('.', '/')}`, `"${name}" ${must}; got ${got(value)}`);
}

/** Takes down that a field which must be there is absent, or not what it must be; of a part of a body nothing is missing. */
export function neededAs(
  reading: Reading,
  code: ReadFault['code'],
  name: string,
  must: string,
  value: unknown,
): undefined {
  if (value !== undefined) return notAs(reading, code, name, must, value);
  return reading.isPartial ? undefined : reading.report(code, `/${name.replaceAll('.', '/')}`, `"${name}" is missing`);
}

/** A member of an object's own; null is absent (D82). */
export function member(object: UnknownRecord, name: string): unknown {
  return Object.hasOwn(object, name) ? (object[name] ?? undefined) : undefined;
}

function withoutNulls(object: UnknownRecord): UnknownRecord {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== null));
}

/** Merges a patch (RFC 7396 §2) two levels deep, as deep as fields are, so that no nesting exhausts the stack. @param fields taken over */
export function mergePatch(target: UnknownRecord, patch: UnknownRecord, fields: readonly string[]): UnknownRecord {
  const merged = new Map(Object.entries(target));
  for (const name of fields) {
    if (!Object.hasOwn(patch, name)) continue;
    const value = patch[name];
    const before = merged.get(name);
    if (value === null) merged.delete(name);
    else if (!isRecord(value)) merged.set(name, value);
    // RFC 7396 §2: what is no object is replaced by an object before it is merged into.
    else merged.set(name, withoutNulls({ ...(isRecord(before) ? before : {}), ...value }));
  }
  return Object.fromEntries(merged);
}

const flawTexts = {
  scheme: 'does not begin with "tcp://" or "udp://"',
  brackets: 'has an IPv6 address without brackets',
  'bracketed-ipv4': 'has brackets around an IPv4 address',
  address: 'has no IP address behind its scheme',
  port: 'does not end in a port or an ascending range of ports, 1-65535',
} as const satisfies Record<OriginFlaw, string>;

/** An entry of `origin_direct` that was read. */
export interface ReadOrigin extends OriginText {
  readonly text: string;
  readonly pointer: string;
}

/**
 * Reads `origin_direct`: 10001 for another type, 11000 for none, 11002 for each entry that cannot be read (D82).
 * @returns the readable entries, the number of all, and the readable ones as they were given; no `texts` where there is no array
 */
export function readOriginDirect(value: unknown, reading: Reading) {
  const { report } = reading;
  const none = { origins: [] as readonly ReadOrigin[], originCount: 0, texts: undefined };
  if (value === undefined) return none;
  if (!Array.isArray(value)) {
    notAs(reading, 10001, 'origin_direct', 'must be an array of texts', value);
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
    if (typeof read === 'object') return [{ ...read, text, pointer }];
    report(11002, pointer, `origin ${quote(text)} ${flawTexts[read]}`);
    return [];
  });
  return { origins, originCount: entries.length, texts: origins.map(({ text }) => text) };
}

/** D81: seconds that an answer about an origin may be kept. */
const originTtl = { min: 600, max: 86_400 } as const;

const originTypes = ['', 'A', 'AAAA', 'SRV'] as const;

type OriginDns = NonNullable<ApplicationFields['origin_dns']>;

/** Reads `origin_dns`; every fault of a member is 11001 (D82). `isTypeKnown` is true for an absent type, too. */
export function readOriginDns(
  value: unknown,
  reading: Reading,
): Partial<OriginDns> & { readonly isTypeKnown: boolean } {
  if (value === undefined) return { isTypeKnown: false };
  if (!isRecord(value)) {
    notAs(reading, 10001, 'origin_dns', 'must be an object with "name"', value);
    return { isTypeKnown: false };
  }
  const givenName = member(value, 'name');
  const name = typeof givenName === 'string' ? parseDomainName(givenName) : undefined;
  if (name === undefined) neededAs(reading, 11001, 'origin_dns.name', 'must be a domain name', givenName);
  const givenType = member(value, 'type');
  const type = originTypes.find((known) => known === givenType);
  const isTypeKnown = givenType === undefined || type !== undefined;
  if (!isTypeKnown) notAs(reading, 11001, 'origin_dns.type', 'must be "", "A", "AAAA" or "SRV"', givenType);
  const ttl = member(value, 'ttl');
  const { min, max } = originTtl;
  const isTtlKnown = typeof ttl === 'number' && Number.isInteger(ttl) && ttl >= min && ttl <= max;
  if (ttl !== undefined && !isTtlKnown)
    notAs(reading, 11001, 'origin_dns.ttl', `must be ${min} to ${max} whole seconds`, ttl);
  return {
    isTypeKnown,
    ...(name === undefined ? {} : { name }),
    ...(type === undefined ? {} : { type }),
    ...(isTtlKnown ? { ttl } : {}),
  };
}

/** Reads `origin_port`. D81: an integer, or `a-b`; a single port as text is neither. */
export function readOriginPort(value: unknown, reading: Reading): PortRange | undefined {
  if (value === undefined) return undefined;
  const text =
    typeof value === 'number' ? String(value) : typeof value === 'string' && value.includes('-') ? value : '';
  const must = 'must be a whole number or an ascending range such as "1000-2000", of 1-65535';
  return parsePorts(text) ?? notAs(reading, 11000, 'origin_port', must, value);
}

interface ReadEdge {
  /** What it means. */
  readonly edge: Claims['edge'];
  /** The form it was given in, without unknown members (D81). */
  readonly form: NonNullable<ApplicationFields['edge_ips']>;
}

function readAddresses(value: readonly unknown[], pointer: string, { report }: Reading): readonly string[] | undefined {
  if (value.length > maxAddresses) {
    return report(10001, pointer, `"edge_ips" may have at most ${maxAddresses} addresses; got ${value.length}`);
  }
  const addresses = value.map((entry, index) => {
    if (typeof entry === 'string' && canonicalAddress(entry) !== undefined) return entry;
    return report(10001, `${pointer}/${index}`, `"edge_ips" must have IPv4 or IPv6 addresses; got ${got(entry)}`);
  });
  const known = addresses.filter((address) => address !== undefined);
  return known.length === addresses.length ? known : undefined;
}

function staticEdge(ips: readonly string[]): Claims['edge'] {
  return { kind: 'static', ips: [...new Set(ips.map(canonicalIp))] };
}

/** The mapping form. A member of the other type (left over by a PATCH that changes the type) is like an unknown one. */
function readEdgeObject(value: UnknownRecord, reading: Reading): ReadEdge | undefined {
  const { isPartial } = reading;
  const type = member(value, 'type');
  if (type === 'static') {
    const ips = member(value, 'ips');
    if (isPartial && ips === undefined) return undefined;
    if (!Array.isArray(ips) || ips.length === 0) {
      return notAs(reading, 10001, 'edge_ips.ips', 'must be an array of addresses', ips);
    }
    const known = readAddresses(ips, '/edge_ips/ips', reading);
    return known && { edge: staticEdge(known), form: { type, ips: known } };
  }
  if (type !== 'dynamic') {
    if (isPartial && type === undefined) return undefined;
    return notAs(reading, 10001, 'edge_ips.type', 'must be static or dynamic', type);
  }
  const connectivity = member(value, 'connectivity');
  const known = (['all', 'ipv4', 'ipv6'] as const).find((one) => one === connectivity);
  if (connectivity !== undefined && !known) {
    return notAs(reading, 10001, 'edge_ips.connectivity', 'must be all, ipv4 or ipv6', connectivity);
  }
  const form = { type, ...(known ? { connectivity: known } : {}) } as const;
  if (known === 'ipv6') return { edge: { kind: 'ipv6' }, form };
  return { edge: { kind: 'ipv4', ...(known === 'all' ? { andIpv6: true } : {}) }, form };
}

/** Reads `edge_ips`. D81: an array or an object; an empty array is dynamic. */
export function readEdgeIps(value: unknown, reading: Reading): ReadEdge | undefined {
  if (isRecord(value)) return readEdgeObject(value, reading);
  if (!Array.isArray(value)) return notAs(reading, 10001, 'edge_ips', 'must be an array or an object', value);
  const ips = readAddresses(value, '/edge_ips', reading);
  return ips && { edge: ips.length === 0 ? { kind: 'ipv4' } : staticEdge(ips), form: ips };
}
