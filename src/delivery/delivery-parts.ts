// What a delivery is made from, and the numbers that it tells.

import type { Clock } from '../base/clock.ts';
import type { Changes } from '../base/database/database.ts';
import type { Logger } from '../base/log.ts';
import type { SpoolDelivery, SpoolOperators } from '../spool/spool.ts';
import type { HopTrouble } from './hop/hop-health.ts';
import type { HopShares } from './hop/hop-share.ts';
import type { MxFacilities } from './mx/mx-hops.ts';
import type { RecipientsInFlight } from './recipients-in-flight.ts';
import type { DeliverySettings } from './settings.ts';
import type { SmtpTimeouts } from './smtp/smtp-timeouts.ts';

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
