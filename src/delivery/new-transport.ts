// Makes the transport of a route.

import { lazily } from '../base/load/lazily.ts';
import { CaptureTransport } from './capture.ts';
import type { DeliveryParts } from './delivery-parts.ts';
import type { ConnectionBudget } from './hop/connection-budget.ts';
import { wholeShares } from './hop/hop-share.ts';
import { domainLimits, type MxRoute, routeLimits, type SmarthostRoute } from './settings.ts';
import { smarthostHops } from './smarthost.ts';
import type { SmtpTimeouts } from './smtp/smtp-timeouts.ts';
import { SmtpTransport } from './smtp-transport.ts';
import { type TaskHost, TaskQueue } from './task-queue.ts';
import type { NextHops, Transport, TransportEvents } from './transport.ts';
import type { TransportShare } from './transport-share.ts';

/** What transports are made from. */
export interface TransportParts extends Pick<DeliveryParts, 'settings' | 'clock' | 'log' | 'shares' | 'mx'> {
  readonly host: TaskHost;
  readonly events: TransportEvents;
  readonly timeouts: SmtpTimeouts;
  /** A random number from 0 up to, not including, 1. */
  readonly random: () => number;
  /** Bounds the connections of all transports together. */
  readonly budget: ConnectionBudget;
}

function hopsOf(route: SmarthostRoute | MxRoute, parts: TransportParts): NextHops {
  const { hostname, resolver } = parts.settings;
  if (route.type === 'smarthost') return smarthostHops(route, { ...parts, hostname });
  const { mx: facilities } = parts;
  if (!facilities) throw new Error(`Route "${route.name}" goes by MX, and what that needs is not given`);
  // DNS, MTA-STS and DANE come with the first message that leaves by MX.
  const hops = lazily(async () => {
    const { MxHops } = await import('./mx/mx-hops.ts');
    return new MxHops({ ...parts, route, hostname, resolver, facilities });
  });
  return { find: async (domain, tls, account) => await (await hops()).find(domain, tls, account) };
}

/** Makes the transport of a route, which is that of a share. */
export function newTransport(share: TransportShare, parts: TransportParts): Transport {
  const { route } = share;
  if (route.type === 'capture') return new CaptureTransport(route, new TaskQueue(parts.host), parts.events);
  return new SmtpTransport({
    ...{ ...parts, route, hops: hopsOf(route, parts), limits: routeLimits(route) },
    shares: parts.shares ?? wholeShares,
    limitsOf: (domain) => domainLimits(parts.settings, route, domain),
    room: () => share.freeToClaim,
  });
}
