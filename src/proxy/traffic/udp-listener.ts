// Listens on one UDP port of an application: a session for each client address and port (D84).

import type { RemoteInfo } from 'node:dgram';
import { randomHex } from '../../base/ids.ts';
import { normalAddress } from '../../base/net/socket-address.ts';
import { mayEnter } from './admission.ts';
import { logErrors, type OpenListener } from './listener.ts';
import { mostQueuedOctets, UdpSession } from './udp-session.ts';
import { bindUdp } from './udp-socket.ts';

/** A client that has gone is no error of the listener (its system says so by ICMP, or not at all). */
const sent = (): void => undefined;

/**
 * Opens one UDP port; see {@link OpenListener}. Memory is bounded: one session for each client address and port up to
 * the limits, and what waits for an origin up to a bound of the application. Closing frees the port at once and ends the
 * sessions with it, whatever the drain time: their replies could come from no other port.
 */
export const openUdpListener: OpenListener = async (at, running, parts) => {
  const socket = await bindUdp(at);
  const sessions = new Map<string, UdpSession>();
  let closed: Promise<void> | undefined;
  const open = (key: string, from: RemoteInfo): UdpSession | undefined => {
    const application = running();
    const client = { address: normalAddress(from.address) ?? from.address, port: from.port };
    const peer = { id: randomHex(8), client, application, edgePort: at.edgePort, parts };
    if (!mayEnter(peer)) return undefined;
    const session = new UdpSession({
      ...peer,
      edgeAddress: at.address,
      reply(datagram) {
        if (closed || socket.getSendQueueSize() > mostQueuedOctets) return false;
        socket.send(datagram, from.port, from.address, sent);
        return true;
      },
      onEnd: () => sessions.delete(key),
    });
    sessions.set(key, session);
    return session;
  };
  socket.on('message', (datagram, from) => {
    if (closed) return;
    const key = `${from.address} ${from.port}`;
    const session = sessions.get(key) ?? open(key, from);
    session?.receive(datagram);
  });
  logErrors(socket, { ...parts, at }, 'a UDP listener has an error');
  return {
    at,
    close() {
      for (const session of sessions.values()) session.cut('the listener was closed');
      closed ??= new Promise((resolve) => socket.close(() => resolve()));
      return closed;
    },
  };
};
