// The part of a configuration that one of several processes has: what bounds memory or descriptors is divided. The limits of a
// next hop are not: the processes lease them from one another (src/deliver/hop/leased-shares.ts).

import { defaultBodyLimit } from '../base/body-budget.ts';
import type { Config } from '../config.ts';
import { defaultConnections } from '../deliver/settings.ts';

/**
 * Gives the configuration of one of `count` processes: each has its part of the memory for messages under way, and of the
 * connections to all next hops together.
 */
export function shareOfConfig(config: Config, count: number): Config {
  const bodies = config.limits.bodiesInFlightBytes ?? defaultBodyLimit();
  const { delivery } = config;
  return {
    ...config,
    limits: { ...config.limits, bodiesInFlightBytes: Math.floor(bodies / count) },
    delivery: { ...delivery, connections: Math.ceil((delivery.connections ?? defaultConnections) / count) },
  };
}
