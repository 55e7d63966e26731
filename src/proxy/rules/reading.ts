// What the readers of an application's fields share: names, faults, the limit on lists.

import type { ApplicationFields } from '../application/application.ts';

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
