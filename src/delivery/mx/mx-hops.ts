// The next hops of a route by MX. What is known of a domain is kept for a short while; DNS itself is kept for longer, by its
// times to live (base/dns).

import { networkInterfaces } from 'node:os';
import { createDnsLookup } from '../../base/dns/dns-lookup.ts';
import { errorMessage } from '../../base/errors.ts';
import type { OwnDoor } from '../../base/net/own-doors.ts';
import { RecentMap } from '../../base/recent-map.ts';
import type { HopRefusal, NextHop, RecipientResult, SmtpConnection } from '../smtp/smtp-client.ts';
import { createAddressJudge } from './address-judge.ts';
import { type ConnectParts, connectToExchangers, createExchangerHealth } from './connect-to-exchangers.ts';
import { type MxPlan, type MxPlanParts, planMx } from './mx-plan.ts';
import type { MxSettings, ResolverSettings } from './settings.ts';
import { StsPolicies } from './sts-policies.ts';
import type { StsStore } from './sts-policy.ts';
import type { MessageTls, TlsResult } from './tls-demand.ts';

/** What routes by MX share with one another, and keep when the settings change. */
export interface MxFacilities {
  readonly stsStore: StsStore;
  /** Postern's own listeners, to which no mail is sent. */
  readonly ownDoors: () => readonly OwnDoor[];
  /** Is told how the TLS of each attempt went. */
  readonly onTlsResult: (result: TlsResult) => void;
  /** The port of policy hosts; absent: 443, the only one that RFC 8461 knows. */
  readonly policyPort?: number;
  /** For the fetch of a policy, in milliseconds; mail to the domain waits for it. Absent: 20,000. */
  readonly policyWithinMs?: number;
}

/** What the next hops are made from. */
export interface MxHopsParts extends Omit<ConnectParts, 'health' | 'onTlsResult'> {
  readonly resolver: ResolverSettings | undefined;
  readonly facilities: MxFacilities;
}

/** Plans that are kept, and for how long, in milliseconds. */
const mostKept = 10_000;
const keptMs = 30_000;
const policyWithin = 20_000;

/** Whether this machine has an IPv6 address that the Internet reaches. */
function hasIpv6(): boolean {
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  return all.some(({ family, internal, address }) => family === 'IPv6' && !internal && !address.startsWith('fe80:'));
}

/** The address families of a route: those it has addresses of, or those of the machine; IPv6 first (RFC 6724 §2.1). */
function familiesOf({ localAddress = [], allowPrivate }: MxSettings): readonly (4 | 6)[] {
  const has = (family: 4 | 6): boolean => localAddress.some(({ address }) => address.includes(':') === (family === 6));
  if (localAddress.length > 0) return ([6, 4] as const).filter(has);
  return hasIpv6() || allowPrivate.some((network) => network.includes(':')) ? [6, 4] : [4];
}

type Planned = MxPlan | RecipientResult;

interface Wish {
  readonly domain: string;
  readonly tls: MessageTls | undefined;
  readonly account: string;
}

/** The next hops of a route by MX. */
export class MxHops {
  readonly #parts: MxHopsParts;
  readonly #planning: MxPlanParts;
  readonly #health;
  readonly #kept = new RecentMap<string, { readonly plan: Planned; readonly until: number }>(mostKept);
  /** Plans that are being made, for each account of its own: no account waits for the turns of another. */
  readonly #making = new Map<string, Promise<Planned>>();

  constructor(parts: MxHopsParts) {
    const { route, resolver, clock, log, hostname, facilities } = parts;
    const lookup = createDnsLookup({ ...resolver, clock });
    const judge = createAddressJudge({ allowPrivate: route.allowPrivate, ownDoors: facilities.ownDoors });
    const { policyPort: port = 443, policyWithinMs: withinMs = policyWithin } = facilities;
    const fetching = { port, withinMs, caFile: route.caFile };
    const policies = new StsPolicies({ ...fetching, store: facilities.stsStore, lookup, judge, clock, log });
    const names = [hostname, ...(route.localAddress ?? []).flatMap(({ hostname }) => hostname ?? [])];
    this.#parts = parts;
    this.#health = createExchangerHealth(clock);
    this.#planning = {
      ...{ route, port: route.port, lookup, judge, ownNames: new Set(names), families: familiesOf(route) },
      policies: route.mtaSts ? policies : undefined,
      usesDane: resolver?.validates === true,
    };
  }

  async find(given: string, tls?: MessageTls, account = ''): Promise<NextHop | RecipientResult> {
    const wish = { domain: given.toLowerCase(), tls, account };
    const plan = await this.#plan(wish);
    if ('kind' in plan) return plan;
    const { key, label } = plan;
    return { key, label, connect: (request) => this.#connect(plan, wish, request) };
  }

  async #connect(
    found: MxPlan,
    { tls, account }: Wish,
    { domain, signal }: { readonly domain: string; readonly signal: AbortSignal },
  ): Promise<SmtpConnection | HopRefusal> {
    // A hop may be older than what DNS says now; where the exchangers are still the same, their addresses are looked up anew.
    const now = await this.#plan({ domain: domain.toLowerCase(), tls, account });
    const plan = 'key' in now && now.key === found.key ? now : found;
    const { onTlsResult } = this.#parts.facilities;
    const parts = { ...this.#parts, health: this.#health, onTlsResult };
    return await connectToExchangers({ domain, plan, message: tls, signal }, parts);
  }

  async #plan(wish: Wish): Promise<Planned> {
    const key = `${wish.tls ?? ''} ${wish.domain}`;
    const known = this.#kept.get(key);
    if (known && this.#parts.clock.monotonic() < known.until) return known.plan;
    const own = `${key} ${wish.account}`;
    const making = this.#making.get(own) ?? this.#make(wish, key).finally(() => this.#making.delete(own));
    this.#making.set(own, making);
    return await making;
  }

  async #make({ domain, tls, account }: Wish, key: string): Promise<Planned> {
    const began = this.#parts.clock.monotonic();
    const plan = await planMx(domain, tls, this.#planning, account).catch((error: unknown): RecipientResult => {
      this.#parts.log.error({ route: this.#parts.route.name, domain, err: error }, 'Cannot find mail exchangers');
      return { kind: 'deferred', reply: { code: 451, enhanced: '4.3.0', text: errorMessage(error) } };
    });
    this.#kept.set(key, { plan, until: began + keptMs });
    return plan;
  }
}
