// What the data plane is made from, and what it tells the API and the metrics (D84).

import type { Clock } from '../../base/clock.ts';
import type { Logger } from '../../base/log.ts';
import type { OwnDoor } from '../../base/net/own-doors.ts';
import type { ApplicationStatus, ConnectionEvent, ForwardingPlan, Traffic } from '../application/application.ts';
import type { ProxySettings } from '../application/zone.ts';
import type { Origins } from '../origins/origin.ts';
import type { CertificatePair } from '../traffic/certificates.ts';
import type { DataPlaneLimits } from '../traffic/listener.ts';
import type { BudgetBounds } from '../traffic/open-budget.ts';

/** What the metrics tell of one application. */
export interface ApplicationReport {
  readonly plan: Pick<ForwardingPlan, 'id' | 'name' | 'transport' | 'ports'>;
  readonly status: ApplicationStatus;
  /** Of the origins that are known now, in all and those whose last connection failed. */
  readonly origins: { readonly known: number; readonly failing: number };
  readonly datagramsDropped: number;
}

/** What an application carries, the latest events first. */
export interface ApplicationTraffic {
  readonly counters: Traffic;
  readonly events: readonly ConnectionEvent[];
  readonly listening: readonly string[];
  readonly origins?: ReturnType<Origins['health']>;
}

/** What of the configuration belongs to no socket. */
export interface DataPlaneConfigured {
  readonly settings: Pick<ProxySettings, 'portOffset' | 'originDeny' | 'originAllow'>;
  /** How long open connections go on after an update or removal, milliseconds. */
  readonly drainMs: number;
}

/** What the data plane is made from. */
export interface DataPlaneParts {
  /** The plans of all stored applications, the oldest first: where sockets run short, the first are served. */
  readonly plans: () => Promise<readonly ForwardingPlan[]>;
  /** Asked whenever it is used: it may be another then, and `reconcile` follows. So are the limits of applications. */
  readonly now: () => DataPlaneConfigured;
  /** The certificate in certs/tls for a name; undefined: none. Asked until there is one, and regularly after that. */
  readonly certificate: (name: string) => CertificatePair | undefined;
  readonly createOrigins: (plan: ForwardingPlan) => Origins;
  readonly clock: Clock;
  readonly log: Logger;
  /** Those of one application, over the defaults. */
  readonly limitsOf?: (plan: ForwardingPlan) => Partial<DataPlaneLimits>;
  /** Files that the process may open (`RLIMIT_NOFILE`). Absent: what the system says. */
  readonly openFiles?: number;
  /** TCP connections and UDP sessions of one account; absent: three quarters of what there is. */
  readonly accountBounds?: Partial<Omit<BudgetBounds, 'descriptors'>>;
  /** The listeners of the gateway itself, asked whenever plans are applied and connections opened. Absent: none. */
  readonly ownDoors?: () => readonly OwnDoor[];
  /** After how many milliseconds what failed is tried again: first, then doubled up to the longest. Absent: 1,000, 30,000. */
  readonly retry?: { readonly firstMs: number; readonly longestMs: number };
  /** The IPv6 addresses of this machine that clients reach it at. Absent: those of its interfaces, link-local ones aside. */
  readonly ipv6Addresses?: () => readonly string[];
  /** How often certificates in use and the machine's addresses are looked at for changes, milliseconds. Absent: 60,000. */
  readonly renewMs?: number;
  /** Listening sockets in all. Absent: half of the files that the process may open, at most 16,384. */
  readonly maxListeners?: number;
  /** Listening sockets of one account. Absent: half of those in all. */
  readonly maxListenersPerAccount?: number | undefined;
}

/** The limits where nothing else is given. */
export const defaultDataPlaneLimits: DataPlaneLimits = {
  connectTimeoutMs: 10_000,
  tcpIdleMs: 3_600_000,
  udpIdleMs: 60_000,
  openPerApplication: 10_000,
  openPerClient: 1000,
};
