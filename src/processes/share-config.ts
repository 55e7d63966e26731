// The part of a configuration that one of several processes has: what bounds memory, or what a next hop is given, is divided.

import { defaultBodyLimit } from '../base/body-budget.ts';
import type { Config } from '../config.ts';
import type { HopLimits } from '../deliver/hop/hop-health.ts';
import { type DeliverySettings, defaultConnections, type Route } from '../deliver/settings.ts';

function shareOfLimits(limits: Partial<HopLimits>, count: number): Partial<HopLimits> {
  const { connections, messagesPerSecond } = limits;
  return {
    ...limits,
    ...(connections === undefined ? {} : { connections: Math.ceil(connections / count) }),
    ...(messagesPerSecond === undefined ? {} : { messagesPerSecond: messagesPerSecond / count }),
  };
}

function shareOfRoute(route: Route, count: number): Route {
  if (route.type === 'capture') return route;
  const limits = route.limits && { limits: shareOfLimits(route.limits, count) };
  return { ...route, connections: Math.ceil(route.connections / count), ...limits };
}

function shareOfDelivery(delivery: DeliverySettings, count: number): DeliverySettings {
  const { destinations } = delivery;
  return {
    ...delivery,
    routes: delivery.routes.map((route) => shareOfRoute(route, count)),
    connections: Math.ceil((delivery.connections ?? defaultConnections) / count),
    ...(destinations
      ? { destinations: destinations.map((one) => ({ ...one, limits: shareOfLimits(one.limits, count) })) }
      : {}),
  };
}

/**
 * Gives the configuration of one of `count` processes: each has its part of the memory for messages under way, of the
 * connections to next hops (at least one to each), and of their messages a second.
 */
export function shareOfConfig(config: Config, count: number): Config {
  if (count === 1) return config;
  const bodies = config.limits.bodiesInFlightBytes ?? defaultBodyLimit();
  return {
    ...config,
    limits: { ...config.limits, bodiesInFlightBytes: Math.floor(bodies / count) },
    delivery: shareOfDelivery(config.delivery, count),
  };
}
