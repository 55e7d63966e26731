// Reads the edge IPs that an application asks for: static ones of its own, or dynamic (D81).

import { isRecord, type UnknownRecord } from '../../base/is-record.ts';
import type { ApplicationFields } from '../application/application.ts';
import { canonicalAddress } from '../application/ip-address.ts';
import { got } from '../application/quote.ts';
import type { Claims } from '../store/store.ts';
import { maxAddresses, member, type Reading } from './reading.ts';

/** `edge_ips` that were read. */
export interface ReadEdge {
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
  return { kind: 'static', ips: [...new Set(ips.map((ip) => canonicalAddress(ip) ?? ip))] };
}

/** The mapping form. A member of the other type (left over by a PATCH that changes the type) is like an unknown one. */
function readEdgeObject(value: UnknownRecord, reading: Reading): ReadEdge | undefined {
  const { isPartial, report } = reading;
  const type = member(value, 'type');
  if (type === 'static') {
    const ips = member(value, 'ips');
    if (isPartial && ips === undefined) return undefined;
    if (!Array.isArray(ips) || ips.length === 0) {
      return report(10001, '/edge_ips/ips', `"edge_ips.ips" must be an array of addresses; got ${got(ips)}`);
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
  const form = { type, ...(known ? { connectivity: known } : {}) } as const;
  if (known === 'ipv6') return { edge: { kind: 'ipv6' }, form };
  return { edge: { kind: 'ipv4', ...(known === 'all' ? { andIpv6: true } : {}) }, form };
}

/** Reads `edge_ips`. D81: an array or an object; an empty array is dynamic. */
export function readEdgeIps(value: unknown, reading: Reading): ReadEdge | undefined {
  if (isRecord(value)) return readEdgeObject(value, reading);
  if (!Array.isArray(value)) {
    return reading.report(10001, '/edge_ips', `"edge_ips" must be an array or an object; got ${got(value)}`);
  }
  const ips = readAddresses(value, '/edge_ips', reading);
  return ips && { edge: ips.length === 0 ? { kind: 'ipv4' } : staticEdge(ips), form: ips };
}
