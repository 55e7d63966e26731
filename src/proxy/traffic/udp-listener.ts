// Listens on one UDP port of an application: a session for each client address and port, with an origin and a socket of its own (D84).

import { createSocket, type RemoteInfo, type Socket } from 'node:dgram';
import type { LookupOneOptions } from 'node:dns';
import { once } from 'node:events';
import { isIPv6 } from 'node:net';
import { errorCode, errorMessage } from '../../base/errors.ts';
import { randomHex } from '../../base/ids.ts';
import { hostPort, normalAddress } from '../../base/net/socket-address.ts';
import { oncePer } from '../../base/once-per.ts';
import { isOriginsFault, type OriginAddress, unreachableReason } from '../origins/origins.ts';
import {
  countOpen,
  type ListenAt,
  logErrors,
  type MutableTraffic,
  mayEnter,
  noteFor,
  type OpenConnection,
  type OpenListener,
  type PeerContext,
  scopesOf,
} from './listener.ts';
import { proxyHeader } from './proxy-header.ts';

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
function bindUdp(at: ListenAt): Promise<Socket> {
  const socket = socketFor(at.address, { recvBufferSize: receiveBufferOctets });
  const where = { address: at.address, port: at.port, exclusive: true };
  return settled(socket, 'listening', () => socket.bind(where));
}

/** Opens a socket that sends to one origin and hears from it alone. @throws the system's error (EADDRNOTAVAIL, ENETUNREACH, EMFILE) */
async function connectUdp(origin: OriginAddress, sourceAddress?: string): Promise<Socket> {
  const socket = socketFor(origin.address);
  if (sourceAddress !== undefined) {
    const from = { address: sourceAddress, port: 0, exclusive: true };
    await settled(socket, 'listening', () => socket.bind(from));
  }
  return await settled(socket, 'connect', () => socket.connect(origin.port, origin.address));
}

/** The payload of an origin's datagram, a view. With `simple` the very header that it got is taken off where it stands before. */
function withoutHeader(datagram: Buffer, header: Buffer): Buffer {
  const begins = datagram.length >= header.length && datagram.compare(header, 0, header.length, 0, header.length) === 0;
  return begins ? datagram.subarray(header.length) : datagram;
}

/** Datagrams of one session that wait for its origin. */
export const mostPendingDatagrams = 32;
/** Octets of one session: two of the largest datagrams, with what they cost besides. */
const mostPendingOctets = 132_096;
/** Octets of all sessions of an application: sources that are made up cannot fill the memory while DNS is slow. */
export const mostPendingOfApplication = 8 * 1024 * 1024;
/** What keeping a datagram costs beside its octets. */
const overheadOctets = 256;

// The counters are what all plans and ports of an application share.
const waitingOf = oncePer<MutableTraffic, { octets: number }>(() => ({ octets: 0 }));

/** Makes the queue of the datagrams of one session that wait for its origin. */
export function pendingDatagrams(application: MutableTraffic) {
  const all = waitingOf(application);
  let queue: Buffer[] = [];
  let octets = 0;
  return {
    /** @returns false where it does not fit and is dropped */
    add(datagram: Buffer): boolean {
      const cost = datagram.length + overheadOctets;
      if (queue.length >= mostPendingDatagrams || octets + cost > mostPendingOctets) return false;
      if (all.octets + cost > mostPendingOfApplication) return false;
      queue.push(datagram);
      octets += cost;
      all.octets += cost;
      return true;
    },
    /** Everything in the order it came; nothing waits afterwards. */
    take(): readonly Buffer[] {
      const taken = queue;
      queue = [];
      all.octets -= octets;
      octets = 0;
      return taken;
    },
  };
}

interface UdpSessionContext extends PeerContext {
  /** The address that the listener is bound to. */
  readonly edgeAddress: string;
  /** Sends a datagram to the client. @returns false where it had to be dropped */
  readonly reply: (datagram: Buffer) => boolean;
  /** Called once, when it is over. */
  readonly onEnd: () => void;
}

/** Octets that may wait in one socket for the system to take them; beyond it datagrams are dropped. */
const mostQueuedOctets = 1024 * 1024;

/** One datagram could not be sent; the next may. */
const passingFailures: ReadonlySet<string> = new Set(['EMSGSIZE', 'ENOBUFS', 'ENOMEM', 'EAGAIN']);

/** A session, from its first datagram until it is idle, its origin fails, or it is cut. Never throws. */
class UdpSession implements OpenConnection {
  readonly #context: UdpSessionContext;
  readonly #note;
  readonly #startedAt: number;
  readonly #countClosed: () => void;
  /** From now on it gives way to no other. */
  readonly #isAnswered: () => void;
  readonly #idleTimer: NodeJS.Timeout;
  readonly #header: Buffer | undefined;
  readonly #pending;
  readonly #bytes = { bytesFromClient: 0, bytesFromOrigin: 0 };
  readonly #sent = (error: Error | null): void => this.#whenSent(error);
  #upstream: Socket | undefined;
  #origin: OriginAddress | undefined;
  #isOriginProved = false;
  #dropped = 0;
  #isEnded = false;

  constructor(context: UdpSessionContext) {
    const { application, client, edgeAddress, edgePort, parts } = context;
    this.#context = context;
    this.#note = noteFor(context);
    this.#startedAt = parts.clock.monotonic();
    this.#countClosed = countOpen(application, client.address, parts.budget);
    this.#isAnswered = parts.budget.awaitAnswer(
      { cut: (reason) => this.#end('error', reason) },
      Object.values(scopesOf(application, client.address)),
    );
    this.#pending = pendingDatagrams(application.traffic);
    this.#header = proxyHeader(application.plan, client, () => ({ address: edgeAddress, port: edgePort }));
    this.#idleTimer = setTimeout(() => this.#end('disconnect', 'idle'), parts.limits(application.plan).udpIdleMs);
    application.connections.add(this);
    this.#choose().catch((error: unknown) => this.#fail(errorMessage(error)));
  }

  receive(datagram: Buffer): void {
    if (this.#isEnded) return;
    this.#idleTimer.refresh();
    if (this.#upstream) this.#send(this.#upstream, datagram);
    else if (!this.#pending.add(datagram)) this.#drop(1);
  }

  cut(reason: string): void {
    this.#end('disconnect', reason);
  }

  async #choose(): Promise<void> {
    const { application, edgePort, parts } = this.#context;
    const { origins, why } = await application.origins.candidates(edgePort);
    const failures: string[] = [];
    for (const origin of origins) {
      if (this.#isEnded) return;
      this.#origin = origin;
      const name = hostPort(origin.address, origin.port);
      // D84: checked on the address itself, whatever a name resolved to since the application was judged.
      const refused = parts.refuseOrigin(origin, application.plan);
      if (refused !== undefined) {
        failures.push(`${name}: ${refused}`);
        continue;
      }
      try {
        this.#use(await connectUdp(origin, application.plan.sourceAddress));
        return;
      } catch (error) {
        const code = errorCode(error);
        failures.push(`${name}: ${code ?? errorMessage(error)}`);
        if (isOriginsFault(code)) application.origins.failed(origin);
      }
    }
    this.#fail(unreachableReason(failures, why));
  }

  #use(upstream: Socket): void {
    if (this.#isEnded) {
      upstream.close();
      return;
    }
    this.#upstream = upstream;
    upstream.on('error', (error) => this.#originFailed(error));
    upstream.on('message', (datagram) => this.#fromOrigin(datagram));
    this.#note({ kind: 'connect' }, this.#origin);
    for (const datagram of this.#pending.take()) this.#send(upstream, datagram);
  }

  #send(upstream: Socket, datagram: Buffer): void {
    if (this.#isEnded) return;
    if (upstream.getSendQueueSize() > mostQueuedOctets) {
      this.#drop(1);
      return;
    }
    const header = this.#header;
    this.#bytes.bytesFromClient += datagram.length;
    this.#context.application.traffic.bytesFromClients += datagram.length;
    upstream.send(header ? [header, datagram] : datagram, this.#sent);
  }

  #whenSent(error: Error | null): void {
    if (!error || this.#isEnded) return;
    if (passingFailures.has(errorCode(error) ?? '')) this.#drop(1);
    else this.#originFailed(error);
  }

  // ICMP port or host unreachable arrives as an error of the connected socket (RFC 1122 §4.1.3.3).
  #originFailed(error: Error): void {
    if (this.#isEnded) return;
    const code = errorCode(error);
    if (this.#origin && isOriginsFault(code)) this.#context.application.origins.failed(this.#origin);
    this.#fail(`the origin cannot be reached: ${code ?? errorMessage(error)}`);
  }

  #fromOrigin(datagram: Buffer): void {
    if (this.#isEnded) return;
    this.#idleTimer.refresh();
    const { application, reply } = this.#context;
    if (!this.#isOriginProved && this.#origin) {
      this.#isOriginProved = true;
      this.#isAnswered();
      application.origins.succeeded(this.#origin);
    }
    const isSimple = application.plan.proxyProtocol === 'simple';
    const payload = isSimple && this.#header ? withoutHeader(datagram, this.#header) : datagram;
    if (!reply(payload)) {
      this.#drop(1);
      return;
    }
    this.#bytes.bytesFromOrigin += payload.length;
    application.traffic.bytesFromOrigins += payload.length;
  }

  #drop(datagrams: number): void {
    this.#dropped += datagrams;
    this.#context.application.traffic.datagramsDropped += datagrams;
  }

  #fail(reason: string): void {
    if (this.#isEnded) return;
    this.#context.application.traffic.failed += 1;
    this.#end('error', reason);
  }

  #end(kind: 'disconnect' | 'error', reason: string): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    const { application, parts, onEnd } = this.#context;
    clearTimeout(this.#idleTimer);
    this.#upstream?.close();
    this.#drop(this.#pending.take().length);
    application.connections.delete(this);
    this.#countClosed();
    this.#isAnswered();
    onEnd();
    const told = this.#dropped > 0 ? `${reason}; ${this.#dropped} datagrams dropped` : reason;
    const durationMs = Math.round(parts.clock.monotonic() - this.#startedAt);
    this.#note({ kind, reason: told, ...this.#bytes, durationMs }, this.#origin);
  }
}

/** Opens one UDP port; see {@link OpenListener}. Sessions and what waits are bounded. Closing ends them, as no other port could answer. */
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
        // A client that has gone is no error of the listener (its system says so by ICMP, or not at all).
        socket.send(datagram, from.port, from.address, () => undefined);
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
