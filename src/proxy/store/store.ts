// What the store of proxy applications takes and gives. A write that loses a race gives what it lost to, and throws nothing (D87).

import type { ApplicationFields, PortRange, StoredApplication, TransportProtocol } from '../application/application.ts';
import type { Protocol } from '../application/application-texts.ts';

/** The most applications of a zone: each change of one has the listeners of all applications reckoned anew. */
export const maxApplications = 10_000;

/** What a write lost to (D87). */
export type StoreConflict =
  /** The pay-as-you-go account has an application of this protocol: 11034. */
  | { readonly kind: 'protocol' }
  /** Another zone holds the hostname: 16001. */
  | { readonly kind: 'hostname' }
  /** Another zone holds these edge IPs: 11033. */
  | { readonly kind: 'edge-ips'; readonly ips: readonly string[] }
  /** Another application has these ports on one of the addresses: 13002. */
  | { readonly kind: 'ports'; readonly ports: readonly PortRange[] }
  /** The zone's IPv4 quota is used up: 12005. */
  | { readonly kind: 'quota' }
  /** The zone has as many applications as it may. */
  | { readonly kind: 'applications' }
  /** The pool has no address left: 12005 as well, whatever the quota. */
  | { readonly kind: 'pool' };

/** What a write needs to know besides the fields; all of it follows from fields and configuration. */
export interface Claims {
  readonly transport: TransportProtocol;
  readonly ports: PortRange;
  /** Canonical protocol that a pay-as-you-go account may have once; absent for other plans. */
  readonly soleProtocol?: string;
  /** `static`: these IPs; `ipv4`: one of the pool, with `andIpv6` the wildcard address beside it; `ipv6`: the wildcard address. */
  readonly edge:
    | { readonly kind: 'static'; readonly ips: readonly string[] }
    | { readonly kind: 'ipv4'; readonly andIpv6?: true }
    | { readonly kind: 'ipv6' };
  /** The zone's. */
  readonly ipv4Quota: number;
  /** CIDR. */
  readonly ipv4Pool: string;
}

/** One write. */
export interface ApplicationWrite {
  /** 32 hex. */
  readonly id: string;
  readonly zone: string;
  readonly account: string;
  readonly fields: ApplicationFields;
  readonly claims: Claims;
  /** Milliseconds since 1970. */
  readonly now: number;
}

/** How a write ended. */
export type Written =
  | { readonly ok: true; readonly application: StoredApplication }
  | { readonly ok: false; readonly conflict: StoreConflict };

/** Which applications of a zone are wanted. */
export interface ApplicationQuery {
  /** From 1. */
  readonly page: number;
  readonly perPage: number;
  readonly order: 'protocol' | 'dns' | 'created_on' | 'modified_on';
  readonly direction: 'asc' | 'desc';
  /** Only those of this hostname; letter case does not matter. */
  readonly hostname?: string | undefined;
  /** Only those of this protocol, as it is. */
  readonly protocol?: Protocol | undefined;
  /** Only those whose id passes. */
  readonly accepts?: ((id: string) => boolean) | undefined;
}

/** Names one state of an application: it changes with every change of the application. */
export type ApplicationMark = Pick<StoredApplication, 'id' | 'zone' | 'createdAt' | 'modifiedAt'>;
