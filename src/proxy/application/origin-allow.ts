// `proxy.originAllow`: which of Postern's own listeners an application may have for its origin all the same (D84).

import { addressTest } from '../../base/net/address-test.ts';
import type { OwnDoor } from '../../base/net/own-doors.ts';
import { normalAddress } from '../../base/net/socket-address.ts';
import type { PortRange } from './application.ts';

const placePattern = /^(?:\[([0-9a-f:.]+)\]|([0-9.]+)):(\d{1,5})$/i;

/** Reads `127.0.0.1:2587` or `[::1]:2587`; undefined for anything else. */
function doorOf(text: string): OwnDoor | undefined {
  const [, ipv6, ipv4, port = ''] = placePattern.exec(text) ?? [];
  const host = normalAddress(ipv6 ?? ipv4 ?? '');
  return host === undefined ? undefined : { host, port: Number(port) };
}

/**
 * Reads `proxy.originAllow`.
 * @param entries `127.0.0.1:2587`, `[::1]:2587`, or networks and addresses, which stand for all of their ports
 * @throws ConfigurationError for an entry that is none of them
 */
export function readOriginAllow(entries: readonly string[]) {
  const places = entries.flatMap((entry) => doorOf(entry) ?? []);
  const isInNetwork = addressTest(entries.filter((entry) => doorOf(entry) === undefined));
  const portsOf = (address: string): readonly PortRange[] => {
    if (isInNetwork(address)) return [{ first: 1, last: 65_535 }];
    const wanted = normalAddress(address);
    return places.filter(({ host }) => host === wanted).map(({ port }) => ({ first: port, last: port }));
  };
  return {
    /** The ports of an address that an origin may have though Postern listens there. */
    portsOf,
    isAllowed: (address: string, port: number): boolean =>
      portsOf(address).some(({ first, last }) => first <= port && port <= last),
  };
}
