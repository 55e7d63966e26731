// One UDP session: a client's address and port, an origin, and the socket of their own that replies come back to (D84).

import type { Socket } from 'node:dgram';
import { errorCode, errorMessage } from '../../base/errors.ts';
import { hostPort } from '../../base/net/socket-address.ts';
import { oncePer } from '../../base/once-per.ts';
import { isOriginsFault, type OriginAddress, unreachableReason } from '../origins/origin.ts';
import { countOpen, scopesOf } from './admission.ts';
import { type MutableTraffic, noteFor, type PeerContext } from './listener.ts';
import type { OpenConnection } from './open-budget.ts';
import { proxyHeader } from './proxy-header.ts';
import { connectUdp } from './udp-socket.ts';

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

/** What a session belongs to. */
export interface UdpSessionContext extends PeerContext {
  /** The address that the listener is bound to. */
  readonly edgeAddress: string;
  /** Sends a datagram to the client. @returns false where it had to be dropped */
  readonly reply: (datagram: Buffer) => boolean;
  /** Called once, when it is over. */
  readonly onEnd: () => void;
}

/** Octets that may wait in one socket for the system to take them; beyond it datagrams are dropped. */
export const mostQueuedOctets = 1024 * 1024;

/** One datagram could not be sent; the next may. */
const passingFailures: ReadonlySet<string> = new Set(['EMSGSIZE', 'ENOBUFS', 'ENOMEM', 'EAGAIN']);

/** A session, from its first datagram until it is idle, its origin fails, or it is cut. Never throws. */
export class UdpSession implements OpenConnection {
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
