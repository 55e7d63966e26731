// Finds the records of origins, configured or in DNS (D84, D99), kept as long as the application says, and while DNS fails (D81).

import { Resolver as DnsResolver } from 'node:dns/promises';
import { isIPv4, isIPv6 } from 'node:net';
import type { MonotonicClock } from '../../base/clock.ts';
import { normalName } from '../../base/dns/dns-records.ts';
import { errorMessage } from '../../base/errors.ts';
import { dnsFailure } from '../../base/net/dns-failure.ts';
import { parentName, parentNames } from '../../base/net/domain-labels.ts';
import type { ProxyZone, RecordSet } from '../application/zone.ts';

/** One SRV record (RFC 2782). */
export interface ServiceRecord {
  readonly priority: number;
  readonly weight: number;
  readonly port: number;
  /** Lower case, without a dot at the end; `.` where the service is decidedly not offered. */
  readonly target: string;
}

/** What a name has: perhaps nothing (`ok`, no record), or it could not be found out. */
type DnsAnswer<R> =
  | { readonly ok: true; readonly records: readonly R[] }
  | { readonly ok: false; readonly why: string };

/** Finds records. Never throws. */
export interface Resolver {
  /** Addresses of a name, CNAMEs followed. `name` is an A-label in lower case. */
  addresses(name: string, type: 'A' | 'AAAA'): Promise<DnsAnswer<string>>;
  /** SRV records of a name, CNAMEs followed. */
  services(name: string): Promise<DnsAnswer<ServiceRecord>>;
}

/** How DNS is asked. */
export interface ResolverDns {
  /** `address` or `address:port`; absent: the machine's own name servers. */
  readonly servers?: readonly string[];
  /** For one look-up, retries and all. */
  readonly withinMs: number;
}

type RecordType = keyof RecordSet;

/** A name of the configuration may stand for another so many times. */
const longestChain = 8;
const mostRecords = 64;

const quoted = (text: string): string => JSON.stringify(text.slice(0, 255));

/** Reads `priority weight port target`; undefined where it is not that. */
function readService(text: string): ServiceRecord | undefined {
  const [priority, weight, port, target, ...more] = text.trim().split(/\s+/);
  const numbers = [priority, weight, port].map((word) => (/^\d{1,5}$/.test(word ?? '') ? Number(word) : Number.NaN));
  if (target === undefined || more.length > 0 || !numbers.every((number) => number <= 65_535)) return undefined;
  return { priority: numbers[0] ?? 0, weight: numbers[1] ?? 0, port: numbers[2] ?? 0, target: normalName(target) };
}

/** Records of the configuration by name and type, and the zones that are answered from them alone. */
function readZones(zones: readonly Pick<ProxyZone, 'name' | 'records'>[]) {
  const served = new Set<string>();
  const records = new Map<string, RecordSet>();
  for (const zone of zones) {
    if (!zone.records) continue;
    const origin = normalName(zone.name);
    served.add(origin);
    for (const [name, set] of Object.entries(zone.records)) {
      records.set(name === '@' ? origin : `${normalName(name)}.${origin}`, set);
    }
  }
  // Names with something below them exist too (RFC 4592 §2.2.2): a wildcard does not stand in for them.
  const existing = new Set<string>();
  for (const name of records.keys()) {
    for (const each of parentNames(name)) existing.add(each);
  }
  const all = new Set(zones.map((zone) => normalName(zone.name)));
  const isServed = (name: string): boolean => {
    // The longest configured zone that the name is in decides.
    const zone = parentNames(name).find((each) => all.has(each));
    return zone !== undefined && served.has(zone);
  };
  const find = (name: string): RecordSet | undefined => {
    if (existing.has(name)) return records.get(name);
    // RFC 4592 §3.3.1: the wildcard right below the closest name that exists.
    const closest = parentNames(parentName(name)).find((each) => existing.has(each) || served.has(each));
    return closest === undefined ? undefined : records.get(`*.${closest}`);
  };
  return { isServed, find };
}

async function askDns(name: string, type: Exclude<RecordType, 'CNAME'>, dns: ResolverDns): Promise<DnsAnswer<string>> {
  const tryMs = Math.max(1, Math.min(2000, Math.ceil(dns.withinMs / 2)));
  const resolver = new DnsResolver({ timeout: tryMs, tries: 2 });
  const timer = setTimeout(() => resolver.cancel(), dns.withinMs);
  try {
    if (dns.servers) resolver.setServers(dns.servers);
    if (type === 'A') return { ok: true, records: await resolver.resolve4(name) };
    if (type === 'AAAA') return { ok: true, records: await resolver.resolve6(name) };
    const services = await resolver.resolveSrv(name);
    return {
      ok: true,
      records: services.map(({ priority, weight, port, name }) => `${priority} ${weight} ${port} ${name || '.'}`),
    };
  } catch (error) {
    const why = dnsFailure(error);
    return why === undefined ? { ok: true, records: [] } : { ok: false, why: `${type} of ${quoted(name)}: ${why}` };
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Makes a resolver. A name under a configured zone that has `records` is answered from them, and has none but these;
 * wildcards count; a CNAME there is followed, out into DNS too, at most 8 times. Every other name is asked of DNS. An answer has at most
 * 64 records; the rest is left out.
 * @throws TypeError where a server is no address
 */
export function createResolver(parts: {
  readonly zones: readonly Pick<ProxyZone, 'name' | 'records'>[];
  readonly dns?: ResolverDns;
}): Resolver {
  const configured = readZones(parts.zones);
  const dns = parts.dns ?? { withinMs: 5000 };
  if (dns.servers) new DnsResolver().setServers(dns.servers);

  async function find(asked: string, type: Exclude<RecordType, 'CNAME'>): Promise<DnsAnswer<string>> {
    let name = normalName(asked);
    for (let steps = 0; steps <= longestChain; steps += 1) {
      if (!configured.isServed(name)) return await askDns(name, type, dns);
      const set = configured.find(name);
      const own = set?.[type];
      if (own && own.length > 0) return { ok: true, records: own };
      const [alias] = set?.CNAME ?? [];
      if (alias === undefined) return { ok: true, records: [] };
      name = normalName(alias);
    }
    return { ok: false, why: `${type} of ${quoted(asked)}: more than ${longestChain} CNAMEs in a row` };
  }

  return {
    async addresses(name, type) {
      const answer = await find(name, type);
      if (!answer.ok) return answer;
      const isRight = type === 'A' ? isIPv4 : isIPv6;
      return { ok: true, records: [...new Set(answer.records.filter(isRight))].slice(0, mostRecords) };
    },
    async services(name) {
      const answer = await find(name, 'SRV');
      if (!answer.ok) return answer;
      const read = answer.records.map(readService).filter((record) => record !== undefined);
      return { ok: true, records: read.slice(0, mostRecords) };
    },
  };
}

/** One record by weight: RFC 2782, a number from 0 to the sum of the weights, the first whose running sum reaches it. */
function pickByWeight(records: readonly ServiceRecord[], random: () => number): number {
  const sum = records.reduce((total, { weight }) => total + weight, 0);
  const drawn = Math.floor(random() * (sum + 1));
  let running = 0;
  return Math.max(
    0,
    records.findIndex(({ weight }) => {
      running += weight;
      return running >= drawn;
    }),
  );
}

/** SRV records in the order to try them: by priority, then at random by weight (RFC 2782); not a target of `.`. @param random 0 to under 1 */
export function orderServices(records: readonly ServiceRecord[], random: () => number): readonly ServiceRecord[] {
  const ordered: ServiceRecord[] = [];
  const offered = records.filter(({ target }) => target !== '.');
  const priorities = [...new Set(offered.map(({ priority }) => priority))].toSorted((left, right) => left - right);
  for (const priority of priorities) {
    const left = offered
      .filter((record) => record.priority === priority)
      .toSorted((one, other) => Math.sign(one.weight) - Math.sign(other.weight));
    while (left.length > 0) {
      for (const picked of left.splice(pickByWeight(left, random), 1)) ordered.push(picked);
    }
  }
  return ordered;
}

/** Records, and what is wrong with them: they are old and DNS fails, or there are none and why. */
interface Kept<R> {
  readonly records: readonly R[];
  readonly why?: string;
}

interface Entry<R> {
  records: readonly R[];
  /** When DNS answered last, milliseconds since 1970; undefined: never. */
  answeredAt?: number;
  /** Why it did not the last time. */
  why?: string;
  /** Not asked again before. */
  askAfter: number;
  pending?: Promise<void>;
}

/** After a failure, or an answer without a record, DNS is asked again after so long. */
const askAgainMs = 5000;

function createTable<R>(
  ask: (name: string) => Promise<DnsAnswer<R>>,
  what: string,
  parts: { readonly clock: MonotonicClock; readonly ttlMs: number },
) {
  const entries = new Map<string, Entry<R>>();
  const { clock, ttlMs } = parts;

  async function refresh(name: string, entry: Entry<R>): Promise<void> {
    const answer = await ask(name).catch((error: unknown) => ({ ok: false as const, why: errorMessage(error) }));
    const now = clock.monotonic();
    delete entry.pending;
    if (!answer.ok) {
      entry.why = answer.why;
      entry.askAfter = now + Math.min(askAgainMs, ttlMs);
      return;
    }
    delete entry.why;
    entry.records = answer.records;
    entry.answeredAt = now;
    entry.askAfter = now + (answer.records.length > 0 ? ttlMs : Math.min(askAgainMs, ttlMs));
  }

  function kept(name: string, entry: Entry<R>): Kept<R> {
    const { records, why, answeredAt } = entry;
    if (why !== undefined && records.length > 0) {
      const seconds = Math.round((clock.monotonic() - (answeredAt ?? 0)) / 1000);
      return { records, why: `${why}; the answer of ${seconds} s ago is used` };
    }
    if (records.length > 0) return { records };
    return { records, why: why ?? `${JSON.stringify(name.slice(0, 255))} has no ${what} record` };
  }

  return {
    /** The records of a name as far as they are known now; looks nothing up. */
    known: (name: string): readonly R[] => entries.get(name)?.records ?? [],
    forget: (isKept: (name: string) => boolean): void => {
      for (const name of entries.keys()) if (!isKept(name)) entries.delete(name);
    },
    async get(name: string): Promise<Kept<R>> {
      const entry = entries.get(name) ?? { records: [], askAfter: 0 };
      entries.set(name, entry);
      const now = clock.monotonic();
      if (now >= entry.askAfter) entry.pending ??= refresh(name, entry);
      // What has just run out is used while it is refreshed; what has not been asked for twice as long is not.
      const isUsable = entry.records.length > 0 && now < (entry.answeredAt ?? 0) + 2 * ttlMs;
      const isKnownToFail = entry.why !== undefined && entry.records.length > 0;
      if (entry.pending && !isUsable && !isKnownToFail) await entry.pending;
      return kept(name, entry);
    },
  };
}

/**
 * Makes the cache. Look-ups of the same records at the same time are one. When the time to live is over, the old
 * records are used while new ones are looked up; after twice that time a caller waits for the new ones. Where DNS fails,
 * the last good answer stays in use, however old, and `why` says so; it is asked again 5 s after a failure, and 5 s
 * after it said that there is no record.
 */
export function createDnsCache(parts: {
  readonly resolve: Resolver;
  readonly clock: MonotonicClock;
  readonly ttlMs: number;
}) {
  const A = createTable((name) => parts.resolve.addresses(name, 'A'), 'A', parts);
  const AAAA = createTable((name) => parts.resolve.addresses(name, 'AAAA'), 'AAAA', parts);
  const SRV = createTable((name) => parts.resolve.services(name), 'SRV', parts);
  return {
    A,
    AAAA,
    SRV,
    /** Forgets the addresses of all names but these. */
    keepOnly(names: ReadonlySet<string>) {
      A.forget((name) => names.has(name));
      AAAA.forget((name) => names.has(name));
    },
  };
}

/** The records of one application's origin. */
export type DnsCache = ReturnType<typeof createDnsCache>;
