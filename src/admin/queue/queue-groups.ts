// What waits, grouped by where it goes: by route, and by recipient domain where the route leads to several next hops.

import type { DestinationView } from '../../deliver/transport.ts';
import { domainOfTransport, Holds, routeOfTransport } from '../../spool/hold.ts';
import type { WaitingNow } from './queue-lines.ts';

/** A group of recipients. Times are milliseconds since 1970. */
export interface QueueGroup {
  /** Name of the account. */
  readonly account: string;
  readonly route: string;
  /** A recipient domain; absent where all domains of the route wait together. */
  readonly destination?: string;
  /** Recipients that wait, those held among them. */
  readonly depth: number;
  readonly held: number;
  readonly oldestAt: number;
  /** How the next hop is served by this process; absent where it has not met it. */
  readonly hop?: DestinationView;
}

/** The next hops by route, or by route and domain. */
function hopsByPlace(hops: readonly DestinationView[]): ReadonlyMap<string, DestinationView> {
  return new Map(
    hops.flatMap((hop) =>
      hop.domains.length === 0
        ? [[hop.route, hop] as const]
        : hop.domains.map((domain) => [`${hop.route} ${domain}`, hop] as const),
    ),
  );
}

/** Groups what waits, the largest first. @param account only of the account with this name; undefined: of all */
export function queueGroups(
  { lines, holds: rules }: WaitingNow,
  hops: readonly DestinationView[],
  account?: string,
): readonly QueueGroup[] {
  const holds = new Holds(rules);
  const known = hopsByPlace(hops);
  const groups = new Map<string, QueueGroup>();
  for (const line of lines) {
    if (account !== undefined && line.account !== account) continue;
    const isHeld = line.hold !== undefined || holds.ofLine(line) !== undefined;
    const route = routeOfTransport(line.transport);
    const destination = domainOfTransport(line.transport);
    const place = destination === undefined ? route : `${route} ${destination}`;
    const key = `${line.account} ${place}`;
    const before = groups.get(key);
    const hop = known.get(place);
    groups.set(key, {
      account: line.account,
      route,
      ...(destination === undefined ? {} : { destination }),
      depth: (before?.depth ?? 0) + line.recipients,
      held: (before?.held ?? 0) + (isHeld ? line.recipients : 0),
      oldestAt: Math.min(before?.oldestAt ?? line.oldestAcceptedAt, line.oldestAcceptedAt),
      ...(hop ? { hop } : {}),
    });
  }
  return [...groups.values()].toSorted((left, right) => right.depth - left.depth);
}
