// Delivery while routes change: the old one finishes its attempts; what it has not begun goes back to the spool, where claims guard it.

import { Delivery } from '../../../delivery/delivery.ts';
import type { DeliveryMetrics, DeliveryParts } from '../../../delivery/new-transport.ts';
import { RecipientsInFlight } from '../../../delivery/recipients-in-flight.ts';
import type { DeliverySettings } from '../../../delivery/settings.ts';
import { leaseMilliseconds } from '../../../spool/spool-limits.ts';

/** Delivery whose settings can change while it runs. */
export interface LiveDelivery extends Pick<Delivery, 'deliverNow' | 'start' | 'drain' | 'destinations'> {
  metrics(): LiveMetrics;
  /** Prepares delivery by other settings. @returns a function that makes the change at once; attempts under way go on to their end */
  prepare(settings: DeliverySettings): () => void;
}

type LiveMetrics = Pick<DeliveryMetrics, 'inHand' | 'leftToSpool' | 'active' | 'connections'>;

function sumOf(all: readonly LiveMetrics[]): LiveMetrics {
  const sum = (name: keyof LiveMetrics): number => all.reduce((total, metrics) => total + metrics[name], 0);
  return {
    inHand: sum('inHand'),
    leftToSpool: sum('leftToSpool'),
    active: sum('active'),
    connections: sum('connections'),
  };
}

/** Makes the delivery. It delivers nothing before `deliverNow` or `start`. */
export function createLiveDelivery(given: DeliveryParts): LiveDelivery {
  const parts: DeliveryParts = { ...given, inFlight: new RecipientsInFlight() };
  let current = new Delivery(parts);
  /** The counts of the deliveries that have ended. */
  let gone = sumOf([]);
  const ending = new Set<Delivery>();

  async function end(before: Delivery): Promise<void> {
    ending.add(before);
    try {
      // No attempt lasts longer than its claim, so within this time each ends by itself.
      await before.drain(leaseMilliseconds);
      gone = sumOf([gone, before.metrics()]);
    } catch (error) {
      parts.log.error({ err: error }, 'delivery by the routes before could not be ended');
    }
    ending.delete(before);
  }

  return {
    deliverNow: (entry) => current.deliverNow(entry),
    start: (options) => current.start(options),
    prepare(settings) {
      const next = new Delivery({ ...parts, settings });
      return () => {
        const before = current;
        current = next;
        next.start({ takesOver: false }).catch((error: unknown) => {
          parts.log.error({ err: error }, 'delivery could not be started');
        });
        void end(before);
      };
    },
    async drain(withinMs) {
      await Promise.all([current, ...ending].map((one) => one.drain(withinMs)));
    },
    destinations: () => [current, ...ending].flatMap((one) => one.destinations()),
    metrics: () => sumOf([gone, current.metrics(), ...[...ending].map((one) => one.metrics())]),
  };
}
