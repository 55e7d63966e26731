// Which policy of MTA-STS holds for a domain now (RFC 8461 §3.3, §5.1). A policy that was fetched once holds until its max_age
// is over, whatever DNS and the policy host say meanwhile, unless they say that there is a new one.

import type { Clock } from '../../base/clock.ts';
import type { DnsLookup } from '../../base/dns/dns-lookup.ts';
import { FairPlaces } from '../../base/fair-places.ts';
import type { Logger } from '../../base/log.ts';
import { fetchStsPolicy, type StsFetchParts } from './sts-fetch.ts';
import { type StsPolicy, stsId } from './sts-policy.ts';
import type { KeptPolicy, StsStore } from './sts-store.ts';
import type { StsFault } from './tls-result.ts';

/** What is found of a policy: it, or why it could not be had. */
export interface StsFinding {
  readonly policy?: StsPolicy;
  readonly fault?: StsFault;
}

/** Finds policies. */
export interface StsPolicies {
  /**
   * The policy of a domain, or why none could be had; neither where it has none.
   * @param account who asks: accounts have shares of the fetches that are made at the same time
   * @throws Unavailable where the database cannot be read: it is not known then whether the domain is protected
   */
  find(domain: string, account: string): Promise<StsFinding>;
}

/** What finding needs. */
export interface StsPoliciesParts extends StsFetchParts {
  readonly store: StsStore;
  readonly lookup: DnsLookup;
  readonly clock: Clock;
  readonly log: Logger;
}

/** RFC 8461 §3.3: after a failed fetch at least five minutes; a policy is fetched anew each day. In milliseconds. */
const fetchAgainAfter = 300_000;
const refreshAfter = 86_400_000;
/** Fetches under way at the same time, and failures that are remembered. */
const mostAtOnce = 100;
const mostFailures = 10_000;

/** A policy that is wanted. */
interface Wanted {
  readonly domain: string;
  readonly id: string;
  readonly account: string;
}

/** Makes the finder. */
export function createStsPolicies(parts: StsPoliciesParts): StsPolicies {
  return new Policies(parts);
}

class Policies implements StsPolicies {
  readonly #parts: StsPoliciesParts;
  readonly #fetching = new Map<string, Promise<StsPolicy | StsFault>>();
  readonly #places = new FairPlaces(mostAtOnce);
  /** By domain and id: why a policy could not be had, and before which moment of the monotonic clock it is not fetched again. */
  readonly #failed = new Map<string, { readonly fault: StsFault; readonly until: number }>();

  constructor(parts: StsPoliciesParts) {
    this.#parts = parts;
  }

  async find(domain: string, account: string): Promise<StsFinding> {
    const lookup = this.#parts.lookup.askedBy(account);
    const [known, texts] = await Promise.all([this.#kept(domain), lookup.find(`_mta-sts.${domain}`, 'TXT')]);
    const id = texts.kind === 'found' ? stsId(texts.records) : undefined;
    // RFC 8461 §5.1: without a TXT record the policy that is known holds on; else anybody who can silence DNS could end it.
    const { policy } = known ?? {};
    if (id === undefined) return policy ? { policy } : {};
    if (known?.policy.id === id) {
      if (this.#age(known) >= refreshAfter) void this.#fetch({ domain, id, account });
      return { policy: known.policy };
    }
    const fetched = await this.#fetch({ domain, id, account });
    if (!('failure' in fetched)) return { policy: fetched };
    return policy ? { policy } : { fault: fetched };
  }

  /** The policy that is kept, while it holds. */
  async #kept(domain: string): Promise<KeptPolicy | undefined> {
    const kept = await this.#parts.store.get(domain);
    return kept && this.#holds(kept) ? kept : undefined;
  }

  #age({ fetchedAt }: KeptPolicy): number {
    return this.#parts.clock.now() - fetchedAt;
  }

  /** Whether a policy's time is not over. Where the clock was set back, it holds from now on no longer than it would anyway. */
  #holds(kept: KeptPolicy): boolean {
    return this.#age(kept) < kept.policy.maxAge * 1000;
  }

  async #fetch(wanted: Wanted): Promise<StsPolicy | StsFault> {
    const key = `${wanted.domain} ${wanted.id}`;
    const failed = this.#failureOf(key);
    if (failed) return failed;
    // All wait for a place, since mail that goes without the policy of its domain is what a policy is made against.
    const leave = await this.#places.take(wanted.account);
    try {
      const under = this.#fetching.get(key);
      if (under) return await under;
      const failedNow = this.#failureOf(key);
      if (failedNow) return failedNow;
      const fetching = this.#fetchAndKeep(wanted, key).finally(() => this.#fetching.delete(key));
      this.#fetching.set(key, fetching);
      return await fetching;
    } finally {
      leave();
    }
  }

  #failureOf(key: string): StsFault | undefined {
    const failed = this.#failed.get(key);
    return failed && failed.until > this.#parts.clock.monotonic() ? failed.fault : undefined;
  }

  async #fetchAndKeep({ domain, id, account }: Wanted, key: string): Promise<StsPolicy | StsFault> {
    const { store, clock, log } = this.#parts;
    // Another account may have fetched it while this one waited for its place.
    const known = await this.#kept(domain).catch(() => undefined);
    if (known?.policy.id === id && this.#age(known) < refreshAfter) return known.policy;
    const lookup = this.#parts.lookup.askedBy(account);
    const policy = await fetchStsPolicy(domain, id, { ...this.#parts, lookup });
    if ('failure' in policy) {
      log.warn({ domain, reason: policy.why }, 'an MTA-STS policy cannot be fetched');
      this.#failed.set(key, { fault: policy, until: clock.monotonic() + fetchAgainAfter });
      const [oldest] = this.#failed.keys();
      if (this.#failed.size > mostFailures && oldest !== undefined) this.#failed.delete(oldest);
      return policy;
    }
    this.#failed.delete(key);
    try {
      await store.put(domain, { policy, fetchedAt: clock.now() });
    } catch (error) {
      // It holds for this message all the same, and is fetched again for the next one.
      log.error({ domain, err: error }, 'an MTA-STS policy cannot be kept');
    }
    return policy;
  }
}
