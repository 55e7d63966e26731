// What the data plane is made from: the configuration's part and this machine's (D84).

import { networkInterfaces } from 'node:os';
import type { Clock } from '../../base/clock.ts';
import type { Logger } from '../../base/log.ts';
import type { OwnDoor } from '../../base/net/own-doors.ts';
import { normalAddress } from '../../base/net/socket-address.ts';
import type { ForwardingPlan } from '../application/application.ts';
import type { ProxyLimits, ProxySettings } from '../application/zone.ts';
import type { Origins } from '../origins/origins.ts';
import {
  type BudgetBounds,
  type DataPlaneLimits,
  descriptorsAllowed,
  descriptorsOf,
  OpenBudget,
  openFilesLimit,
} from '../traffic/listener.ts';
import type { CertificatePair } from '../traffic/tcp-listener.ts';

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
  /** Those of one application. */
  readonly limitsOf: (plan: ForwardingPlan) => DataPlaneLimits;
  /** Files that the process may open (`RLIMIT_NOFILE`). Absent: what the system says. */
  readonly openFiles?: number;
  /** TCP connections and UDP sessions of one account; absent: three quarters of what there is. */
  readonly accountBounds?: { readonly [Name in Exclude<keyof BudgetBounds, 'descriptors'>]?: number | undefined };
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

/** Until an origin must have accepted a connection, and agreed on TLS, in milliseconds. */
const connectTimeoutMs = 10_000;

/** What each application has that the configuration gives nothing else. */
const defaultLimits = {
  connections: 10_000,
  sessions: 10_000,
  perClient: 1000,
  tcpIdleSeconds: 3600,
  udpIdleSeconds: 60,
} as const;

/** Reads `proxy.limits` of the configuration: those of an application, of an account, and of the listeners. */
export function readLimits(limits: ProxyLimits) {
  const { applications = {}, accountConnections, accountSessions, accountListeners, ...all } = limits;
  const byId = new Map(Object.entries(applications).map(([id, own]) => [id.toLowerCase(), own]));
  const limitsOf = ({ id, transport }: Pick<ForwardingPlan, 'id' | 'transport'>): DataPlaneLimits => {
    const own = { ...defaultLimits, ...all, ...byId.get(id) };
    return {
      connectTimeoutMs,
      tcpIdleMs: own.tcpIdleSeconds * 1000,
      udpIdleMs: own.udpIdleSeconds * 1000,
      openPerApplication: transport === 'tcp' ? own.connections : own.sessions,
      openPerClient: own.perClient,
    };
  };
  return { limitsOf, accountBounds: { accountConnections, accountSessions }, maxListenersPerAccount: accountListeners };
}

/** The IPv6 addresses of this machine; without link-local ones, which are only meant together with an interface. */
export function interfaceAddresses(): readonly string[] {
  const entries = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  const found = entries.flatMap(({ family, address, scopeid }) => (family === 'IPv6' && !scopeid ? [address] : []));
  return [...new Set(found.map((address) => normalAddress(address) ?? address))].sort();
}

/** Reckons what may be open from what is configured and, for the rest, from the files that the process may open. */
export function openBounds(
  configured: Pick<DataPlaneParts, 'openFiles' | 'accountBounds' | 'maxListeners' | 'maxListenersPerAccount'>,
) {
  const openFiles = configured.openFiles ?? openFilesLimit();
  const descriptors = descriptorsAllowed(openFiles);
  // What one account may have where nothing is configured: the others find a quarter, whatever it does.
  const share = Math.floor((descriptors * 3) / 4);
  const { accountConnections = Math.floor(share / descriptorsOf.tcp), accountSessions = share } =
    configured.accountBounds ?? {};
  const budget = new OpenBudget({ descriptors, accountConnections, accountSessions });
  // Half of what the process may open, so that connections find descriptors too.
  const maxListeners = configured.maxListeners ?? Math.min(16_384, Math.floor(openFiles / 2), descriptors);
  const maxListenersPerAccount = configured.maxListenersPerAccount ?? Math.ceil(maxListeners / 2);
  return { budget, maxListeners, maxListenersPerAccount };
}
