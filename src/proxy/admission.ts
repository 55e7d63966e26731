// Who may open a connection or session at all: the zone's lists first, then the limits (D81, D84).

import { type AddressLists, createAddressLists } from './address-lists.ts';
import type { ForwardingPlan } from './application.ts';
import type { DataPlaneLimits, RunningApplication } from './listener.ts';

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

/**
 * Judges a new connection or session. The block list wins over the allow list; an empty allow list allows all.
 * @param client the client's address in its normal form
 * @returns why it is refused, undefined where it may come in
 */
export function refusalOf(
  application: RunningApplication,
  client: string,
  limits: DataPlaneLimits,
): string | undefined {
  const refused = listsOf(application.plan.firewall).refuses(client);
  if (refused !== undefined) return refusals[refused];
  if (application.traffic.open >= limits.openPerApplication) {
    return `the application has ${limits.openPerApplication} open, its limit`;
  }
  if ((application.openByClient.get(client) ?? 0) >= limits.openPerClient) {
    return `the client has ${limits.openPerClient} open, its limit`;
  }
  return undefined;
}

/**
 * Counts a connection or session as open.
 * @returns what counts it as closed; only the first call does
 */
export function countOpen({ traffic, openByClient }: RunningApplication, client: string): () => void {
  traffic.open += 1;
  traffic.connections += 1;
  openByClient.set(client, (openByClient.get(client) ?? 0) + 1);
  let isOpen = true;
  return () => {
    if (!isOpen) return;
    isOpen = false;
    traffic.open -= 1;
    const left = (openByClient.get(client) ?? 1) - 1;
    if (left > 0) openByClient.set(client, left);
    else openByClient.delete(client);
  };
}
