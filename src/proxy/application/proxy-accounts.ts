// The accounts as proxy applications see them.

import type { ProxyAccount } from './zone.ts';

/** Joins what mail and proxy each read of an account. */
export function proxyAccounts(
  accounts: readonly Pick<ProxyAccount, 'id' | 'name' | 'plan'>[],
  slices: readonly (Pick<ProxyAccount, 'id'> & Partial<ProxyAccount>)[],
): readonly ProxyAccount[] {
  const sliceById = new Map(slices.map((slice) => [slice.id, slice]));
  return accounts.map(({ id, name, plan }) => {
    const { entitlements = [], prefixes = [], virtualNetworks = [] } = sliceById.get(id) ?? {};
    return { id, name, plan, entitlements, prefixes, virtualNetworks };
  });
}
