// Datagram sockets as the data plane opens them: bound to a port for clients, connected to one origin (D84).

import { createSocket, type Socket } from 'node:dgram';
import type { LookupOneOptions } from 'node:dns';
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

/** Settles as `start` says; a socket that fails is closed. */
function settled(socket: Socket, start: (done: () => void) => void): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const fail = (error: Error): void => {
      socket.close();
      reject(error);
    };
    socket.once('error', fail);
    try {
      start(() => {
        socket.off('error', fail);
        resolve(socket);
      });
    } catch (error) {
      socket.off('error', fail);
      fail(error instanceof Error ? error : new Error(String(error)));
    }
  });
}

/** Binds a port for clients. @throws the system's error where it cannot */
export function bindUdp(at: ListenAt): Promise<Socket> {
  const socket = socketFor(at.address, { recvBufferSize: receiveBufferOctets });
  return settled(socket, (done) => socket.bind({ address: at.address, port: at.port, exclusive: true }, done));
}

/**
 * Opens a socket that sends to one origin and hears from it alone, from a port that the system chooses.
 * @param sourceAddress to send from, absent: the system chooses
 * @throws the system's error where it cannot (EADDRNOTAVAIL, ENETUNREACH, EMFILE)
 */
export async function connectUdp(origin: OriginAddress, sourceAddress?: string): Promise<Socket> {
  const socket = socketFor(origin.address);
  if (sourceAddress !== undefined) {
    await settled(socket, (done) => socket.bind({ address: sourceAddress, port: 0, exclusive: true }, done));
  }
  return await settled(socket, (done) => {
    socket.connect(origin.port, origin.address, (error?: Error) => {
      if (error) socket.emit('error', error);
      else done();
    });
  });
}
