// `proxy.limits` of the configuration: what it says for all applications, for one, and for an account (D84).

import type { ForwardingPlan } from './application.ts';
import type { DataPlaneParts } from './data-plane.ts';
import type { DataPlaneLimits } from './listener.ts';

/** Limits of an application; absent ones are those of all applications, or the defaults. */
export interface ApplicationLimits {
  /** Open TCP connections. */
  readonly connections?: number;
  /** Open UDP sessions. */
  readonly sessions?: number;
  /** Open connections or sessions of one client address. */
  readonly perClient?: number;
  /** Until an origin must have accepted and agreed on TLS. */
  readonly connectSeconds?: number;
  /** Silence after which a TCP connection is closed. */
  readonly tcpIdleSeconds?: number;
  /** Silence after which a UDP session is over. */
  readonly udpIdleSeconds?: number;
}

/** `proxy.limits`. */
export interface ProxyLimits extends ApplicationLimits {
  /** Open TCP connections of one account. */
  readonly accountConnections?: number;
  /** Open UDP sessions of one account. */
  readonly accountSessions?: number;
  /** Listening sockets of one account. */
  readonly accountListeners?: number;
  /** By id of the application, over those of all. */
  readonly applications?: Readonly<Record<string, ApplicationLimits>>;
}

/** Reads the limits for the data plane: those of an application, of an account, and of the listeners. */
export function readLimits(
  limits: ProxyLimits,
): Required<Pick<DataPlaneParts, 'limitsOf' | 'accountBounds'>> & Pick<DataPlaneParts, 'maxListenersPerAccount'> {
  const { applications = {}, accountConnections, accountSessions, accountListeners, ...all } = limits;
  const byId = new Map(Object.entries(applications).map(([id, own]) => [id.toLowerCase(), own]));
  const limitsOf = ({ id, transport }: Pick<ForwardingPlan, 'id' | 'transport'>): Partial<DataPlaneLimits> => {
    const own = { ...all, ...byId.get(id) };
    const open = transport === 'tcp' ? own.connections : own.sessions;
    return {
      ...(own.connectSeconds === undefined ? {} : { connectTimeoutMs: own.connectSeconds * 1000 }),
      ...(own.tcpIdleSeconds === undefined ? {} : { tcpIdleMs: own.tcpIdleSeconds * 1000 }),
      ...(own.udpIdleSeconds === undefined ? {} : { udpIdleMs: own.udpIdleSeconds * 1000 }),
      ...(open === undefined ? {} : { openPerApplication: open }),
      ...(own.perClient === undefined ? {} : { openPerClient: own.perClient }),
    };
  };
  return {
    limitsOf,
    accountBounds: {
      ...(accountConnections === undefined ? {} : { accountConnections }),
      ...(accountSessions === undefined ? {} : { accountSessions }),
    },
    ...(accountListeners === undefined ? {} : { maxListenersPerAccount: accountListeners }),
  };
}
