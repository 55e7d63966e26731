// How often an address may come with a wrong token before it has to wait (against guessing, D92).

import { isIPv6 } from 'node:net';
import type { Clock } from '../base/clock.ts';

/** Counts failed logins by address. */
export interface AddressLimit {
  /** Seconds the address has to wait; 0 where it need not. */
  waitSeconds(address: string): number;
  /** Counts a failure. */
  failed(address: string): void;
}

/** Failures in one window after which an address waits until the window ends. */
export const failuresPerWindow = 30;
const windowMs = 60_000;
/** No more addresses than this are remembered: the oldest are forgotten, so that a flood of them costs no memory. */
const maxAddresses = 10_000;

/** What an address is counted as: whoever has one IPv6 address has its /64, so its first four groups. */
export function countedAddress(given: string): string {
  // A listener on :: sees IPv4 clients as ::ffff:192.0.2.1: each is its own, not all of them one network.
  const address = given.replace(/^::ffff:(?=[0-9.]+$)/i, '');
  if (!isIPv6(address)) return address;
  const [head = '', tail] = address.split('::');
  const groups = head === '' ? [] : head.split(':');
  const filled = tail === undefined ? groups : [...groups, ...Array<string>(Math.max(0, 8 - groups.length)).fill('0')];
  return filled.slice(0, 4).join(':');
}

/** Makes the count; it lives in memory. */
export function createAddressLimit(clock: Clock, failures = failuresPerWindow): AddressLimit {
  const windows = new Map<string, { failures: number; readonly until: number }>();
  return {
    waitSeconds(address) {
      const window = windows.get(countedAddress(address));
      if (!window || window.failures < failures) return 0;
      return Math.max(0, Math.ceil((window.until - clock.now()) / 1000));
    },
    failed(address) {
      const key = countedAddress(address);
      const now = clock.now();
      const window = windows.get(key);
      if (window && window.until > now) {
        window.failures += 1;
        return;
      }
      windows.delete(key);
      if (windows.size >= maxAddresses) windows.delete(windows.keys().next().value ?? '');
      windows.set(key, { failures: 1, until: now + windowMs });
    },
  };
}
