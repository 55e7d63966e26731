// From the stored applications and the configuration to what the data plane runs (D84).

import { errorMessage } from '../../base/errors.ts';
import type { Logger } from '../../base/log.ts';
import { addressTest } from '../../base/net/address-test.ts';
import type { ForwardingPlan, StoredApplication } from '../application/application.ts';
import { wildcardIp } from '../application/edge-address.ts';
import type { ProxyAccount, ProxyZone } from '../application/zone.ts';
import type { ApplicationMark, ApplicationStore } from '../store/store.ts';
import { planOf } from './plan.ts';

/** What plans are made from. */
export interface PlanParts {
  readonly zones: readonly ProxyZone[];
  readonly accounts: readonly ProxyAccount[];
  readonly store: Pick<ApplicationStore, 'marks' | 'get'>;
  /** Networks of the edge addresses that this machine serves; absent: it serves all. */
  readonly servedAddresses?: readonly string[] | undefined;
  readonly log: Logger;
}

/** The plans of an application in one of its states: one plan, or none where it cannot run. */
interface Known {
  readonly createdAt: number;
  readonly modifiedAt: number;
  readonly plans: readonly ForwardingPlan[];
}

/**
 * Makes a function that reads what is to run: every stored application whose zone is configured, the oldest first. Of an
 * application that has not changed it gives the very same plan again: with thousands of them one change stays cheap.
 */
export function storedPlans(parts: PlanParts): () => Promise<readonly ForwardingPlan[]> {
  const accountById = new Map(parts.accounts.map((account) => [account.id, account]));
  const zoneById = new Map(parts.zones.map((zone) => [zone.id, zone]));
  const isServed = parts.servedAddresses && addressTest(parts.servedAddresses);
  /** Leaves the addresses that another machine serves. Every IPv6 address of a machine is its own. */
  const ownPart = (given: ForwardingPlan): ForwardingPlan => {
    const elsewhere = given.addresses.filter((address) => address !== wildcardIp && isServed?.(address) === false);
    if (elsewhere.length === 0) return given;
    return { ...given, addresses: given.addresses.filter((address) => !elsewhere.includes(address)), elsewhere };
  };
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
      return [ownPart(planOf(application, { zone, account }))];
    } catch (error) {
      // An application that another version of this program has written must not stop the others.
      tellOnce(application, errorMessage(error));
      return [];
    }
  };
  const known = new Map<string, Known>();
  const refresh = async ({ id, zone, createdAt, modifiedAt }: ApplicationMark): Promise<void> => {
    const before = known.get(id);
    if (before?.createdAt === createdAt && before.modifiedAt === modifiedAt) return;
    const stored = await parts.store.get(zone, id);
    // The application may have been removed or changed since its mark was read.
    if (stored) known.set(id, { createdAt: stored.createdAt, modifiedAt: stored.modifiedAt, plans: plan(stored) });
    else known.delete(id);
  };
  return async (): Promise<readonly ForwardingPlan[]> => {
    const marks = await parts.store.marks();
    for (const mark of marks) await refresh(mark);
    if (known.size > marks.length) {
      const present = new Set(marks.map(({ id }) => id));
      for (const id of known.keys()) if (!present.has(id)) known.delete(id);
    }
    return marks.flatMap(({ id }) => known.get(id)?.plans ?? []);
  };
}
