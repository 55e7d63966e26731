// What a delivery is made from, and the transport of a route.

import type { Clock } from '../base/clock.ts';
import type { Changes } from '../base/database/database.ts';
import { lazily } from '../base/load/lazily.ts';
import type { Logger } from '../base/log.ts';
import type { SpoolDelivery, SpoolOperators } from '../spool/spool.ts';
import { CaptureTransport } from './capture.ts';
import type { ConnectionBudget } from './hop/connection-budget.ts';
import type { HopTrouble } from './hop/hop-health.ts';
import { type HopShares, wholeShares } from './hop/hop-share.ts';
import type { MxFacilities } from './mx/mx-hops.ts';
import type { RecipientsInFlight } from './recipients-in-flight.ts';
import { type DeliverySettings, domainLimits, type MxRoute, routeLimits, type SmarthostRoute } from './settings.ts';
import { smarthostHops } from './smarthost.ts';
import type { SmtpTimeouts } from './smtp/smtp-transaction.ts';
import { SmtpTransport } from './smtp-transport.ts';
import { type TaskHost, TaskQueue } from './task-queue.ts';
import type { NextHops, Transport, TransportEvents } from './transport.ts';
import type { TransportShare } from './transport-share.ts';

/** Numbers for /metrics: counters since the start, and gauges. */
export interface DeliveryMetrics {
  readonly delivered: number;
  readonly deferred: number;
  readonly failed: number;
  /** Messages in hand; one counts once for each transport that it takes. */
  readonly inHand: number;
  /** Accepted messages left to the spool since the start, because the share of their transport was used up. */
  readonly leftToSpool: number;
  /** Transactions and file writes under way. */
  readonly active: number;
  readonly connections: number;
  /** Octets of messages in memory. */
  readonly contentBytes: number;
  /** Outcomes that are not on disk yet. */
  readonly unrecorded: number;
}

/** What delivery is made from. */
export interface DeliveryParts {
  readonly spool: SpoolDelivery & Pick<SpoolOperators, 'holds' | 'show'>;
  readonly settings: DeliverySettings;
  /** Tells of mail that other processes make due, and of holds; absent: they are asked for regularly. */
  readonly changes?: Changes;
  readonly clock: Clock;
  readonly log: Logger;
  /** A random number from 0 up to, not including, 1, for the jitter; absent: Math.random. */
  readonly random?: () => number;
  /** Octets of accepted messages kept in memory until they are delivered; messages beyond are read back from the spool. */
  readonly contentBytes?: number;
  readonly timeouts?: SmtpTimeouts;
  /** The recipients in hand, shared by all deliveries of this process; absent: this is the only one. */
  readonly inFlight?: RecipientsInFlight;
  /** The part of each next hop's limits that this process has, where others deliver mail of the same spool; absent: all. */
  readonly shares?: HopShares;
  /** What routes by MX need; without it there can be none. */
  readonly mx?: MxFacilities;
  /** Called when a next hop of a route is given less. */
  readonly onTrouble?: (route: string, trouble: HopTrouble) => void;
}

/** What transports are made from. */
interface TransportParts extends Pick<DeliveryParts, 'settings' | 'clock' | 'log' | 'shares' | 'mx'> {
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
  if (route.type === 'capture') return new CaptureTransport({ ...parts, route, queue: new TaskQueue(parts.host) });
  return new SmtpTransport({
    ...{ ...parts, route, hops: hopsOf(route, parts), limits: routeLimits(route) },
    shares: parts.shares ?? wholeShares,
    limitsOf: (domain) => domainLimits(parts.settings, route, domain),
    room: () => share.freeToClaim,
  });
}
