// Decides who may open a connection or session: the zone's lists are checked first, then the limits (D81, D84).

import { randomHex } from '../../base/ids.ts';
import { addressTest } from '../../base/net/address-test.ts';
import { hostPort } from '../../base/net/socket-address.ts';
import type { ForwardingPlan } from '../application/application.ts';
import type { ListenAt, ProxyListenerParts, RunningApplication } from './listener.ts';
import { descriptorsOf, type OpenBudget } from './open-budget.ts';
import type { Endpoint } from './proxy-header.ts';

/** Who may connect. */
export interface AddressLists {
  /** Why an address may not; undefined where it may. The block list wins over the allow list. */
  refuses(address: string): 'blocked' | 'not allowed' | undefined;
}

/**
 * Reads the lists of a plan's `firewall`. An empty allow list allows everybody; an address that cannot be read is
 * refused where there is an allow list.
 * @throws ConfigurationError for an entry that is neither an address nor a CIDR
 */
export function createAddressLists(lists: {
  readonly block: readonly string[];
  readonly allow: readonly string[];
}): AddressLists {
  const isBlocked = addressTest(lists.block);
  const isAllowed = lists.allow.length === 0 ? () => true : addressTest(lists.allow);
  return {
    refuses: (address) => (isBlocked(address) ? 'blocked' : isAllowed(address) ? undefined : 'not allowed'),
  };
}

type Firewall = ForwardingPlan['firewall'];

// The lists are read once for each plan, not for each connection.
const known = new WeakMap<Firewall, AddressLists>();

function listsOf(firewall: Firewall): AddressLists {
  const before = known.get(firewall);
  if (before) return before;
  const read = createAddressLists(firewall);
  known.set(firewall, read);
  return read;
}

const refusals = {
  blocked: 'blocked by the zone',
  'not allowed': "not on the zone's allow list",
} as const;

/** One bound that a new connection or session may exceed. */
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
    account: `account ${plan.account}`,
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

/**
 * Judges a new connection or session. The block list wins over the allow list; an empty allow list allows all. Where a
 * limit is reached, UDP sessions that no origin has ever answered make room first, the oldest before the others: who
 * makes up sender addresses takes no place from those that are served.
 * @param client the client's address in its normal form
 * @returns why it is refused, undefined where it may come in
 */
export function refusalOf(
  application: RunningApplication,
  client: string,
  parts: Pick<ProxyListenerParts, 'limits' | 'budget'>,
): string | undefined {
  const refused = listsOf(application.plan.firewall).refuses(client);
  if (refused !== undefined) return refusals[refused];
  for (const { name, scope, isReached, reason } of boundsOf(application, client, parts)) {
    while (isReached() && parts.budget.evict(scope));
    if (!isReached()) continue;
    parts.budget.refuse(name);
    return reason;
  }
  return undefined;
}

/**
 * Counts a connection or session as open.
 * @returns what counts it as closed; only the first call does
 */
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

/** Counts and notes that a connection or session was refused. */
export function noteRefusal(
  {
    application,
    at,
    parts,
    client,
  }: {
    readonly application: RunningApplication;
    readonly at: ListenAt;
    readonly parts: Pick<ProxyListenerParts, 'clock'>;
    readonly client: Endpoint;
  },
  reason: string,
): void {
  application.traffic.refused += 1;
  application.note({
    at: parts.clock.now(),
    kind: 'refused',
    connection: randomHex(8),
    client: hostPort(client.address, client.port),
    port: at.edgePort,
    reason,
  });
}
