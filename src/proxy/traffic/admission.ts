// Decides who may open a connection or session: the zone's lists are checked first, then the limits (D81, D84).

import { addressTest } from '../../base/net/address-test.ts';
import { oncePer } from '../../base/once-per.ts';
import type { ForwardingPlan } from '../application/application.ts';
import { noteFor, type PeerContext, type ProxyListenerParts, type RunningApplication } from './listener.ts';
import { descriptorsOf, type OpenBudget } from './open-budget.ts';

type Firewall = ForwardingPlan['firewall'];

/** Says why an address may not connect; undefined where it may. */
type RefuseAddress = (address: string) => string | undefined;

/** Reads the lists of a plan: block wins over allow, an empty allow list allows all. @throws ConfigurationError for what is no network */
export function readFirewall({ block, allow }: Firewall): RefuseAddress {
  const isBlocked = addressTest(block);
  const isAllowed = allow.length === 0 ? () => true : addressTest(allow);
  return (address) => {
    if (isBlocked(address)) return 'blocked by the zone';
    return isAllowed(address) ? undefined : "not on the zone's allow list";
  };
}

// The lists are read once for each plan, not for each connection.
const firewallOf = oncePer(readFirewall);

interface Bound {
  readonly name: 'application' | 'client' | 'account' | 'descriptors';
  /** The scope whose unanswered sessions may make room. */
  readonly scope: string;
  readonly isReached: () => boolean;
  readonly reason: string;
}

/** The scopes in which a session takes room, the names that {@link OpenBudget} keeps it under. */
export function scopesOf({ plan }: RunningApplication, client: string) {
  return {
    all: 'all',
    account: `account ${plan.transport} ${plan.account}`,
    application: `application ${plan.id}`,
    client: `client ${plan.id} ${client}`,
  } as const;
}

function boundsOf(
  application: RunningApplication,
  client: string,
  { limits, budget }: Pick<ProxyListenerParts, 'limits' | 'budget'>,
): readonly Bound[] {
  const { plan, traffic, openByClient } = application;
  const { openPerApplication, openPerClient } = limits(plan);
  const scopes = scopesOf(application, client);
  const account = budget.ofAccount(plan.account, plan.transport);
  return [
    {
      name: 'application',
      scope: scopes.application,
      isReached: () => traffic.open >= openPerApplication,
      reason: `the application has ${openPerApplication} open, its limit`,
    },
    {
      name: 'client',
      scope: scopes.client,
      isReached: () => openByClient.of(client) >= openPerClient,
      reason: `the client has ${openPerClient} open, its limit`,
    },
    {
      name: 'account',
      scope: scopes.account,
      isReached: () => budget.ofAccount(plan.account, plan.transport).open >= account.most,
      reason: `the account has ${account.most} open, its limit`,
    },
    {
      name: 'descriptors',
      scope: scopes.all,
      isReached: () => !budget.hasRoom(descriptorsOf[plan.transport]),
      reason: 'all applications together have as many files open as they may',
    },
  ];
}

function refusalOf(
  application: RunningApplication,
  client: string,
  parts: Pick<ProxyListenerParts, 'limits' | 'budget'>,
): string | undefined {
  const refused = firewallOf(application.plan.firewall)(client);
  if (refused !== undefined) return refused;
  for (const { name, scope, isReached, reason } of boundsOf(application, client, parts)) {
    while (isReached() && parts.budget.evict(scope));
    if (!isReached()) continue;
    parts.budget.refuse(name);
    return reason;
  }
  return undefined;
}

/** Judges a new connection or session, and counts a refusal. At a limit, sessions that no origin has answered make room, the oldest first. */
export function mayEnter(peer: PeerContext): boolean {
  const { application, client, parts } = peer;
  const reason = refusalOf(application, client.address, parts);
  if (reason === undefined) return true;
  application.traffic.refused += 1;
  noteFor(peer)({ kind: 'refused', reason });
  return false;
}

/** Counts a connection or session as open. @returns what counts it as closed; only the first call does */
export function countOpen(
  { plan, traffic, openByClient }: RunningApplication,
  client: string,
  budget: OpenBudget,
): () => void {
  traffic.open += 1;
  traffic.connections += 1;
  openByClient.add(client);
  const close = budget.open(plan.account, plan.transport);
  let isOpen = true;
  return () => {
    if (!isOpen) return;
    isOpen = false;
    close();
    traffic.open -= 1;
    openByClient.add(client, -1);
  };
}
