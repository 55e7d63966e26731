// One listening socket: decides before TLS whom to admit, reads PROXY headers, and starts sessions (D40, D40c, D42).

import type { AddressInfo, Socket } from 'node:net';
import ipaddr from 'ipaddr.js';
import type { Submitter } from '../../accounts/account.ts';
import { ConfigurationError } from '../../base/errors.ts';
import { randomHex } from '../../base/ids.ts';
import { type MaybePromise, whenKnown } from '../../base/load/maybe-promise.ts';
import { listenFault } from '../../base/net/own-doors.ts';
import { addressTest, normalAddress } from '../../base/net/socket-address.ts';
import type { ConnectionCounter, ConnectionSlot } from './connection-counter.ts';
import { SessionTranscript } from './record/session-transcript.ts';
import { type Answer, formatReply, replies } from './replies.ts';
import { type Admission, LibraryServer, type TlsCredentials } from './smtp-library.ts';
import { type SessionContext, SmtpSession } from './smtp-session.ts';

/** How the octets at the start of a connection were read. */
type ProxyHeader =
  | { readonly kind: 'incomplete' }
  | { readonly kind: 'invalid'; readonly reason: string }
  | {
      readonly kind: 'header';
      /** Octets of the header; the client's octets follow. */
      readonly length: number;
      /** The client; undefined for LOCAL, UNKNOWN and sockets that are not IP: the client then is the balancer itself. */
      readonly source: string | undefined;
    };

const signature = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1');
const prefix = Buffer.from('PROXY ');
/** §2.1: 107 octets with CRLF hold every line of version 1. */
const maxLineOctets = 107;
const fixedOctets = 16;
/** The length field of version 2 allows 65,535; addresses and the known TLVs need far less. */
const maxBodyOctets = 4096;

function invalid(reason: string): ProxyHeader {
  return { kind: 'invalid', reason };
}

/** Reads the header at the start of a connection. @param octets all octets so far; a header may arrive in pieces of any size */
export function readProxyHeader(octets: Buffer): ProxyHeader {
  const seen = Math.min(octets.length, signature.length);
  if (octets.compare(signature, 0, seen, 0, seen) === 0) {
    return octets.length < fixedOctets ? { kind: 'incomplete' } : readVersion2(octets);
  }
  const seenPrefix = Math.min(octets.length, prefix.length);
  if (octets.compare(prefix, 0, seenPrefix, 0, seenPrefix) !== 0) return invalid('neither version 1 nor 2');
  const end = octets.subarray(0, maxLineOctets).indexOf('\r\n');
  if (end >= 0) return readVersion1(octets.toString('latin1', 0, end), end + 2);
  return octets.length < maxLineOctets ? { kind: 'incomplete' } : invalid('line of more than 107 octets');
}

function readVersion1(line: string, length: number): ProxyHeader {
  if (/^PROXY UNKNOWN(?: |$)/.test(line)) return { kind: 'header', length, source: undefined };
  const [, family, ...addresses] = /^PROXY TCP([46]) (\S+) (\S+) \d{1,5} \d{1,5}$/.exec(line) ?? [];
  const isValid = (text: string): boolean =>
    family === '4' ? ipaddr.IPv4.isValidFourPartDecimal(text) : ipaddr.IPv6.isValid(text);
  const source = addresses.every(isValid) ? normalAddress(addresses[0] ?? '') : undefined;
  return source === undefined ? invalid('malformed line') : { kind: 'header', length, source };
}

function readVersion2(octets: Buffer): ProxyHeader {
  const versionAndCommand = octets[12] ?? 0;
  const family = (octets[13] ?? 0) >> 4;
  const bodyLength = octets.readUInt16BE(14);
  if (versionAndCommand >> 4 !== 2) return invalid('unknown version');
  const command = versionAndCommand & 0x0f;
  if (command > 1) return invalid('unknown command');
  if (bodyLength > maxBodyOctets) return invalid('header too long');
  const length = fixedOctets + bodyLength;
  if (octets.length < length) return { kind: 'incomplete' };
  if (command === 1 && family > 3) return invalid('unknown address family');
  const width = family === 1 ? 4 : 16;
  // §2.2: behind LOCAL the receiver discards the rest; it comes from the balancer's own health check.
  if (command === 0 || (family !== 1 && family !== 2)) return { kind: 'header', length, source: undefined };
  // Both addresses and both ports; what stands behind them says nothing of the client.
  if (bodyLength < 2 * width + 4) return invalid('addresses cut short');
  const address = ipaddr.fromByteArray([...octets.subarray(fixedOctets, fixedOctets + width)]).toString();
  return { kind: 'header', length, source: ipaddr.process(address).toString() };
}

interface Arrival {
  readonly place: ConnectionSlot;
  /** Milliseconds of the monotonic clock. */
  readonly deadline: number;
  /** The client's address, known once a PROXY header is read where one is required. */
  address: string | undefined;
}

interface Admitted extends Admission {
  readonly place: ConnectionSlot;
}

/** Listens, and hands admitted connections to sessions. */
export class SmtpListenerServer extends LibraryServer<Admitted> {
  readonly #counter: ConnectionCounter;
  /** The context of sessions that begin now; a session keeps the one it began with. */
  #context: SessionContext;
  readonly #arrivals = new Map<Socket, Arrival>();
  #proxied: (address: string) => boolean;
  #allowed: (address: string) => boolean;

  /** @param tls undefined where the listener has no TLS */
  constructor(context: SessionContext, counter: ConnectionCounter, tls: TlsCredentials | undefined) {
    const { listener, limits } = context;
    super(listener.tls, tls, limits.authSeconds * 1000);
    this.#counter = counter;
    this.#context = context;
    this.#proxied = addressTest(listener.proxyProtocolFrom);
    this.#allowed = addressTest(listener.allowFrom);
  }

  /** Gives later connections another context, of a listener at the same address with the same TLS mode. */
  follow(context: SessionContext): void {
    this.#context = context;
    this.#proxied = addressTest(context.listener.proxyProtocolFrom);
    this.#allowed = addressTest(context.listener.allowFrom);
  }

  /** Binds the socket. @param setting says where it listens, for the error @throws ConfigurationError when it cannot be bound */
  async open(setting: string): Promise<AddressInfo> {
    const { listener } = this.#context;
    try {
      return await this.bind(listener);
    } catch (cause) {
      throw new ConfigurationError(
        `Cannot listen on ${listener.host}:${listener.port} for SMTP listener "${listener.name}": ${listenFault(cause, setting)}`,
        { cause },
      );
    }
  }

  /** Drops connections that have not become sessions in time. */
  checkDeadlines(now: number): void {
    for (const [socket, arrival] of this.#arrivals) {
      if (now < arrival.deadline) continue;
      this.#logRefusal(arrival.address ?? socket.remoteAddress, 'no session in time');
      this.drop(socket);
    }
  }

  protected override handshakeFailed(error: Error): void {
    const { log, listener } = this.#context;
    log.debug({ listener: listener.name, error: error.message }, 'TLS handshake failed');
  }

  protected override listenerFailed(error: Error): void {
    const { log, listener } = this.#context;
    log.error({ listener: listener.name, err: error }, 'listener failed');
  }

  protected override arrived(socket: Socket): (() => void) | undefined {
    const context = this.#context;
    socket.on('error', ignoreError);
    const place = this.#counter.enter();
    if (!place) {
      this.#refuse(socket, socket.remoteAddress, replies.tooManyConnections);
      return undefined;
    }
    const deadline = context.clock.monotonic() + context.limits.authSeconds * 1000;
    this.#arrivals.set(socket, { place, deadline, address: undefined });
    // STARTTLS removes this listener with all others; the session then gives the place back.
    socket.once('close', () => place.leave());
    return () => void this.#arrivals.delete(socket);
  }

  protected override identify(socket: Socket, done: (known: Admitted | Error) => void): void {
    const peer = normalAddress(socket.remoteAddress ?? '');
    if (peer === undefined) {
      socket.destroy();
      return done(new Error('The connection is already gone'));
    }
    if (!this.#proxied(peer)) return this.#judge(socket, peer, done);
    readHeader(socket, (header) => {
      if (header.kind === 'header') return this.#judge(socket, header.source ?? peer, done);
      const reason = header.kind === 'invalid' ? header.reason : 'closed before it was complete';
      this.#logRefusal(peer, `PROXY header: ${reason}`);
      socket.destroy();
      done(new Error(reason));
    });
  }

  #judge(socket: Socket, address: string, done: (known: Admitted | Error) => void): void {
    const arrival = this.#arrivals.get(socket);
    const refusal = arrival ? this.#refusal(arrival, address) : replies.shuttingDown;
    void whenKnown(refusal, (given) => {
      done(socket.destroyed ? new Error('The connection is already gone') : this.#admit(socket, address, given));
    });
  }

  #admit(socket: Socket, address: string, refusal: Answer | undefined): Admitted | Error {
    const arrival = this.#arrivals.get(socket);
    if (arrival && !refusal) return { id: randomHex(8), remoteAddress: address, place: arrival.place };
    this.#refuse(socket, address, refusal ?? replies.shuttingDown);
    return new Error('The connection is refused');
  }

  /** Says why a client is not admitted, once its address is known; undefined where it is admitted. */
  #refusal(arrival: Arrival, address: string): MaybePromise<Answer | undefined> {
    arrival.address = address;
    const { listener } = this.#context;
    if (listener.credential && !this.#allowed(address)) return replies.notAllowedFrom;
    return whenKnown(arrival.place.claim(address), (isClaimed) => (isClaimed ? undefined : replies.tooManyConnections));
  }

  protected override begin(socket: Socket, { id, remoteAddress, place }: Admitted): SmtpSession {
    const context = this.#context;
    const transcript = context.keepsTranscripts ? { transcript: new SessionTranscript(context.clock.monotonic()) } : {};
    const client = { sessionId: id, address: remoteAddress, submitter: submitterOf(context), ...transcript };
    context.log.debug({ session: id, listener: context.listener.name, client: client.address }, 'connected');
    return new SmtpSession(this, { socket, client, context, place });
  }

  #refuse(socket: Socket, address: string | undefined, answer: Answer): void {
    this.#logRefusal(address, answer.text);
    // Before a TLS handshake no reply can be sent.
    if (this.#context.listener.tls === 'implicit') {
      socket.destroy();
      return;
    }
    socket.end(formatReply(answer), 'latin1');
    socket.destroySoon();
  }

  #logRefusal(client: string | undefined, reason: string): void {
    const { log, listener } = this.#context;
    log.info({ listener: listener.name, client, reason }, 'connection refused');
  }
}

/** Finds the submitter of a listener's sessions (D40c), each time anew; of a credential that is gone sessions go on. */
function submitterOf({ accounts, listener: { credential } }: SessionContext): () => Submitter | undefined {
  let last: Submitter | undefined;
  return () => (last = (credential && accounts.submitter(credential.account, credential.name)) ?? last);
}

function ignoreError(): void {
  // 'close' follows, and everything is done there.
}

/** Reads the PROXY header and puts the octets behind it back. `incomplete`: the connection ended within the header. */
function readHeader(socket: Socket, done: (header: ProxyHeader) => void): void {
  let octets: Buffer = Buffer.alloc(0);
  const finish = (header: ProxyHeader): void => {
    socket.removeListener('readable', onReadable);
    socket.removeListener('end', onGone);
    socket.removeListener('close', onGone);
    done(header);
  };
  const onGone = (): void => finish({ kind: 'incomplete' });
  const onReadable = (): void => {
    for (let chunk = readChunk(socket); chunk; chunk = readChunk(socket)) {
      octets = Buffer.concat([octets, chunk]);
      const header = readProxyHeader(octets);
      if (header.kind === 'incomplete') continue;
      if (header.kind === 'header' && octets.length > header.length) socket.unshift(octets.subarray(header.length));
      return finish(header);
    }
  };
  socket.on('readable', onReadable);
  socket.on('end', onGone);
  socket.on('close', onGone);
}

function readChunk(socket: Socket): Buffer | undefined {
  const chunk: unknown = socket.read();
  return Buffer.isBuffer(chunk) ? chunk : undefined;
}
