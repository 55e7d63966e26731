// The origins of an application at run time: which address and port a connection goes to (D84).

import { addressTest } from '../../base/net/address-test.ts';
import { isBoundTo, type OwnDoor } from '../../base/net/own-doors.ts';
import { reachedAddresses } from '../../base/net/reached-addresses.ts';
import { oncePer } from '../../base/once-per.ts';
import type { ForwardingPlan, TransportProtocol } from '../application/application.ts';
import { readOriginAllow } from '../application/ip-address.ts';
import type { ProxySettings } from '../application/zone.ts';

/** One place to connect to. */
export interface OriginAddress {
  /** IPv4, or IPv6 without brackets. */
  readonly address: string;
  readonly port: number;
  /** The name it was found under, for SNI and certificate checks of `tls: full` and `strict`; absent for a direct origin. */
  readonly name?: string;
}

/** Picks origins, remembers which failed. */
export interface Origins {
  /**
   * The places to try for a connection on an edge port, the best first: healthy ones in turn (SRV: by priority and
   * weight, RFC 2782), then those that failed lately. Empty where no name resolves; the reason is in `why`.
   */
  candidates(edgePort: number): Promise<{ readonly origins: readonly OriginAddress[]; readonly why?: string }>;
  /** An origin took a connection. */
  succeeded(origin: OriginAddress): void;
  /** An origin refused, timed out, or broke off before its first octet: it is tried last for a while. */
  failed(origin: OriginAddress): void;
  /** What is known of each, for the application's `traffic`. */
  health(): readonly { readonly origin: OriginAddress; readonly healthy: boolean; readonly failures: number }[];
}

/** Failures of this machine, which say nothing about the origin; EINVAL: no way there from the source address. */
const ownFailures: ReadonlySet<string> = new Set([
  'EMFILE',
  'ENFILE',
  'EADDRNOTAVAIL',
  'EACCES',
  'EINVAL',
  'EPERM',
  'ENOBUFS',
]);

/** Whether a failure speaks against the origin, so that it is tried last for a while. @param code the system's */
export function isOriginsFault(code: string | undefined): boolean {
  return code === undefined || !ownFailures.has(code);
}

/** Characters of all failures together in a reason. */
const reasonLength = 500;

/** Tells the failures of all origins that were tried, or else why there was none to try. */
export function unreachableReason(failures: readonly string[], why: string | undefined): string {
  const told = failures.length > 0 ? failures.join('; ') : (why ?? 'there is no origin');
  return `no origin could be reached: ${told}`.slice(0, reasonLength);
}

interface OriginGuardParts {
  /** The lists; asked with each connection, and may be others then. */
  readonly settings: () => Pick<ProxySettings, 'originDeny' | 'originAllow'>;
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
