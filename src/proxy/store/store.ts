// Where proxy applications are kept. Whatever two requests could race for is unique in the store (D87). A write that loses the
// race gives a value that says what it lost to, and throws no error.

import type { ApplicationFields, PortRange, StoredApplication, TransportProtocol } from '../application/application.ts';
import type { Protocol } from '../application/protocol.ts';

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
  /**
   * `static`: these IPs; `ipv4`: one address of the pool for the hostname, and with `andIpv6` the wildcard address beside
   * it (`connectivity: all`); `ipv6`: the wildcard address.
   */
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
  readonly hostname?: string;
  /** Only those of this protocol, as it is. */
  readonly protocol?: Protocol;
  /** Only those whose id passes. */
  readonly accepts?: (id: string) => boolean;
}

/** Names one state of an application: it changes with every change of the application. */
export type ApplicationMark = Pick<StoredApplication, 'id' | 'zone' | 'createdAt' | 'modifiedAt'>;

/** What the facts ask the store about others (D86); `except` is the application that is being changed. */
export interface ApplicationFactsSource {
  /** Id of the zone that holds a hostname by an application (16001). `name` is an A-label in lower case. */
  hostnameZone(name: string): Promise<string | undefined>;
  /** Of these IPs, those that another zone's applications use (11033). Spelling does not matter. */
  edgeIpsOfOthers(ips: readonly string[], zone: string): Promise<readonly string[]>;
  /** True if the account has an application of the canonical protocol (11034). */
  hasProtocol(account: string, protocol: string, except?: string): Promise<boolean>;
  /** Hostnames of a zone that hold an IPv4 of the pool, applications other than `except` counting (12005). */
  ipv4Hostnames(zone: string, except?: string): Promise<readonly string[]>;
  /** Ports of a range that another application of any zone has on one of these addresses or hostnames' addresses (13002). */
  takenPorts(
    where: {
      readonly transport: TransportProtocol;
      readonly ports: PortRange;
      readonly zone: string;
      readonly hostname: string;
      readonly edge: Claims['edge'];
    },
    except?: string,
  ): Promise<readonly PortRange[]>;
}

/** The applications of all zones. */
export interface ApplicationStore extends ApplicationFactsSource {
  create(write: ApplicationWrite): Promise<Written>;
  /**
   * Puts new fields in place of an application's; its claims follow. `ifModifiedAt`, where given, must still be the
   * stored one: otherwise `changed`, and the caller judges again.
   */
  replace(
    write: ApplicationWrite,
    ifModifiedAt?: number,
  ): Promise<Written | { readonly ok: false; readonly changed: true } | undefined>;
  /**
   * Removes one and frees what it held. @param ifModifiedAt where given, must be the stored one
   * @returns false where there is none, or it has changed
   */
  remove(zone: string, id: string, ifModifiedAt?: number): Promise<boolean>;
  get(zone: string, id: string): Promise<StoredApplication | undefined>;
  list(
    zone: string,
    query: ApplicationQuery,
  ): Promise<{ readonly applications: readonly StoredApplication[]; readonly total: number }>;
  /** Every application of every zone. */
  all(): Promise<readonly StoredApplication[]>;
  /** The state that each is in, the oldest first: much cheaper than all(). */
  marks(): Promise<readonly ApplicationMark[]>;
  /** Grows with every change of any application, whichever process made it (D94). */
  revision(): Promise<number>;
}
