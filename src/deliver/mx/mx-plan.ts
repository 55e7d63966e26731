// What is known of the way to a domain: its mail exchangers and what is asked of each. Domains with the same exchangers and
// the same demands have the same key, so that they share connections.

import { createHash } from 'node:crypto';
import type { DnsLookup } from '../../base/dns/dns-lookup.ts';
import type { RecipientResult } from '../smtp/smtp-client.ts';
import { findTlsa } from './dane.ts';
import { type Exchanger, type ExchangerSet, type FindParts, findExchangers } from './find-exchangers.ts';
import type { MxSettings } from './settings.ts';
import type { StsPolicies } from './sts-policies.ts';
import type { StsPolicy } from './sts-policy.ts';
import type { MessageTls } from './tls-demand.ts';
import { demandOn, type TlsDemand } from './tls-demand.ts';
import type { StsFault } from './tls-result.ts';

/** A mail exchanger, and what is asked of it. */
export interface PlannedExchanger extends Exchanger {
  readonly demand: TlsDemand;
}

/** The way to a domain. */
export interface MxPlan {
  readonly key: string;
  /** The names of the exchangers, for people. */
  readonly label: string;
  /** In order of preference, not empty. */
  readonly exchangers: readonly PlannedExchanger[];
  readonly sts: StsPolicy | undefined;
  /** Why the policy that the domain says it has could not be had. */
  readonly stsFault: StsFault | undefined;
}

/** What planning needs. */
export interface MxPlanParts extends FindParts {
  readonly route: Pick<MxSettings, 'name' | 'tls' | 'tlsByDomain' | 'port'>;
  /** Absent: the route does not ask for policies. */
  readonly policies: StsPolicies | undefined;
  readonly lookup: DnsLookup;
  /** DANE is used: the resolver validates. */
  readonly usesDane: boolean;
}

/** Names in a label; the rest is counted. */
const namesShown = 4;

function labelOf(route: string, exchangers: readonly Exchanger[]): string {
  const names = exchangers.slice(0, namesShown).map(({ name }) => name);
  const more = exchangers.length - names.length;
  return `${route} (${names.join(', ')}${more > 0 ? `, and ${more} more` : ''})`;
}

/** Names the set of exchangers with what is asked of each; the order of preference does not matter. */
function keyOf(route: string, message: MessageTls | undefined, exchangers: readonly PlannedExchanger[]): string {
  const words = exchangers.map(({ name, demand: { policy, mode, verify, tlsa, forbidden } }) => {
    const pins = tlsa?.map(({ usage, selector, matching, data }) => [usage, selector, matching, data.toString('hex')]);
    return JSON.stringify([name, policy, mode, verify, pins ?? null, forbidden === undefined]);
  });
  // A message with REQUIRETLS looks for a server that offers it, which others need not.
  const digest = createHash('sha256').update([message === 'required' ? 'requiretls' : '', ...words.sort()].join('\n'));
  return `${route}:${digest.digest('hex').slice(0, 16)}`;
}

async function demandsOn(
  domain: string,
  { exchangers, isSecure }: ExchangerSet,
  facts: { readonly message: MessageTls | undefined; readonly sts: StsPolicy | undefined },
  { route, lookup, usesDane }: MxPlanParts,
): Promise<readonly PlannedExchanger[]> {
  const tls = route.tlsByDomain.get(domain) ?? route.tls;
  return await Promise.all(
    exchangers.map(async (exchanger) => {
      // RFC 7672 §2.2.1: without DNSSEC for the MX records anybody could have put in a host with records of its own.
      const asksDane = usesDane && isSecure && facts.message !== 'no';
      const dane = asksDane ? await findTlsa(lookup, exchanger.name, route.port) : ({ kind: 'none' } as const);
      return { ...exchanger, demand: demandOn(exchanger.name, { ...facts, tls, dane, isSecure }) };
    }),
  );
}

/**
 * Plans the way to a domain.
 * @param domain an A-label in lower case, or an address literal
 * @param account who asks
 * @returns the outcome for its recipients where there is no way
 */
export async function planMx(
  domain: string,
  message: MessageTls | undefined,
  shared: MxPlanParts,
  account: string,
): Promise<MxPlan | RecipientResult> {
  const parts = { ...shared, lookup: shared.lookup.askedBy(account) };
  const asksSts = !domain.startsWith('[') && message !== 'no';
  const [set, { policy: sts, fault: stsFault } = {}] = await Promise.all([
    findExchangers(domain, parts),
    asksSts ? parts.policies?.find(domain, account) : undefined,
  ]);
  if ('kind' in set) return set;
  const exchangers = await demandsOn(domain, set, { message, sts }, parts);
  return {
    key: keyOf(parts.route.name, message, exchangers),
    label: labelOf(parts.route.name, exchangers),
    exchangers,
    sts,
    stsFault,
  };
}
