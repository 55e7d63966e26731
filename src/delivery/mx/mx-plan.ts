// The way to a domain: its exchangers and what is asked of each. Domains with the same ones have one key, and share connections.

import { createHash } from 'node:crypto';
import { isIP, isIPv4 } from 'node:net';
import type { DnsLookup } from '../../base/dns/dns-lookup.ts';
import type { MxRecord } from '../../base/dns/dns-records.ts';
import type { RecipientResult } from '../smtp/smtp-client.ts';
import type { AddressJudge } from './address-judge.ts';
import type { MxSettings } from './settings.ts';
import type { StsPolicies } from './sts-policies.ts';
import type { StsPolicy } from './sts-policy.ts';
import { demandOn, findTlsa, type MessageTls, type StsFault, type TlsDemand, trustAnchor } from './tls-demand.ts';

// The mail exchangers of a domain, with their addresses (RFC 5321 §5.1, RFC 7505): its MX records, none at all by a null MX,
// the domain itself, or an address literal. What DNS gives is bounded and judged here.

interface Exchanger {
  /** A-label in lower case; the IP address where the recipient's domain is an address literal. */
  readonly name: string;
  /** The lowest is tried first. */
  readonly preference: number;
  /** At most one of each family, or two of one; not empty. */
  readonly addresses: readonly string[];
}

interface ExchangerSet {
  /** Not empty, in order of preference. */
  readonly exchangers: readonly Exchanger[];
  /** A resolver that validates has vouched for their names. */
  readonly isSecure: boolean;
  /** No exchanger has addresses that cannot be looked up for now. */
  readonly isWhole: boolean;
}

/** What finding needs. */
export interface FindParts {
  readonly lookup: DnsLookup;
  readonly judge: AddressJudge;
  readonly port: number;
  /** Our own names: where a domain's MX is one of them, mail would come back to us (RFC 5321 §5.1). */
  readonly ownNames: ReadonlySet<string>;
  /** The address families that may be used, the preferred one first. */
  readonly families: readonly (4 | 6)[];
}

/** Mail exchangers of a domain that are looked at: the best ones. */
const mostExchangers = 20;
/** Addresses of one exchanger that are tried (RFC 5321 §5.1: at least two). */
const mostAddresses = 2;

function failed(code: number, enhanced: string, text: string): RecipientResult {
  return { kind: 'failed', reply: { code, enhanced, text } };
}

function deferred(text: string): RecipientResult {
  return { kind: 'deferred', reply: { code: 451, enhanced: '4.4.3', text } };
}

function loop(domain: string): RecipientResult {
  return failed(554, '5.4.6', `The mail exchanger of ${domain} is this gateway itself: a loop`);
}

/** The best MX records, each host once; those from ourselves on are left out, since they would send the mail back to us. */
function bestOf(records: readonly MxRecord[], ownNames: ReadonlySet<string>): readonly MxRecord[] {
  const best = new Map<string, MxRecord>();
  for (const record of records.toSorted((one, other) => one.preference - other.preference)) {
    if (ownNames.has(record.exchange)) {
      return [...best.values()].filter(({ preference }) => preference < record.preference);
    }
    if (best.size < mostExchangers && !best.has(record.exchange)) best.set(record.exchange, record);
  }
  return [...best.values()];
}

/** The MX records of a domain, or the one that the domain itself stands for; or why there is nothing. */
async function recordsOf(domain: string, { lookup, ownNames }: FindParts) {
  const found = await lookup.find(domain, 'MX');
  if (found.kind === 'failed') return deferred(found.why);
  if (found.kind === 'missing') return failed(550, '5.1.2', `There is no domain ${domain}`);
  const { isSecure } = found;
  // RFC 5321 §5.1: a domain without MX records is its own mail exchanger.
  const given = found.kind === 'found' ? found.records : [{ preference: 0, exchange: domain }];
  const records = bestOf(given, ownNames);
  if (records.length > 0) return { records, isSecure, isImplicit: found.kind === 'none' };
  return loop(domain);
}

/** The addresses of a host that mail may go to, the preferred family first, and the failures on the way. @param host name or address */
async function addressesOf(host: string, { families, lookup, judge, port }: FindParts) {
  const asked = isIP(host) === 0 ? families : [];
  const found = await Promise.all(asked.map((family) => lookup.find(host, family === 4 ? 'A' : 'AAAA')));
  const all = isIP(host) === 0 ? found.flatMap((one) => (one.kind === 'found' ? one.records : [])) : [host];
  const faults = all.map((address) => judge(address, port));
  const good = all.filter((_, at) => faults[at] === undefined);
  const [first = [], second = []] = families.map((family) => good.filter((one) => isIPv4(one) === (family === 4)));
  return {
    addresses: [...first.slice(0, second.length === 0 ? mostAddresses : mostAddresses - 1), ...second].slice(
      0,
      mostAddresses,
    ),
    failures: found.flatMap((one) => (one.kind === 'failed' ? [one.why] : [])),
    faults,
  };
}

type FoundAddresses = Awaited<ReturnType<typeof addressesOf>>;

/** The address family that is not used here, if an exchanger has an address of it: our own setting fails no mail for good. */
async function otherFamily(records: readonly MxRecord[], { lookup, families }: FindParts): Promise<string | undefined> {
  if (families.length > 1) return undefined;
  const [type, name] = families.includes(4) ? (['AAAA', 'IPv6'] as const) : (['A', 'IPv4'] as const);
  const found = await Promise.all(records.map(({ exchange }) => lookup.find(exchange, type)));
  return found.some(({ kind }) => kind === 'found') ? name : undefined;
}

/** The IP address of an address literal; empty where it has none. */
function literalAddress(domain: string): string {
  const [, address = ''] = /^\[(?:ipv6:)?([^\]]*)\]$/i.exec(domain) ?? [];
  return isIP(address) === 0 ? '' : address;
}

/** Why no exchanger can be used. @param isImplicit the domain has no MX records */
function nothingUsable(domain: string, found: readonly FoundAddresses[], isImplicit: boolean): RecipientResult {
  const [why] = found.flatMap(({ failures }) => failures);
  const faults = found.flatMap((one) => one.faults);
  if (why !== undefined) return deferred(why);
  if (faults.includes('own')) return loop(domain);
  if (faults.includes('private') || domain.startsWith('[')) {
    return failed(550, '5.4.4', `The mail exchangers of ${domain} have no address that mail is sent to`);
  }
  if (isImplicit) return failed(550, '5.1.2', `The domain ${domain} has neither a mail exchanger nor an address`);
  return deferred(`The mail exchangers of ${domain} have no address`);
}

/**
 * Finds the mail exchangers of a domain.
 * @param domain an A-label in lower case, or an address literal (RFC 5321 §4.1.3)
 * @returns the exchangers; or the outcome for recipients where there are none: failed for no such domain (5.1.2), a null MX
 *   (5.1.10), a loop (5.4.6) and forbidden addresses (5.4.4), deferred where DNS is out of order (4.4.3)
 */
export async function findExchangers(domain: string, parts: FindParts): Promise<ExchangerSet | RecipientResult> {
  const isLiteral = domain.startsWith('[');
  const own = isLiteral
    ? { records: [{ preference: 0, exchange: literalAddress(domain) }], isSecure: false, isImplicit: false }
    : await recordsOf(domain, parts);
  if ('kind' in own) return own;
  // RFC 7505 §3: a null MX says that the domain takes no mail. Beside other records it is a mistake, and they count.
  const records = own.records.filter(({ exchange }) => exchange !== '.');
  if (records.length === 0) return failed(556, '5.1.10', `The domain ${domain} takes no mail (null MX)`);
  const found = await Promise.all(records.map(({ exchange }) => addressesOf(exchange, parts)));
  const exchangers = records.flatMap(({ exchange: name, preference }, at) => {
    const { addresses = [] } = found[at] ?? {};
    return addresses.length > 0 ? [{ name, preference, addresses }] : [];
  });
  const isWhole = found.every(({ failures }) => failures.length === 0);
  if (exchangers.length > 0) return { exchangers, isSecure: own.isSecure, isWhole };
  const other = isLiteral ? undefined : await otherFamily(records, parts);
  if (other !== undefined)
    return deferred(`The mail exchangers of ${domain} have addresses of ${other} alone, which is not sent from here`);
  return nothingUsable(domain, found, own.isImplicit);
}

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
  /** As in an `ExchangerSet`. */
  readonly isWhole: boolean;
  readonly sts: StsPolicy | undefined;
  /** Why the policy that the domain says it has could not be had. */
  readonly stsFault: StsFault | undefined;
}

/** What planning needs. */
export interface MxPlanParts extends FindParts {
  readonly route: Pick<MxSettings, 'name' | 'tls' | 'tlsByDomain' | 'port'>;
  /** Absent: the route does not ask for policies. */
  readonly policies: StsPolicies | undefined;
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
function keyOf(
  [route, domain, message]: readonly [string, string, MessageTls | undefined],
  exchangers: readonly PlannedExchanger[],
): string {
  const words = exchangers.map(({ name, demand: { policy, mode, verify, tlsa, forbidden, isNameTrusted } }) => {
    const pins = tlsa
      ?.map(({ usage, selector, matching, data }) => `${usage} ${selector} ${matching} ${data.toString('hex')}`)
      .sort();
    // By usage 2 a certificate may name the domain in place of the exchanger, and vouches for no other domain (RFC 7672 §3.2).
    if (tlsa?.some(({ usage }) => usage === trustAnchor)) pins?.push(domain);
    // REQUIRETLS leaves by a name that is vouched for alone, whichever domain the connection was opened for (RFC 8689 §4.2.1).
    const isTrusted = message === 'required' && isNameTrusted;
    return JSON.stringify([name, policy, mode, verify, pins ?? null, forbidden === undefined, isTrusted]);
  });
  // A message with REQUIRETLS looks for a server that offers it, which others need not.
  const digest = createHash('sha256').update([message === 'required' ? 'requiretls' : '', ...words.sort()].join('\n'));
  return `${route}:${digest.digest('hex').slice(0, 16)}`;
}

/** Plans the way to a domain. @param domain A-label or address literal @param account who asks @returns else the outcome */
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
  const { route, lookup, usesDane } = parts;
  const { isSecure, isWhole } = set;
  const tls = route.tlsByDomain.get(domain) ?? route.tls;
  // RFC 7672 §2.2.1: without DNSSEC for the MX records anybody could have put in a host with records of its own.
  const asksDane = usesDane && isSecure && message !== 'no';
  const exchangers = await Promise.all(
    set.exchangers.map(async (exchanger) => {
      const dane = asksDane ? await findTlsa(lookup, exchanger.name, route.port) : ({ kind: 'none' } as const);
      return { ...exchanger, demand: demandOn(exchanger.name, { message, sts, tls, dane, isSecure }) };
    }),
  );
  const { name } = route;
  return {
    key: keyOf([name, domain, message], exchangers),
    label: labelOf(name, exchangers),
    exchangers,
    isWhole,
    sts,
    stsFault,
  };
}
