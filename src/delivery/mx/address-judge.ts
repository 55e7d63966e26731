// Which addresses an exchanger may have: anybody can publish an MX record that leads to loopback or into a private network.

import { isBoundTo, type OwnDoor } from '../../base/net/own-doors.ts';
import { type AddressTest, addressTest, privateNetworks, reachedAddresses } from '../../base/net/socket-address.ts';

/** `own`: Postern itself listens there. `private`: the Internet has no such host. */
type AddressFault = 'own' | 'private';

/** Judges an address. @returns undefined where mail may go there */
export type AddressJudge = (address: string, port: number) => AddressFault | undefined;

/** Beside the private ones: this network, multicast, reserved, benchmarks; nothing there can be a mail exchanger. */
const noHosts = ['0.0.0.0/8', '192.0.0.0/24', '198.18.0.0/15', '224.0.0.0/3', '::/128', 'fec0::/10', 'ff00::/8'];

/** The judge of a route; what it reads once is kept. */
export function createAddressJudge(parts: {
  /** Networks in which mail exchangers may be although they are private. */
  readonly allowPrivate: readonly string[];
  /** Postern's own listeners; asked each time. */
  readonly ownDoors: () => readonly OwnDoor[];
}): AddressJudge {
  const isDenied: AddressTest = addressTest([...privateNetworks, ...noHosts]);
  const isAllowed = addressTest(parts.allowPrivate);
  return (address, port) => {
    const reached = reachedAddresses(address);
    if (reached.length === 0) return 'private';
    const doors = parts.ownDoors().filter((door) => door.port === port);
    if (reached.some((one) => doors.some(({ host }) => isBoundTo(host, one)))) return 'own';
    return reached.some((one) => isDenied(one) && !isAllowed(one)) ? 'private' : undefined;
  };
}
