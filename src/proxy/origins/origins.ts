// The origins of one application: direct ones and those found in DNS, in turn, the failed ones last (D84, RFC 2782).

import type { Clock, MonotonicClock } from '../../base/clock.ts';
import type { ForwardingPlan, PortRange } from '../application/application.ts';
import { createDnsCache, type DnsCache, orderServices, type Resolver } from './dns-cache.ts';
import type { OriginAddress, Origins } from './origin.ts';

interface Failing {
  readonly origin: OriginAddress;
  failures: number;
  /** Milliseconds. */
  backOff: number;
  /** Until then it is tried last; milliseconds since 1970. */
  until: number;
  /** A connection has been sent to see whether it is back. */
  isProbed: boolean;
}

const firstBackOffMs = 1000;
const longestBackOffMs = 30_000;
/** Of a range of ports each is an origin of its own; beyond this the oldest is forgotten. */
const mostRemembered = 4096;

function keyOf({ address, port }: OriginAddress): string {
  return `${address} ${port}`;
}

/** Makes the memory: an origin that failed is tried last for 1 s, then 2 s, doubling up to 30 s, until it succeeds. */
function createOriginHealth(clock: MonotonicClock) {
  const failing = new Map<string, Failing>();
  return {
    failed(origin: OriginAddress) {
      const now = clock.monotonic();
      const key = keyOf(origin);
      const known = failing.get(key);
      if (!known) {
        const [oldest] = failing.size >= mostRemembered ? failing.keys() : [];
        if (oldest !== undefined) failing.delete(oldest);
        const backOff = firstBackOffMs;
        failing.set(key, { origin, failures: 1, backOff, until: now + backOff, isProbed: false });
        return;
      }
      known.failures += 1;
      // Connections that fail together are one failure: only a later one makes the time longer.
      if (now < known.until && !known.isProbed) return;
      known.backOff = Math.min(known.backOff * 2, longestBackOffMs);
      known.until = now + known.backOff;
      known.isProbed = false;
    },
    succeeded: (origin: OriginAddress) => void failing.delete(keyOf(origin)),
    failures: (origin: OriginAddress) => failing.get(keyOf(origin))?.failures ?? 0,
    /** Healthy ones and those that are due for another try, in their order; then the others, the soonest due first. */
    sort(origins: readonly OriginAddress[], firstOf: (usable: readonly OriginAddress[]) => number) {
      if (failing.size === 0) return rotate(origins, firstOf(origins));
      const now = clock.monotonic();
      const untilOf = (origin: OriginAddress): number => failing.get(keyOf(origin))?.until ?? 0;
      const eligible = origins.filter((origin) => untilOf(origin) <= now);
      const usable = rotate(eligible, firstOf(eligible));
      const first = usable[0] && failing.get(keyOf(usable[0]));
      if (first) {
        // One connection tries it; until that has ended, the others go elsewhere.
        first.isProbed = true;
        first.until = now + first.backOff;
      }
      const isUsable = new Set(eligible);
      const others = origins.filter((origin) => !isUsable.has(origin));
      return [...usable, ...others.toSorted((left, right) => untilOf(left) - untilOf(right))];
    },
    all: () => [...failing.values()].map(({ origin }) => origin),
  };
}

/** The list from one place on, then what stands before it. @param by any whole number from 0 on */
function rotate<T>(list: readonly T[], by: number): T[] {
  const start = list.length === 0 ? 0 : by % list.length;
  return [...list.slice(start), ...list.slice(0, start)];
}

/** What origins need of the world. */
export interface OriginsParts {
  readonly resolve: Resolver;
  readonly clock: Clock;
  /** 0 to less than 1; absent: Math.random. */
  readonly random?: () => number;
}

/** Origins before they are put in order by their health. */
interface Found {
  /** Each group is tried in turn before the next. */
  readonly groups: readonly (readonly OriginAddress[])[];
  readonly why?: string;
}

interface Source {
  find(offset: number): Promise<Found>;
  /** What is known without looking anything up, for the first edge port. */
  known(): readonly OriginAddress[];
}

const portAt = (ports: PortRange, offset: number): number => ports.first + offset;

function directSource(origins: (ForwardingPlan['origin'] & { readonly kind: 'direct' })['origins']): Source {
  const at = (offset: number): OriginAddress[] =>
    origins.map(({ address, ports }) => ({ address, port: portAt(ports, offset) }));
  return { find: async (offset) => ({ groups: [at(offset)] }), known: () => at(0) };
}

type DnsOrigin = ForwardingPlan['origin'] & { readonly kind: 'dns' };

async function addressesOf(cache: DnsCache, name: string, types: readonly ('A' | 'AAAA')[]) {
  const answers = await Promise.all(types.map((type) => cache[type].get(name)));
  const addresses = answers.flatMap(({ records }) => records);
  // A missing address family is a fault only if both are missing.
  const isTold = (answer: (typeof answers)[number]): boolean => addresses.length === 0 || answer.records.length > 0;
  const reasons = answers.filter(isTold).flatMap(({ why }) => why ?? []);
  return { addresses, ...(reasons.length > 0 ? { why: reasons.join('; ') } : {}) };
}

function addressSource({ name, type, ports }: DnsOrigin, cache: DnsCache): Source {
  const types = type === 'A' || type === 'AAAA' ? [type] : (['A', 'AAAA'] as const);
  const at = (address: string, offset: number): OriginAddress[] =>
    ports ? [{ address, port: portAt(ports, offset), name }] : [];
  return {
    async find(offset) {
      const { addresses, why } = await addressesOf(cache, name, types);
      return { groups: [addresses.flatMap((address) => at(address, offset))], ...(why === undefined ? {} : { why }) };
    },
    known: () => types.flatMap((type) => cache[type].known(name)).flatMap((address) => at(address, 0)),
  };
}

function serviceSource({ name }: DnsOrigin, cache: DnsCache, random: () => number): Source {
  const both = ['A', 'AAAA'] as const;
  return {
    async find() {
      const services = await cache.SRV.get(name);
      cache.keepOnly(new Set(services.records.map(({ target }) => target)));
      const ordered = orderServices(services.records, random);
      const resolved = await Promise.all(ordered.map(({ target }) => addressesOf(cache, target, both)));
      // The port is the record's, whichever edge port the client came by (RFC 2782).
      const groups = ordered.map(({ port, target }, index) =>
        (resolved[index]?.addresses ?? []).map((address) => ({ address, port, name: target })),
      );
      const notOffered = services.records.length > 0 && ordered.length === 0;
      const reasons = notOffered
        ? [`SRV of ${JSON.stringify(name)} says that there is no such service`]
        : [services.why, ...resolved.map(({ why }) => why)].filter((why) => why !== undefined);
      return { groups, ...(reasons.length > 0 ? { why: [...new Set(reasons)].join('; ') } : {}) };
    },
    known: () =>
      cache.SRV.known(name).flatMap(({ port, target }) =>
        both.flatMap((type) => cache[type].known(target)).map((address) => ({ address, port, name: target })),
      ),
  };
}

function sourceOf(plan: ForwardingPlan, parts: OriginsParts): Source {
  if (plan.origin.kind === 'direct') return directSource(plan.origin.origins);
  const cache = createDnsCache({ ...parts, ttlMs: plan.origin.ttlSeconds * 1000 });
  if (plan.origin.type !== 'SRV') return addressSource(plan.origin, cache);
  return serviceSource(plan.origin, cache, parts.random ?? Math.random);
}

function unique(origins: readonly OriginAddress[]): OriginAddress[] {
  return [...new Map(origins.map((origin) => [`${origin.address} ${origin.port}`, origin])).values()];
}

function healthOf(source: Source, health: ReturnType<typeof createOriginHealth>): ReturnType<Origins['health']> {
  return unique([...source.known(), ...health.all()]).map((origin) => {
    const failures = health.failures(origin);
    return { origin, healthy: failures === 0, failures };
  });
}

/**
 * Makes the origins of a plan. Direct origins and the addresses of a name are taken in turn, A before AAAA; those of
 * SRV by priority and weight, the addresses of one target in turn. An edge port `first + i` goes to the origin's port
 * `first + i`; SRV names the port itself. An origin that failed comes last for 1 s, doubling up to 30 s; then one
 * connection tries it.
 */
export function createOrigins(plan: ForwardingPlan, parts: OriginsParts): Origins {
  const source = sourceOf(plan, parts);
  const health = createOriginHealth(parts.clock);
  let turn = 0;
  return {
    async candidates(edgePort) {
      const offset = edgePort - plan.ports.first;
      if (offset < 0 || edgePort > plan.ports.last) {
        return { origins: [], why: `port ${edgePort} is none of the application's` };
      }
      const { groups, why } = await source.find(offset);
      const mine = turn;
      turn = (turn + 1) % Number.MAX_SAFE_INTEGER;
      const inTurn = groups.flatMap((group) => (groups.length > 1 ? rotate(group, mine) : group));
      const origins = health.sort(unique(inTurn), (usable) =>
        groups.length > 1 || usable.length === 0 ? 0 : mine % usable.length,
      );
      return { origins, ...(why === undefined ? {} : { why }) };
    },
    succeeded: (origin) => health.succeeded(origin),
    failed: (origin) => health.failed(origin),
    health: () => healthOf(source, health),
  };
}
