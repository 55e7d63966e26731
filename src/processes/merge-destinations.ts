// Adds up how several processes serve the same next hop.

import type { DestinationView } from '../deliver/transport.ts';

function merged(one: DestinationView, other: DestinationView): DestinationView {
  // The trouble of whoever waits longest, and what was said to it.
  const [worse, better] = (other.trouble && !one.trouble) || other.waitMs > one.waitMs ? [other, one] : [one, other];
  const { trouble, waits = better.waits, lastWords = better.lastWords } = worse;
  return {
    key: one.key,
    label: one.label,
    route: one.route,
    domains: [...new Set([...one.domains, ...other.domains])],
    connections: one.connections + other.connections,
    allowed: one.allowed + other.allowed,
    most: one.most + other.most,
    waiting: one.waiting + other.waiting,
    active: one.active + other.active,
    ...(trouble ? { trouble } : {}),
    ...(waits ? { waits } : {}),
    waitMs: worse.waitMs,
    ...(lastWords ? { lastWords } : {}),
  };
}

/** Gives each next hop once. */
export function mergeDestinations(views: readonly DestinationView[]): readonly DestinationView[] {
  const byKey = new Map<string, DestinationView>();
  for (const view of views) {
    const key = `${view.route} ${view.key}`;
    const known = byKey.get(key);
    byKey.set(key, known ? merged(known, view) : view);
  }
  return [...byKey.values()];
}
