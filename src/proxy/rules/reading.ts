// What the readers of an application's fields share: names, faults, the limit on lists.

import { isRecord, type UnknownRecord } from '../../base/is-record.ts';
import type { ApplicationFields } from '../application/application.ts';
import { got } from '../application/quote.ts';

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

/**
 * Merges a patch: members put in place, arrays replaced, null removes. RFC 7396 §2 goes on into every depth; no field of
 * an application is deeper than a member of a member, so this stops there, and no nesting can exhaust the stack.
 * @param fields names of the members that are taken over from the patch
 */
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
