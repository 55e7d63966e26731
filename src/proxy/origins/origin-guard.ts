// Judges the address that a connection or session is about to go to, whatever led there (D84).

import { addressTest } from '../../base/net/address-test.ts';
import { isBoundTo, type OwnDoor } from '../../base/net/own-doors.ts';
import { reachedAddresses } from '../../base/net/reached-addresses.ts';
import { oncePer } from '../../base/once-per.ts';
import type { ForwardingPlan, TransportProtocol } from '../application/application.ts';
import { readOriginAllow } from '../application/origin-allow.ts';
import type { ProxySettings } from '../application/zone.ts';
import type { OriginAddress } from './origin.ts';

/** What is known of where connections may go. */
export interface OriginGuardParts {
  /** The lists; asked with each connection, and may be others then. */
  readonly settings: () => Pick<ProxySettings, 'originDeny' | 'originAllow'>;
  /** The listeners of mail and HTTP. */
  readonly ownDoors: () => readonly OwnDoor[];
  /** Id of the application that listens at an address of this machine; undefined: none. */
  readonly listenerAt: (transport: TransportProtocol, address: string, port: number) => string | undefined;
}

/** @returns why a connection of an application may not go to an origin; undefined where it may */
export type RefuseOrigin = (
  origin: OriginAddress,
  plan: Pick<ForwardingPlan, 'id' | 'transport'>,
) => string | undefined;

/**
 * Makes the judge. `originDeny` and the listeners of Postern itself are judged by every address that the origin's may end
 * at (`reachedAddresses`); an application is never its own origin, whatever `originAllow` says.
 * @throws ConfigurationError for a network that is none
 */
export function createOriginGuard(parts: OriginGuardParts): RefuseOrigin {
  const denyOf = oncePer(addressTest);
  const allowanceOf = oncePer(readOriginAllow);
  denyOf(parts.settings().originDeny);
  const refuseAt = (address: string, port: number, { id, transport }: Pick<ForwardingPlan, 'id' | 'transport'>) => {
    const application = parts.listenerAt(transport, address, port);
    if (application === id) return 'the application itself listens there';
    const isDoor = (door: OwnDoor): boolean => door.port === port && isBoundTo(door.host, address);
    const isOwn = application !== undefined || (transport === 'tcp' && parts.ownDoors().some(isDoor));
    if (!isOwn || allowanceOf(parts.settings().originAllow).isAllowed(address, port)) return undefined;
    return 'Postern itself listens there, and proxy.originAllow does not name it';
  };
  return ({ address, port }, plan) => {
    const isDenied = denyOf(parts.settings().originDeny);
    const reached = reachedAddresses(address);
    // What is no address at all would be looked up by name, past the lists.
    if (reached.length === 0 || reached.some(isDenied)) return 'denied by proxy.originDeny';
    for (const one of reached) {
      const refused = refuseAt(one, port, plan);
      if (refused !== undefined) return refused;
    }
    return undefined;
  };
}
