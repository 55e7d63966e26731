// One UDP session: a client's address and port, an origin, and the socket of their own that replies come back to (D84).

import type { Socket } from 'node:dgram';
import { errorCode, errorMessage } from '../../base/errors.ts';
import { randomHex } from '../../base/ids.ts';
import { hostPort } from '../../base/net/socket-address.ts';
import type { ConnectionEvent, ForwardingPlan } from '../application/application.ts';
import { isOriginsFault, type OriginAddress, unreachableReason } from '../origins/origin.ts';
import { countOpen, scopesOf } from './admission.ts';
import type { ListenAt, ProxyListenerParts, RunningApplication } from './listener.ts';
import type { OpenConnection } from './open-budget.ts';
import { type Endpoint, type ProxiedConnection, proxyHeaderV1, proxyHeaderV2, simpleHeader } from './proxy-header.ts';
import { pendingDatagrams } from './udp-pending.ts';
import { connectUdp } from './udp-socket.ts';

/** The headers of one session. */
export interface UdpFraming {
  /** Before every datagram to the origin; absent for none. */
  readonly header?: Buffer;
  /** The payload of a datagram of the origin; a view, not a copy. */
  fromOrigin(datagram: Buffer): Buffer;
}

const asItIs = (datagram: Buffer): Buffer => datagram;

/**
 * Makes the framing of a session. A header goes before each datagram, not only the first: datagrams are lost and change
 * places, and receivers of connectionless protocols (name servers for one) expect it on each. Version 1 has no form for
 * UDP but `PROXY UNKNOWN`. With `simple` the origin may put the header that it got before its replies: exactly that one
 * is taken off, anything else is the origin's payload and is left alone.
 */
function udpFraming(
  proxyProtocol: ForwardingPlan['proxyProtocol'],
  ends: Pick<ProxiedConnection, 'client' | 'edge'>,
): UdpFraming {
  if (proxyProtocol === 'off') return { fromOrigin: asItIs };
  if (proxyProtocol === 'v1') return { header: proxyHeaderV1({ transport: 'udp', ...ends }), fromOrigin: asItIs };
  if (proxyProtocol === 'v2') return { header: proxyHeaderV2({ transport: 'udp', ...ends }), fromOrigin: asItIs };
  const header = simpleHeader(ends);
  const begins = (datagram: Buffer): boolean =>
    datagram.length >= header.length && datagram.compare(header, 0, header.length, 0, header.length) === 0;
  return { header, fromOrigin: (datagram) => (begins(datagram) ? datagram.subarray(header.length) : datagram) };
}

/** What a session belongs to. */
export interface UdpSessionContext {
  /** As it was when the first datagram came. */
  readonly application: RunningApplication;
  readonly at: ListenAt;
  readonly parts: ProxyListenerParts;
  readonly client: Endpoint;
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
  readonly #id = randomHex(8);
  readonly #startedAt: number;
  readonly #countClosed: () => void;
  /** From now on it gives way to no other. */
  readonly #isAnswered: () => void;
  readonly #idleTimer: NodeJS.Timeout;
  readonly #framing: UdpFraming;
  readonly #pending;
  readonly #bytes = { bytesFromClient: 0, bytesFromOrigin: 0 };
  readonly #sent = (error: Error | null): void => this.#whenSent(error);
  #upstream: Socket | undefined;
  #origin: OriginAddress | undefined;
  #isOriginProved = false;
  #dropped = 0;
  #isEnded = false;

  constructor(context: UdpSessionContext) {
    const { application, at, client, parts } = context;
    this.#context = context;
    this.#startedAt = parts.clock.monotonic();
    this.#countClosed = countOpen(application, client.address, parts.budget);
    this.#isAnswered = parts.budget.awaitAnswer(
      { cut: (reason) => this.#end('error', reason) },
      Object.values(scopesOf(application, client.address)),
    );
    this.#pending = pendingDatagrams(application.traffic);
    this.#framing = udpFraming(application.plan.proxyProtocol, {
      client,
      edge: { address: at.address, port: at.edgePort },
    });
    this.#idleTimer = setTimeout(() => this.#end('disconnect', 'idle'), parts.limits(application.plan).udpIdleMs);
    application.connections.add(this);
    this.#choose().catch((error: unknown) => this.#fail(errorMessage(error)));
  }

  /** Takes a datagram of the client. */
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
    const { application, at, parts } = this.#context;
    const { origins, why } = await application.origins.candidates(at.edgePort);
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
    this.#note('connect', {});
    for (const datagram of this.#pending.take()) this.#send(upstream, datagram);
  }

  #send(upstream: Socket, datagram: Buffer): void {
    if (this.#isEnded) return;
    if (upstream.getSendQueueSize() > mostQueuedOctets) {
      this.#drop(1);
      return;
    }
    const { header } = this.#framing;
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
    const payload = this.#framing.fromOrigin(datagram);
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
    this.#note(kind, {
      reason: this.#dropped > 0 ? `${reason}; ${this.#dropped} datagrams dropped` : reason,
      ...this.#bytes,
      durationMs: Math.round(parts.clock.monotonic() - this.#startedAt),
    });
  }

  #note(kind: ConnectionEvent['kind'], told: Partial<ConnectionEvent>): void {
    const { application, at, client, parts } = this.#context;
    application.note({
      at: parts.clock.now(),
      kind,
      connection: this.#id,
      client: hostPort(client.address, client.port),
      port: at.edgePort,
      ...(this.#origin && { origin: hostPort(this.#origin.address, this.#origin.port) }),
      ...told,
    });
  }
}
