// Listens on one UDP port of an application: a session for each client address and port (D84).

import type { RemoteInfo, Socket } from 'node:dgram';
import { normalAddress } from '../../base/net/socket-address.ts';
import { noteRefusal, refusalOf } from './admission.ts';
import {
  type ListenAt,
  logErrors,
  type OpenListener,
  type ProxyListenerParts,
  type RunningApplication,
} from './listener.ts';
import { mostQueuedOctets, UdpSession } from './udp-session.ts';
import { bindUdp } from './udp-socket.ts';

/**
 * Opens one UDP port; see {@link OpenListener}. Memory is bounded: one session for each client address and port up to
 * the limits, and what waits for an origin up to a bound of the application. Closing frees the port at once and ends the
 * sessions with it, whatever the drain time: their replies could come from no other port.
 */
export const openUdpListener: OpenListener = async (at, running, parts) => {
  const socket = await bindUdp(at);
  const table = new SessionTable(socket, at, { running, parts });
  socket.on('message', (datagram, from) => table.receive(datagram, from));
  logErrors(socket, { ...parts, at }, 'a UDP listener has an error');
  let closed: Promise<void> | undefined;
  return {
    at,
    close() {
      table.close();
      closed ??= new Promise((resolve) => socket.close(() => resolve()));
      return closed;
    },
  };
};

/** The sessions of one port. */
class SessionTable {
  readonly #socket: Socket;
  readonly #at: ListenAt;
  readonly #running: () => RunningApplication;
  readonly #parts: ProxyListenerParts;
  readonly #sessions = new Map<string, UdpSession>();
  #isClosed = false;
  /** A client that has gone is no error of the listener (its system says so by ICMP, or not at all). */
  readonly #sent = (): void => undefined;

  constructor(
    socket: Socket,
    at: ListenAt,
    { running, parts }: { readonly running: () => RunningApplication; readonly parts: ProxyListenerParts },
  ) {
    this.#socket = socket;
    this.#at = at;
    this.#running = running;
    this.#parts = parts;
  }

  receive(datagram: Buffer, from: RemoteInfo): void {
    if (this.#isClosed) return;
    const key = `${from.address} ${from.port}`;
    const session = this.#sessions.get(key) ?? this.#open(key, from);
    session?.receive(datagram);
  }

  close(): void {
    this.#isClosed = true;
    for (const session of this.#sessions.values()) session.cut('the listener was closed');
  }

  #open(key: string, from: RemoteInfo): UdpSession | undefined {
    const application = this.#running();
    const client = { address: normalAddress(from.address) ?? from.address, port: from.port };
    const refused = refusalOf(application, client.address, this.#parts);
    if (refused !== undefined) {
      noteRefusal({ application, at: this.#at, parts: this.#parts, client }, refused);
      return undefined;
    }
    const session = new UdpSession({
      application,
      at: this.#at,
      parts: this.#parts,
      client,
      reply: (datagram) => this.#reply(datagram, from),
      onEnd: () => this.#sessions.delete(key),
    });
    this.#sessions.set(key, session);
    return session;
  }

  #reply(datagram: Buffer, { address, port }: RemoteInfo): boolean {
    if (this.#isClosed || this.#socket.getSendQueueSize() > mostQueuedOctets) return false;
    this.#socket.send(datagram, port, address, this.#sent);
    return true;
  }
}
