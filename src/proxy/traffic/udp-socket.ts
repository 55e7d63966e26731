// Datagram sockets as the data plane opens them: bound to a port for clients, connected to one origin (D84).

import { createSocket, type Socket } from 'node:dgram';
import type { LookupOneOptions } from 'node:dns';
import { once } from 'node:events';
import { isIPv6 } from 'node:net';
import type { OriginAddress } from '../origins/origin.ts';
import type { ListenAt } from './listener.ts';

/** What the system may hold of a burst before we read it; it may allow less. */
const receiveBufferOctets = 1024 * 1024;

// Only addresses ever come here. The platform's own look-up would put each datagram off by a turn of the event loop.
function noLookup(
  address: string,
  _options: LookupOneOptions,
  done: (error: NodeJS.ErrnoException | null, address: string, family: number) => void,
): void {
  done(null, address, isIPv6(address) ? 6 : 4);
}

function socketFor(address: string, more: { readonly recvBufferSize?: number } = {}): Socket {
  if (!isIPv6(address)) return createSocket({ type: 'udp4', lookup: noLookup, ...more });
  // `::` is IPv6 only: another application may have the same port on an IPv4 address.
  return createSocket({ type: 'udp6', ipv6Only: true, lookup: noLookup, ...more });
}

/** Begins what ends with an event of the socket. @throws the system's error; the socket is closed then */
async function settled(socket: Socket, event: 'listening' | 'connect', begin: () => void): Promise<Socket> {
  try {
    const settling = once(socket, event);
    begin();
    await settling;
    return socket;
  } catch (error) {
    socket.close();
    throw error;
  }
}

/** Binds a port for clients. @throws the system's error where it cannot */
export function bindUdp(at: ListenAt): Promise<Socket> {
  const socket = socketFor(at.address, { recvBufferSize: receiveBufferOctets });
  const where = { address: at.address, port: at.port, exclusive: true };
  return settled(socket, 'listening', () => socket.bind(where));
}

/** Opens a socket that sends to one origin and hears from it alone. @throws the system's error (EADDRNOTAVAIL, ENETUNREACH, EMFILE) */
export async function connectUdp(origin: OriginAddress, sourceAddress?: string): Promise<Socket> {
  const socket = socketFor(origin.address);
  if (sourceAddress !== undefined) {
    const from = { address: sourceAddress, port: 0, exclusive: true };
    await settled(socket, 'listening', () => socket.bind(from));
  }
  return await settled(socket, 'connect', () => socket.connect(origin.port, origin.address));
}
