// Reads `proxy.limits` of the configuration for the data plane (D84).

import type { ForwardingPlan } from '../application/application.ts';
import type { ProxyLimits } from '../application/zone.ts';
import type { DataPlaneLimits } from '../traffic/listener.ts';

/** Reads the limits for the data plane: those of an application, of an account, and of the listeners. */
export function readLimits(limits: ProxyLimits) {
  const { applications = {}, accountConnections, accountSessions, accountListeners, ...all } = limits;
  const byId = new Map(Object.entries(applications).map(([id, own]) => [id.toLowerCase(), own]));
  const limitsOf = ({ id, transport }: Pick<ForwardingPlan, 'id' | 'transport'>): Partial<DataPlaneLimits> => {
    const own = { ...all, ...byId.get(id) };
    const open = transport === 'tcp' ? own.connections : own.sessions;
    return {
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
    maxListenersPerAccount: accountListeners,
  };
}
