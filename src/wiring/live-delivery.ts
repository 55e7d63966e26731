// Delivery while routes change: a new one takes what comes from now on, and the one before ends what it has begun. What that
// had not begun goes back to the spool, where claims see to it that nobody is sent a message twice.

import { createDelivery, type Delivery, type DeliveryMetrics, type DeliveryParts } from '../deliver/delivery.ts';
import type { DeliverySettings } from '../deliver/settings.ts';
import { leaseMilliseconds } from '../spool/lease.ts';

/** Delivery whose settings can change. */
export interface LiveDelivery extends Delivery {
  /**
   * Gets ready to deliver by other settings.
   * @returns what makes the change, at once: attempts under way go on to their end
   */
  prepare(settings: DeliverySettings): () => void;
}

function sumOf(all: readonly DeliveryMetrics[]): DeliveryMetrics {
  const sum = (name: keyof DeliveryMetrics): number => all.reduce((total, metrics) => total + metrics[name], 0);
  return {
    delivered: sum('delivered'),
    deferred: sum('deferred'),
    failed: sum('failed'),
    inHand: sum('inHand'),
    leftToSpool: sum('leftToSpool'),
    active: sum('active'),
    connections: sum('connections'),
    contentBytes: sum('contentBytes'),
    unrecorded: sum('unrecorded'),
  };
}

/** Makes it; nothing moves before `deliverNow` or `start`. */
export function createLiveDelivery(parts: DeliveryParts): LiveDelivery {
  let current = createDelivery(parts);
  /** What has been counted by those that are gone. */
  let gone = sumOf([]);
  const ending = new Set<Delivery>();

  async function end(before: Delivery): Promise<void> {
    ending.add(before);
    try {
      // No attempt lasts longer than its claim: each comes to its own end.
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
      const next = createDelivery({ ...parts, settings });
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
    metrics: () => sumOf([gone, current.metrics(), ...[...ending].map((one) => one.metrics())]),
  };
}
