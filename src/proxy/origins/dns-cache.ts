// Keeps the records of an application's origin for as long as the application says, and beyond it while DNS fails (D81).

import type { MonotonicClock } from '../../base/clock.ts';
import { errorMessage } from '../../base/errors.ts';
import type { DnsAnswer, Resolver } from './resolver.ts';

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
