// The listeners of Postern itself. What comes from Postern has the machine's own address, and whoever trusts that address
// would trust everyone that Postern connects for; mail to a listener of its own would go round for ever (D84, RFC 5321 §6.3).

import { networkInterfaces } from 'node:os';
import { normalAddress } from './socket-address.ts';

/** A TCP listener of mail or HTTP, as it is bound or will be. */
export interface OwnDoor {
  /** An IP address; `0.0.0.0` and `::` are all of this machine. */
  readonly host: string;
  readonly port: number;
}

/** Whether this machine itself has an address: loopback, or one of its interfaces. */
export function isLocalAddress(address: string): boolean {
  const normal = normalAddress(address);
  if (normal === undefined) return false;
  if (normal === '::1' || normal.startsWith('127.')) return true;
  const own = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  return own.some((one) => normalAddress(one.address) === normal);
}

/** Whether a connection to an address comes to a listener that is bound to `host`. `::` takes IPv4 as well. */
export function isBoundTo(host: string, address: string): boolean {
  const bound = normalAddress(host);
  if (bound === normalAddress(address)) return true;
  if (bound === '::') return isLocalAddress(address);
  return bound === '0.0.0.0' && !address.includes(':') && isLocalAddress(address);
}
