// From the stored applications and the configuration to what the data plane runs (D84).

import { errorMessage } from '../base/errors.ts';
import type { Logger } from '../base/log.ts';
import type { ForwardingPlan, StoredApplication } from './application.ts';
import { planOf } from './plan.ts';
import type { ApplicationStore } from './store.ts';
import type { ProxyAccount, ProxyZone } from './zone.ts';

/** What plans are made from. */
export interface PlanParts {
  readonly zones: readonly ProxyZone[];
  readonly accounts: readonly ProxyAccount[];
  readonly store: Pick<ApplicationStore, 'all'>;
  readonly log: Logger;
}

/** Makes a function that reads what is to run: every stored application whose zone is configured, the oldest first. */
export function storedPlans(parts: PlanParts): () => Promise<readonly ForwardingPlan[]> {
  const accountById = new Map(parts.accounts.map((account) => [account.id, account]));
  const zoneById = new Map(parts.zones.map((zone) => [zone.id, zone]));
  const told = new Set<string>();
  const tellOnce = (application: StoredApplication, why: string): void => {
    if (told.has(application.id)) return;
    told.add(application.id);
    parts.log.warn({ application: application.id, zone: application.zone, why }, 'a proxy application cannot run');
  };
  const plan = (application: StoredApplication): readonly ForwardingPlan[] => {
    const zone = zoneById.get(application.zone);
    const account = zone && accountById.get(zone.account);
    if (!zone || !account) {
      tellOnce(application, 'its zone is not in the configuration');
      return [];
    }
    try {
      return [planOf(application, { zone, account })];
    } catch (error) {
      // One that a program of another version has written does not stop the others.
      tellOnce(application, errorMessage(error));
      return [];
    }
  };
  return async (): Promise<readonly ForwardingPlan[]> =>
    (await parts.store.all()).toSorted((one, other) => one.createdAt - other.createdAt).flatMap(plan);
}
