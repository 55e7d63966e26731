// The block and allow lists of an application with `ip_firewall` (D81): read once, asked for every connection.

import { addressTest } from '../../base/net/address-test.ts';

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
