// What waits, grouped by where it goes: by route, and by recipient domain where the route leads to several next hops.

import type { MonotonicClock } from '../../../base/clock.ts';
import type { DestinationView } from '../../../delivery/transport.ts';
import { domainOfTransport, type Hold, Holds, routeOfTransport } from '../../../spool/hold.ts';
import type { Spool, WaitingLine } from '../../../spool/spool.ts';

// One reading serves all who ask, the longer the longer it took. The few holds are read each time, so that one shows at once.

/** Lines that are read: those with the most recipients. */
const mostLines = 10_000;
const leastAgeMs = 2000;
/** Reading takes at most this share of the time. */
const share = 50;

/** What waits at a moment. */
export interface WaitingNow {
  readonly lines: readonly WaitingLine[];
  readonly holds: readonly Hold[];
}

/** Gives what waits, a few seconds old at most where little does. @param isAnew it is read now, for an action that says how many */
export type QueueLines = (isAnew?: boolean) => Promise<WaitingNow>;

/** Makes the function that gives what waits. Calls at the same time share one reading. */
export function createQueueLines(spool: Pick<Spool, 'waiting' | 'holds'>, clock: MonotonicClock): QueueLines {
  let kept: { readonly lines: Promise<readonly WaitingLine[]>; until: number } | undefined;

  function read(): Promise<readonly WaitingLine[]> {
    const begunAt = clock.monotonic();
    const reading = { lines: spool.waiting(mostLines), until: Number.POSITIVE_INFINITY };
    kept = reading;
    reading.lines.then(
      () => {
        const endedAt = clock.monotonic();
        reading.until = endedAt + Math.max(leastAgeMs, share * (endedAt - begunAt));
      },
      () => {
        if (kept === reading) kept = undefined;
      },
    );
    return reading.lines;
  }

  return async (isAnew = false) => {
    const lines = kept && !isAnew && clock.monotonic() < kept.until ? kept.lines : read();
    return { lines: await lines, holds: await spool.holds() };
  };
}

/** A group of recipients. Times are milliseconds since 1970. */
export interface QueueGroup {
  readonly account: string;
  readonly route: string;
  /** A recipient domain; absent where all domains of the route wait together. */
  readonly destination?: string | undefined;
  /** Recipients that wait, those held among them. */
  readonly depth: number;
  readonly held: number;
  /** What keeps all of them waiting. */
  readonly hold?: Hold | undefined;
  /** Absent where nothing waits. */
  readonly oldestAt?: number;
  /** How the next hop is served by this process; absent where it has not met it. */
  readonly hop?: DestinationView | undefined;
}

/** The next hops by route where all mail of it goes there, otherwise by route and domain, with a blank between. */
export function hopsByPlace(hops: readonly DestinationView[]): ReadonlyMap<string, DestinationView> {
  return new Map(
    hops.flatMap((hop) =>
      hop.domains.length === 0
        ? [[hop.route, hop] as const]
        : hop.domains.map((domain) => [`${hop.route} ${domain}`, hop] as const),
    ),
  );
}

/** The places that are held as a line, whether anything waits in them or not: who holds one must find it to release it. */
function groupsOnHold(rules: readonly Hold[], account: string | undefined): readonly (readonly [string, QueueGroup])[] {
  return rules.flatMap((hold) => {
    const [, owner = '', route = '', destination] =
      (hold.kind === 'line' && /^(\S+) ([^/]+)(?:\/(.+))?$/.exec(hold.value)) || [];
    if (owner === '' || (account !== undefined && owner !== account)) return [];
    return [[hold.value.replace('/', ' '), { account: owner, route, destination, depth: 0, held: 0, hold }] as const];
  });
}

/** Groups what waits, the largest first, and places on hold where nothing waits. @param account its name; undefined: all */
export function queueGroups(
  { lines, holds: rules }: WaitingNow,
  hops: readonly DestinationView[],
  account?: string,
): readonly QueueGroup[] {
  const holds = new Holds(rules);
  const known = hopsByPlace(hops);
  const groups = new Map(groupsOnHold(rules, account));
  for (const line of lines) {
    if (account !== undefined && line.account !== account) continue;
    const hold = holds.ofLine(line);
    const isHeld = line.hold !== undefined || hold !== undefined;
    const route = routeOfTransport(line.transport);
    const destination = domainOfTransport(line.transport);
    const place = destination === undefined ? route : `${route} ${destination}`;
    const key = `${line.account} ${place}`;
    const before = groups.get(key);
    groups.set(key, {
      ...{ account: line.account, route, destination, hold, hop: known.get(place) },
      depth: (before?.depth ?? 0) + line.recipients,
      held: (before?.held ?? 0) + (isHeld ? line.recipients : 0),
      oldestAt: Math.min(before?.oldestAt ?? line.oldestAcceptedAt, line.oldestAcceptedAt),
    });
  }
  return [...groups.values()].toSorted((left, right) => right.depth - left.depth);
}
