// One listening socket: admits connections, reads PROXY headers, and starts sessions (D40, D40c, D42). Of smtp-server's
// SMTPServer the listening socket and the implicit TLS handshake are used; whom to admit is decided here, before TLS.

/* oxlint-disable no-underscore-dangle -- the library names what a subclass may override so */

import type { AddressInfo, Socket } from 'node:net';
import { SMTPServer } from 'smtp-server';
import type { Submitter } from '../../accounts/account.ts';
import { ConfigurationError, errorMessage } from '../../base/errors.ts';
import { randomHex } from '../../base/ids.ts';
import { addressTest } from '../../base/net/address-test.ts';
import { normalAddress } from '../../base/net/socket-address.ts';
import type { ConnectionCounter, ConnectionPlace } from './connection-counter.ts';
import { type ProxyHeader, readProxyHeader } from './proxy-protocol.ts';
import { type Answer, formatReply, replies } from './replies.ts';
import { type SessionContext, SmtpSession } from './smtp-session.ts';

/** Certificate and key of a listener, PEM. */
export interface TlsCredentials {
  readonly cert: string | Buffer;
  readonly key: string | Buffer;
}

/** Everything a listener is made of. */
export interface ListenerParts {
  readonly context: SessionContext;
  /** Undefined where the listener has no TLS. */
  readonly tls: TlsCredentials | undefined;
  readonly counter: ConnectionCounter;
  readonly onRefused: () => void;
}

/** A connection that has no session yet. */
interface Arrival {
  readonly place: ConnectionPlace;
  /** Milliseconds since 1970. */
  readonly deadline: number;
  /** Known once a PROXY header is read, where one is due. */
  address: string | undefined;
}

/** What `_handleProxy` hands to `connect`, through the library. */
interface SocketOptions {
  readonly id: string;
  readonly remoteAddress: string;
  readonly place: ConnectionPlace;
}

/** Listens, and hands admitted connections to sessions. */
export class SmtpListenerServer extends SMTPServer {
  readonly #parts: ListenerParts;
  readonly #arrivals = new Map<Socket, Arrival>();
  readonly #proxied: (address: string) => boolean;
  readonly #allowed: (address: string) => boolean;

  constructor(parts: ListenerParts) {
    const { listener, limits } = parts.context;
    super({
      // Its own logger would write bodies of replies and more; everything is logged by our own.
      logger: false,
      secure: listener.tls === 'implicit',
      hideSTARTTLS: listener.tls !== 'starttls',
      disabledCommands: [],
      disableReverseLookup: true,
      // A client that closes its side behind its last command still gets the replies.
      allowHalfOpen: true,
      // The library's default lets TLS 1.0 in.
      minVersion: 'TLSv1.2',
      socketTimeout: limits.authSeconds * 1000,
      ...(parts.tls ? { cert: parts.tls.cert, key: parts.tls.key } : {}),
    });
    this.#parts = parts;
    this.#proxied = addressTest(listener.proxyProtocolFrom);
    this.#allowed = addressTest(listener.allowFrom);
    this.on('error', (error: Error) => {
      const { log } = parts.context;
      // The library notes what it knows of a failed TLS handshake; without it the listening socket itself has failed.
      if ('meta' in error) log.debug({ listener: listener.name, error: error.message }, 'TLS handshake failed');
      else if (this.server.listening) log.error({ listener: listener.name, err: error }, 'listener failed');
    });
  }

  /**
   * Binds the listening socket.
   * @throws ConfigurationError when it cannot be bound
   */
  async open(): Promise<AddressInfo> {
    const { listener } = this.#parts.context;
    await new Promise<void>((resolve, reject) => {
      const fail = (cause: Error): void =>
        reject(
          new ConfigurationError(
            `Cannot listen on ${listener.host}:${listener.port} for SMTP listener "${listener.name}": ${errorMessage(cause)}`,
            { cause },
          ),
        );
      this.server.once('error', fail);
      this.server.listen({ host: listener.host, port: listener.port, backlog: 511 }, () => {
        this.server.removeListener('error', fail);
        resolve();
      });
    });
    const address = this.server.address();
    if (address === null || typeof address === 'string') throw new Error('The SMTP listener has no address');
    return address;
  }

  /** Stops accepting and drops connections without a session; resolves when the last connection has gone. */
  shut(): Promise<void> {
    for (const top of this._pendingSockets.values()) top.destroy();
    return new Promise((resolve) => {
      this.server.close(() => resolve());
    });
  }

  /** Drops connections that have not become sessions in time. */
  checkDeadlines(now: number): void {
    for (const [socket, arrival] of this.#arrivals) {
      if (now < arrival.deadline) continue;
      this.#logRefusal(arrival.address ?? socket.remoteAddress, 'no session in time');
      // The topmost socket: a TLS handshake is not torn down from below.
      (this._pendingSockets.get(socket) ?? socket).destroy();
    }
  }

  // Called by the library for each accepted socket; what it gives back is called when the session begins or never will.
  override _acceptSocket(socket: Socket, _handshake: boolean): (() => void) | false {
    const { context, counter } = this.#parts;
    socket.on('error', ignoreError);
    const place = counter.enter();
    if (!place) {
      this.#refuse(socket, { address: socket.remoteAddress, answer: replies.tooManyConnections });
      return false;
    }
    const deadline = context.clock.monotonic() + context.limits.authSeconds * 1000;
    this.#arrivals.set(socket, { place, deadline, address: undefined });
    // The library notes the TLS socket here once there is one.
    this._pendingSockets.set(socket, socket);
    const arrived = (): void => {
      this.#arrivals.delete(socket);
      this._pendingSockets.delete(socket);
    };
    // STARTTLS takes this listener away with all others; the session leaves the place then.
    socket.once('close', () => {
      arrived();
      place.leave();
    });
    return arrived;
  }

  // Called by the library before the TLS handshake.
  override _handleProxy(socket: Socket, callback: (error: Error | null, options?: SocketOptions) => void): void {
    const peer = normalAddress(socket.remoteAddress ?? '');
    if (peer === undefined) {
      socket.destroy();
      callback(new Error('The connection is already gone'));
      return;
    }
    const admit = (address: string): void => {
      const arrival = this.#arrivals.get(socket);
      const refusal = arrival ? this.#refusal(arrival, address) : replies.shuttingDown;
      if (!arrival || refusal) {
        this.#refuse(socket, { address, answer: refusal ?? replies.shuttingDown });
        callback(new Error('The connection is refused'));
        return;
      }
      const options: SocketOptions = { id: randomHex(8), remoteAddress: address, place: arrival.place };
      callback(null, options);
    };
    if (!this.#proxied(peer)) {
      admit(peer);
      return;
    }
    readHeader(socket, (header) => {
      if (header.kind === 'header') {
        admit(header.source?.address ?? peer);
        return;
      }
      const reason = header.kind === 'invalid' ? header.reason : 'closed before it was complete';
      this.#logRefusal(peer, `PROXY header: ${reason}`);
      this.#parts.onRefused();
      socket.destroy();
      callback(new Error(reason));
    });
  }

  // Called by the library for implicit TLS. A client that closes its side inside the handshake would leave the
  // connection open for ever; the session allows it again.
  override _upgrade(socket: Socket, callback: Parameters<SMTPServer['_upgrade']>[1]): void {
    socket.allowHalfOpen = false;
    super._upgrade(socket, callback);
  }

  /** Says why a client is not admitted, once its address is known. */
  #refusal(arrival: Arrival, address: string): Answer | undefined {
    arrival.address = address;
    const { listener } = this.#parts.context;
    if (listener.credential && !this.#allowed(address)) return replies.notAllowedFrom;
    return arrival.place.claim(address) ? undefined : replies.tooManyConnections;
  }

  // Called by the library when PROXY header and TLS handshake are done.
  override connect(socket: Socket, options: SocketOptions): void {
    const { context } = this.#parts;
    const client = { sessionId: options.id, address: options.remoteAddress, submitter: this.#submitter() };
    const session = new SmtpSession(this, { socket, client, context, place: options.place });
    this.connections.add(session);
    context.log.debug({ session: options.id, listener: context.listener.name, client: client.address }, 'connected');
    session.init();
  }

  #refuse(
    socket: Socket,
    { address, answer }: { readonly address: string | undefined; readonly answer: Answer },
  ): void {
    this.#parts.onRefused();
    this.#logRefusal(address, answer.text);
    // In front of a TLS handshake nothing can be said.
    if (this.#parts.context.listener.tls === 'implicit') {
      socket.destroy();
      return;
    }
    socket.end(formatReply(answer), 'latin1');
    socket.destroySoon();
  }

  #logRefusal(client: string | undefined, reason: string): void {
    const { log, listener } = this.#parts.context;
    log.info({ listener: listener.name, client, reason }, 'connection refused');
  }

  #submitter(): Submitter | undefined {
    const { accounts, listener } = this.#parts.context;
    const { credential } = listener;
    return credential && accounts.submitter(credential.account, credential.name);
  }
}

function ignoreError(): void {
  // 'close' follows, and everything is done there.
}

/** Reads the PROXY header; octets behind it go back to the socket. `incomplete`: the connection ended before. */
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
      finish(header);
      return;
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
