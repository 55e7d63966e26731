// The origins of one application: which a connection may go to, direct ones and those of DNS in turn, the failed ones last (D84, RFC 2782).

import type { Clock, MonotonicClock } from '../../base/clock.ts';
import { isBoundTo, type OwnDoor } from '../../base/net/own-doors.ts';
import { addressTest, reachedAddresses } from '../../base/net/socket-address.ts';
import { oncePer } from '../../base/once-per.ts';
import type { ForwardingPlan, TransportProtocol } from '../application/application.ts';
import { readOriginAllow } from '../application/texts.ts';
import type { ProxySettings } from '../application/zone.ts';
import { createDnsCache, type DnsCache, orderServices, type Resolver } from './dns-cache.ts';

/** One place to connect to. */
export interface OriginAddress {
  /** IPv4, or IPv6 without brackets. */
  readonly address: string;
  readonly port: number;
  /** The name it was found under, for SNI and certificate checks of `tls: full` and `strict`; absent for a direct origin. */
  readonly name?: string;
}

/** Picks origins, remembers which failed. */
export type Origins = ReturnType<typeof createOrigins>;

/** Failures of this machine, which say nothing about the origin; EINVAL: no way there from the source address. */
const ownFailures: ReadonlySet<string> = new Set([
  'EMFILE',
  'ENFILE',
  'EADDRNOTAVAIL',
  'EACCES',
  'EINVAL',
  'EPERM',
  'ENOBUFS',
]);

/** Whether a failure speaks against the origin, so that it is tried last for a while. @param code the system's */
export function isOriginsFault(code: string | undefined): boolean {
  return code === undefined || !ownFailures.has(code);
}

/** Characters of all failures together in a reason. */
const reasonLength = 500;

/** Tells the failures of all origins that were tried, or else why there was none to try. */
export function unreachableReason(failures: readonly string[], why: string | undefined): string {
  const told = failures.length > 0 ? failures.join('; ') : (why ?? 'there is no origin');
  return `no origin could be reached: ${told}`.slice(0, reasonLength);
}

/** @returns why a connection of an application may not go to an origin; undefined where it may */
export type RefuseOrigin = (
  origin: OriginAddress,
  plan: Pick<ForwardingPlan, 'id' | 'transport'>,
) => string | undefined;

/**
 * Makes the judge. `originDeny` and the listeners of Postern itself are judged by every address that the origin's may end
 * at (`reachedAddresses`); an application is never its own origin, whatever `originAllow` says.
 * @throws ConfigurationError for a network that is none
 */
export function createOriginGuard(parts: {
  /** The lists; asked with each connection, and may be others then. */
  readonly settings: () => Pick<ProxySettings, 'originDeny' | 'originAllow'>;
  readonly ownDoors: () => readonly OwnDoor[];
  /** Id of the application that listens at an address of this machine; undefined: none. */
  readonly listenerAt: (transport: TransportProtocol, address: string, port: number) => string | undefined;
}): RefuseOrigin {
  const denyOf = oncePer(addressTest);
  const allowanceOf = oncePer(readOriginAllow);
  denyOf(parts.settings().originDeny);
  const refuseAt = (address: string, port: number, { id, transport }: Pick<ForwardingPlan, 'id' | 'transport'>) => {
    const application = parts.listenerAt(transport, address, port);
    if (application === id) return 'the application itself listens there';
    const isDoor = (door: OwnDoor): boolean => door.port === port && isBoundTo(door.host, address);
    const isOwn = application !== undefined || (transport === 'tcp' && parts.ownDoors().some(isDoor));
    if (!isOwn || allowanceOf(parts.settings().originAllow).isAllowed(address, port)) return undefined;
    return 'Postern itself listens there, and proxy.originAllow does not name it';
  };
  return ({ address, port }, plan) => {
    const isDenied = denyOf(parts.settings().originDeny);
    const reached = reachedAddresses(address);
    // What is no address at all would be looked up by name, past the lists.
    if (reached.length === 0 || reached.some(isDenied)) return 'denied by proxy.originDeny';
    for (const one of reached) {
      const refused = refuseAt(one, port, plan);
      if (refused !== undefined) return refused;
    }
    return undefined;
  };
}

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
    failed(origin: OriginAddress): void {
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

interface Source {
  /** Origins before they are put in order by their health. Each group is tried in turn before the next. */
  find(offset: number): Promise<{ readonly groups: readonly (readonly OriginAddress[])[]; readonly why?: string }>;
  /** What is known without looking anything up, for the first edge port. */
  known(): readonly OriginAddress[];
}

function directSource(origins: (ForwardingPlan['origin'] & { readonly kind: 'direct' })['origins']): Source {
  const at = (offset: number): OriginAddress[] =>
    origins.map(({ address, ports }) => ({ address, port: ports.first + offset }));
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
    ports ? [{ address, port: ports.first + offset, name }] : [];
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

function sourceOf(plan: ForwardingPlan, parts: Parameters<typeof createOrigins>[1]): Source {
  if (plan.origin.kind === 'direct') return directSource(plan.origin.origins);
  const cache = createDnsCache({ ...parts, ttlMs: plan.origin.ttlSeconds * 1000 });
  if (plan.origin.type !== 'SRV') return addressSource(plan.origin, cache);
  return serviceSource(plan.origin, cache, parts.random ?? Math.random);
}

function unique(origins: readonly OriginAddress[]): OriginAddress[] {
  return [...new Map(origins.map((origin) => [keyOf(origin), origin])).values()];
}

function healthOf(source: Source, health: ReturnType<typeof createOriginHealth>) {
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
 * @param parts `random`: 0 to less than 1; absent: Math.random
 */
export function createOrigins(
  plan: ForwardingPlan,
  parts: { readonly resolve: Resolver; readonly clock: Clock; readonly random?: () => number },
) {
  const source = sourceOf(plan, parts);
  const health = createOriginHealth(parts.clock);
  let turn = 0;
  return {
    /**
     * The places to try for a connection on an edge port, the best first: healthy ones in turn (SRV: by priority and
     * weight, RFC 2782), then those that failed lately. Empty where no name resolves; the reason is in `why`.
     */
    async candidates(edgePort: number): Promise<{ readonly origins: readonly OriginAddress[]; readonly why?: string }> {
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
    /** An origin took a connection. */
    succeeded: health.succeeded,
    /** An origin refused, timed out, or broke off before its first octet: it is tried last for a while. */
    failed: (origin: OriginAddress) => health.failed(origin),
    /** What is known of each, for the application's `traffic`. */
    health: () => healthOf(source, health),
  };
}
