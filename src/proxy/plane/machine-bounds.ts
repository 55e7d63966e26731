// What this machine gives the data plane: addresses to listen at, and files that may be open.

import { networkInterfaces } from 'node:os';
import { normalAddress } from '../../base/net/socket-address.ts';
import {
  type BudgetBounds,
  descriptorsAllowed,
  descriptorsOf,
  OpenBudget,
  openFilesLimit,
} from '../traffic/open-budget.ts';
import type { DataPlaneParts } from './data-plane-parts.ts';

const mostListeners = 16_384;

/** The IPv6 addresses of this machine; without link-local ones, which are only meant together with an interface. */
export function interfaceAddresses(): readonly string[] {
  const entries = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  const found = entries.flatMap(({ family, address, scopeid }) => (family === 'IPv6' && !scopeid ? [address] : []));
  return [...new Set(found.map((address) => normalAddress(address) ?? address))].sort();
}

/** What one account may have where nothing is configured: the others find a quarter, whatever it does. */
function accountShares(descriptors: number): Omit<BudgetBounds, 'descriptors'> {
  const share = Math.floor((descriptors * 3) / 4);
  return { accountConnections: Math.floor(share / descriptorsOf.tcp), accountSessions: share };
}

/** What may be open at once. */
export interface OpenBounds {
  readonly budget: OpenBudget;
  /** Listening sockets in all. */
  readonly maxListeners: number;
  /** Listening sockets of one account. */
  readonly maxListenersPerAccount: number;
}

/** Reckons what may be open from what is configured and, for the rest, from the files that the process may open. */
export function openBounds(
  configured: Pick<DataPlaneParts, 'openFiles' | 'accountBounds' | 'maxListeners' | 'maxListenersPerAccount'>,
): OpenBounds {
  const openFiles = configured.openFiles ?? openFilesLimit();
  const descriptors = descriptorsAllowed(openFiles);
  const budget = new OpenBudget({ descriptors, ...accountShares(descriptors), ...configured.accountBounds });
  // Half of what the process may open, so that connections find descriptors too.
  const maxListeners = configured.maxListeners ?? Math.min(mostListeners, Math.floor(openFiles / 2), descriptors);
  const maxListenersPerAccount = configured.maxListenersPerAccount ?? Math.ceil(maxListeners / 2);
  return { budget, maxListeners, maxListenersPerAccount };
}
