// The listeners of Postern itself, which no application may take for its origin (D84): what comes from Postern has the
// machine's own address, and whoever trusts that address would trust every client of the application.

import { networkInterfaces } from 'node:os';
import { addressTest } from '../../base/net/address-test.ts';
import { normalAddress } from '../../base/net/socket-address.ts';
import type { PortRange } from './application.ts';

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

const placePattern = /^(?:\[([0-9a-f:.]+)\]|([0-9.]+)):(\d{1,5})$/i;

/** Reads `127.0.0.1:2587` or `[::1]:2587`; undefined for anything else. */
function placeOf(text: string): OwnDoor | undefined {
  const [, ipv6, ipv4, port = ''] = placePattern.exec(text) ?? [];
  const host = normalAddress(ipv6 ?? ipv4 ?? '');
  return host === undefined ? undefined : { host, port: Number(port) };
}

/** What `proxy.originAllow` gives free. */
export interface OriginAllowance {
  /** The ports of an address that an origin may have though Postern listens there. */
  portsOf(address: string): readonly PortRange[];
  isAllowed(address: string, port: number): boolean;
}

/**
 * Reads `proxy.originAllow`.
 * @param entries `127.0.0.1:2587`, `[::1]:2587`, or networks and addresses, which stand for all of their ports
 * @throws ConfigurationError for an entry that is none of them
 */
export function readOriginAllow(entries: readonly string[]): OriginAllowance {
  const places = entries.flatMap((entry) => placeOf(entry) ?? []);
  const isInNetwork = addressTest(entries.filter((entry) => placeOf(entry) === undefined));
  const portsOf = (address: string): readonly PortRange[] => {
    if (isInNetwork(address)) return [{ first: 1, last: 65_535 }];
    const wanted = normalAddress(address);
    return places.filter(({ host }) => host === wanted).map(({ port }) => ({ first: port, last: port }));
  };
  return {
    portsOf,
    isAllowed: (address, port) => portsOf(address).some(({ first, last }) => first <= port && port <= last),
  };
}
