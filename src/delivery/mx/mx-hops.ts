// The next hops of a route by MX. What is known of a domain is kept for a short while, besides what DNS itself lets be kept.

import { isIPv4 } from 'node:net';
import { networkInterfaces } from 'node:os';
import type { Clock, MonotonicClock } from '../../base/clock.ts';
import { createDnsLookup } from '../../base/dns/dns-lookup.ts';
import { errorMessage } from '../../base/errors.ts';
import type { Logger } from '../../base/log.ts';
import type { OwnDoor } from '../../base/net/own-doors.ts';
import { Part } from '../../base/part.ts';
import { RecentMap } from '../../base/recent-map.ts';
import type { SmtpReply } from '../../mail/smtp-reply.ts';
import {
  connectSmtp,
  type HopRefusal,
  type NextHop,
  type RecipientResult,
  type SmtpClientOptions,
  type SmtpConnection,
  type TlsFault,
} from '../smtp/smtp-client.ts';
import type { SmtpTimeouts } from '../smtp/smtp-transaction.ts';
import { createAddressJudge } from './address-judge.ts';
import { type MxPlan, type MxPlanParts, type PlannedExchanger, planMx } from './mx-plan.ts';
import type { MxSettings, ResolverSettings } from './settings.ts';
import { StsPolicies } from './sts-policies.ts';
import { isNamedBy, type StsStore } from './sts-policy.ts';
import { clientTls, daneJudge, type MessageTls, type TlsFailure, type TlsResult } from './tls-demand.ts';

/** Addresses that are remembered, and for how long they are tried last, in milliseconds. */
const mostKeptHosts = 10_000;
const lastForMs = 60_000;

/** Notes which addresses of mail exchangers failed a moment ago, so that not every connection waits for them first. */
export function createExchangerHealth(clock: MonotonicClock) {
  const failedUntil = new RecentMap<string, number>(mostKeptHosts);
  return {
    /** Whether the address failed within the last minute. */
    hasFailed: (address: string): boolean => (failedUntil.get(address) ?? 0) > clock.monotonic(),
    tell(address: string, isWell: boolean): void {
      if (isWell) failedUntil.delete(address);
      else failedUntil.set(address, clock.monotonic() + lastForMs);
    },
  };
}

/** What connecting needs. */
export interface ConnectParts {
  readonly route: MxSettings;
  readonly hostname: string;
  readonly timeouts: SmtpTimeouts;
  readonly clock: Clock;
  readonly log: Logger;
  /** A random number from 0 up to, not including, 1. */
  readonly random: () => number;
  readonly health: ReturnType<typeof createExchangerHealth>;
  readonly onTlsResult: (result: TlsResult) => void;
}

/** The way that is to be gone. */
export interface MxWay {
  readonly domain: string;
  readonly plan: MxPlan;
  readonly message: MessageTls | undefined;
  readonly signal: AbortSignal;
}

/** For all exchangers and addresses together, in milliseconds. */
const allWithin = 600_000;

interface Candidate {
  readonly exchanger: PlannedExchanger;
  readonly address: string;
}

type Attempt = { readonly connection: SmtpConnection } | HopRefusal;

/** By preference, at random among equals (RFC 5321 §5.1); addresses that have just failed come last. */
function inOrder({ exchangers }: MxPlan, { random, health }: ConnectParts): readonly Candidate[] {
  const candidates = exchangers
    .map((exchanger) => ({ exchanger, lot: random() }))
    .sort((one, other) => one.exchanger.preference - other.exchanger.preference || one.lot - other.lot)
    .flatMap(({ exchanger }) => exchanger.addresses.map((address) => ({ exchanger, address })));
  const failed = candidates.filter(({ address }) => health.hasFailed(address));
  return failed.length === 0 ? candidates : [...candidates.filter((one) => !failed.includes(one)), ...failed];
}

function clientOptions({ exchanger, address }: Candidate, domain: string, parts: ConnectParts): SmtpClientOptions {
  const { route, timeouts, clock } = parts;
  const from = route.localAddress?.find((one) => isIPv4(one.address) === isIPv4(address));
  return {
    host: exchanger.name,
    address,
    port: route.port,
    ...(from ? { localAddress: from.address } : {}),
    hostname: from?.hostname ?? parts.hostname,
    ...(route.caFile === undefined ? {} : { caFile: route.caFile }),
    ...clientTls(exchanger.demand, (records) => daneJudge(records, [exchanger.name, domain], clock)),
    timeouts,
  };
}

/** Connects to one address; where only TLS fails and nothing asks for it, in the clear. */
async function attempt(candidate: Candidate, { domain, signal }: MxWay, parts: ConnectParts) {
  const { demand, name } = candidate.exchanger;
  if (demand.forbidden !== undefined) {
    const refused = { code: 451, enhanced: '4.7.5', text: `${name}: ${demand.forbidden}` };
    return { result: { refused, said: [] } satisfies Attempt, fault: undefined };
  }
  const options = clientOptions(candidate, domain, parts);
  const first: Attempt = await connectSmtp(options, signal);
  if (!('refused' in first)) return { result: first, fault: undefined };
  const { tlsFault: fault, refused, wasLost } = first;
  if (fault === undefined || demand.mode !== 'opportunistic' || signal.aborted) {
    return { result: first, fault, wasLost, said: refused.text };
  }
  // Unverified TLS is better than none, and none is better than no mail (RFC 7435).
  const { judgePeer: _, ...clear } = { ...options, tls: 'none' as const };
  return { result: await connectSmtp(clear, signal), fault, wasLost, said: refused.text };
}

/** What the policy of the domain says of a connection that was made although it does not enforce. */
function testedFailure(
  { exchanger }: Candidate,
  { plan: { sts } }: MxWay,
  connection: SmtpConnection,
): TlsFailure | undefined {
  const { tls } = connection.session;
  if (tls.version === undefined) return 'starttls-not-supported';
  if (sts === undefined || sts.mode === 'none' || exchanger.demand.policy === 'dane') return undefined;
  if (!isNamedBy(sts, exchanger.name)) return 'validation-failure';
  return tls.verified ? undefined : (connection.session.certificateFault ?? 'certificate-not-trusted');
}

/** Tells how TLS went, and logs where a policy in testing would have stopped the mail. */
function report(
  candidate: Candidate,
  way: MxWay,
  outcome: { readonly result: Attempt; readonly fault: TlsFault | undefined; readonly said?: string | undefined },
  parts: ConnectParts,
): void {
  const { exchanger, address } = candidate;
  const { domain, plan, message } = way;
  // Nobody asked for the policies of such a message's domain (RFC 8689 §5). The reports of TLS are among them (RFC 8460 §3).
  if (message === 'no') return;
  const { result, fault, said } = outcome;
  const { demand } = exchanger;
  const isForbidden = demand.forbidden !== undefined;
  // An attempt that never came to TLS says nothing of it.
  if ('refused' in result && fault === undefined && !isForbidden) return;
  const tested = 'connection' in result ? testedFailure(candidate, way, result.connection) : undefined;
  const forbidden = demand.policy === 'dane' ? ('dnssec-invalid' as const) : ('validation-failure' as const);
  const ofPolicy = demand.policy === 'dane' ? undefined : plan.stsFault;
  const failure = fault ?? (isForbidden ? forbidden : (tested ?? ofPolicy?.failure));
  const reason = said ?? demand.forbidden ?? (failure === ofPolicy?.failure ? ofPolicy?.why : undefined);
  const isSts = plan.sts !== undefined && plan.sts.mode !== 'none';
  parts.onTlsResult({
    domain,
    policy:
      demand.policy === 'dane'
        ? { type: 'tlsa', tlsa: demand.tlsa ?? [] }
        : plan.sts && isSts
          ? { type: 'sts', sts: plan.sts }
          : { type: ofPolicy ? 'sts' : 'no-policy-found' },
    exchanger: exchanger.name,
    address,
    ...('connection' in result ? { localAddress: result.connection.localAddress } : {}),
    ...(failure === undefined ? {} : { failure }),
    ...(failure === undefined || reason === undefined ? {} : { reason }),
  });
  if (failure !== undefined && plan.sts?.mode === 'testing' && demand.policy !== 'dane') {
    const { name: host } = exchanger;
    parts.log.info({ route: parts.route.name, domain, host, failure }, 'an MTA-STS policy in testing is not met');
  }
}

/**
 * Connects to the best mail exchanger.
 * @returns the refusal of the first that was tried where none takes a connection. For a message with REQUIRETLS a server that
 *   offers it is looked for; where each was reached and none does, a connection without it is given, and the message is refused on it
 */
export async function connectToExchangers(given: MxWay, parts: ConnectParts): Promise<SmtpConnection | HopRefusal> {
  const late = new AbortController();
  // AbortSignal.timeout would be kept for the whole time, however soon the attempt is over.
  using _ = setTimeout(() => late.abort(), allWithin);
  const way = { ...given, signal: AbortSignal.any([given.signal, late.signal]) };
  let refused: SmtpReply | undefined;
  const said: SmtpReply[] = [];
  let spare: SmtpConnection | undefined;
  let without = 0;
  const candidates = inOrder(way.plan, parts);
  const faults: TlsFault[] = [];
  for (const candidate of candidates) {
    if (way.signal.aborted) break;
    const outcome = await attempt(candidate, way, parts);
    const { result } = outcome;
    report(candidate, way, outcome, parts);
    if ('refused' in result) {
      // What is forbidden or fails in TLS alone says nothing of the host's health for other domains.
      if (outcome.fault === undefined && candidate.exchanger.demand.forbidden === undefined)
        parts.health.tell(candidate.address, false);
      const { name } = candidate.exchanger;
      refused ??= { ...result.refused, text: `${name}[${candidate.address}]: ${result.refused.text}` };
      said.push(...result.said);
      if (outcome.fault && !outcome.wasLost) faults.push(outcome.fault);
      continue;
    }
    parts.health.tell(candidate.address, true);
    if (way.message !== 'required' || result.connection.session.capabilities.requireTls) {
      spare?.quit();
      return result.connection;
    }
    if (spare) result.connection.quit();
    else spare = result.connection;
    without += 1;
  }
  const isKnown = way.plan.isWhole && faults.length + without === candidates.length;
  if (spare && isKnown) return spare;
  spare?.quit();
  refused ??= { code: 451, enhanced: '4.4.1', text: 'Not every mail exchanger could be tried' };
  const [tlsFault] = faults;
  return { refused, said, ...(tlsFault && isKnown ? { tlsFault } : {}) };
}

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

function planningOf({ route, resolver, clock, log, hostname, facilities }: MxHopsParts): MxPlanParts {
  const lookup = createDnsLookup({ ...resolver, clock });
  const judge = createAddressJudge({ allowPrivate: route.allowPrivate, ownDoors: facilities.ownDoors });
  const { policyPort: port = 443, policyWithinMs: withinMs = policyWithin } = facilities;
  const fetching = { port, withinMs, caFile: route.caFile };
  const policies = new StsPolicies({ ...fetching, store: facilities.stsStore, lookup, judge, clock, log });
  const names = [hostname, ...(route.localAddress ?? []).flatMap((own) => own.hostname ?? [])];
  return {
    ...{ route, port: route.port, lookup, judge, ownNames: new Set(names), families: familiesOf(route) },
    policies: route.mtaSts ? policies : undefined,
    usesDane: resolver?.validates === true,
  };
}

/** The next hops of a route by MX. */
export class MxHops extends Part<MxHopsParts> {
  readonly #planning = planningOf(this.parts);
  readonly #health = createExchangerHealth(this.parts.clock);
  readonly #kept = new RecentMap<string, { readonly plan: Planned; readonly until: number }>(mostKept);
  /** Plans that are being made, for each account of its own: no account waits for the turns of another. */
  readonly #making = new Map<string, Promise<Planned>>();

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
    const { onTlsResult } = this.parts.facilities;
    const parts = { ...this.parts, health: this.#health, onTlsResult };
    return await connectToExchangers({ domain, plan, message: tls, signal }, parts);
  }

  async #plan(wish: Wish): Promise<Planned> {
    const key = `${wish.tls ?? ''} ${wish.domain}`;
    const known = this.#kept.get(key);
    if (known && this.parts.clock.monotonic() < known.until) return known.plan;
    const own = `${key} ${wish.account}`;
    const making = this.#making.get(own) ?? this.#make(wish, key).finally(() => this.#making.delete(own));
    this.#making.set(own, making);
    return await making;
  }

  async #make({ domain, tls, account }: Wish, key: string): Promise<Planned> {
    const began = this.parts.clock.monotonic();
    const plan = await planMx(domain, tls, this.#planning, account).catch((error: unknown): RecipientResult => {
      this.parts.log.error({ route: this.parts.route.name, domain, err: error }, 'Cannot find mail exchangers');
      return { kind: 'deferred', reply: { code: 451, enhanced: '4.3.0', text: errorMessage(error) } };
    });
    this.#kept.set(key, { plan, until: began + keptMs });
    return plan;
  }
}
