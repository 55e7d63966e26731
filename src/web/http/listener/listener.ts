// One bound HTTP or HTTPS listener: limits, timeouts, octets that are no HTTP, a close that waits (D66, D67, D68, D97).

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer, Server as TlsServer } from 'node:https';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { SecureContext } from 'node:tls';
import { randomHex } from '../../../base/ids.ts';
import { type Accepting, type BoundHttp, listenBySeveral, listenShared } from './accepting.ts';
import type { ConnectionLimit, ConnectionRefusal } from './connection-limit.ts';
import { Connections, type OpenHttp } from './connections.ts';
import { RequestTurns } from './request-turns.ts';
import { lingerMs, plainWhole, writeWhole } from './whole-response.ts';

/** The functions that answer requests. */
export interface ListenerHandlers {
  readonly request: (request: IncomingMessage, response: ServerResponse) => void;
  /** Whether a request to upgrade is taken as one; if not, it is an ordinary request (RFC 9110 §7.8). */
  readonly takesUpgrade: (request: IncomingMessage) => boolean;
  readonly upgrade: (request: IncomingMessage, socket: Duplex, head: Buffer) => void;
  readonly connect: (request: IncomingMessage, socket: Duplex) => void;
}

/** Certificates of an HTTPS listener. */
export interface ListenerTls {
  /** PEM; shown to a client that asks for no name, or for one without a certificate. */
  readonly cert: string;
  readonly key: string;
  /** The context of a name, in lower case. */
  readonly contextOf: (serverName: string) => SecureContext | undefined;
}

interface RefusedOctets {
  readonly rayId: string;
  /** Absent where the connection was closed without a word. */
  readonly status?: number | undefined;
  readonly client?: string | undefined;
  /** The parser's error, or the limit that was reached. */
  readonly cause?: string | undefined;
}

interface HttpListenerParts {
  /** Gives those in force. */
  readonly handlers: () => ListenerHandlers;
  /** Absent: plain HTTP. */
  readonly tls?: ListenerTls | undefined;
  /** Shared with other listeners; absent: as many connections as come. */
  readonly limit?: ConnectionLimit | undefined;
  /** Milliseconds after which a client that takes nothing of an answer is cut; absent: 300,000. */
  readonly clientStallMs?: number | undefined;
  /** Milliseconds that a client has for the head of a request, looked at once a second; absent: 20,000. */
  readonly headMs?: number | undefined;
  readonly onRefused?: ((refused: RefusedOctets) => void) | undefined;
}

/** Octets of a request's head that the parser takes (D66); above it, a bare 431. */
const maxParsedHeadBytes = 262_144;
/** Milliseconds that a connection without a whole request has left once the listener closes. */
const silentGraceMs = 500;
const handshakeTimeoutMs = 20_000;
const defaultClientStallMs = 300_000;
/** How many connections over the limit are answered at the same time; further ones are closed at once. */
const maxToldRefusals = 64;

type OverAll = NonNullable<ConnectionLimit['overAll']>;

const oldestTls = 'TLSv1.2';

const serverOptions = {
  maxHeaderSize: maxParsedHeadBytes,
  requireHostHeader: false,
  // Whoever reads a body sets its timeout, since an upload to an origin may take long.
  requestTimeout: 0,
  // Node looks every 30 s otherwise, and a client would have up to 50 s.
  connectionsCheckingInterval: 1000,
  keepAliveTimeout: 30_000,
} as const;

const clientErrors: Readonly<Record<string, readonly [number, string]>> = {
  HPE_HEADER_OVERFLOW: [431, 'Request Header Fields Too Large'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'Request Timeout'],
};

/** RFC 9112 §6.1: with a coding that is not known the end of the body cannot be found. */
const unknownCoding = [501, 'Transfer-Encoding is not taken, but for chunked'] as const;

/** Throws away an unwanted body for a while, so that the client can read why it is refused, and then cuts the connection. */
function linger(request: IncomingMessage): void {
  if (request.complete) return;
  const cut = setTimeout(() => {
    if (!request.complete) request.socket.destroy();
  }, lingerMs);
  cut.unref();
  request.once('close', () => clearTimeout(cut));
}

/** Answers octets that are no HTTP. The answer is written to the socket, since there is no request to answer. */
function onClientError(
  error: NodeJS.ErrnoException,
  socket: Socket,
  { connections, onRefused }: { readonly connections: Connections; readonly onRefused: HttpListenerParts['onRefused'] },
): void {
  const state = connections.broke(socket);
  // An error written into an unfinished answer would be taken for a part of it.
  if (!socket.writable || error.code === 'ECONNRESET' || state === 'between') {
    socket.destroy();
    return;
  }
  if (state === 'whole') {
    socket.destroySoon();
    return;
  }
  const known = state === 'unframed' ? unknownCoding : clientErrors[error.code ?? ''];
  const [status, text] = known ?? [400, 'Bad Request'];
  refuseSocket(socket, { onRefused }, { status, text, cause: error.code });
}

interface SocketRefusal extends Pick<RefusedOctets, 'cause'> {
  readonly status: number;
  readonly text: string;
  readonly headers?: Readonly<Record<string, string>>;
}

function refuseSocket(
  socket: Socket,
  { onRefused }: Pick<HttpListenerParts, 'onRefused'>,
  { status, text, cause, headers = {} }: SocketRefusal,
): void {
  const rayId = randomHex(8);
  writeWhole(socket, plainWhole(status, text, { rayId, headers }));
  onRefused?.({ rayId, status, client: socket.remoteAddress, cause });
}

function makeServer({ handlers, tls, clientStallMs, headMs = 20_000 }: HttpListenerParts): Server {
  const options = {
    ...serverOptions,
    headersTimeout: headMs,
    shouldUpgradeCallback: (request: IncomingMessage) => handlers().takesUpgrade(request),
  };
  const server = tls
    ? createTlsServer({
        ...options,
        cert: tls.cert,
        key: tls.key,
        minVersion: oldestTls,
        ALPNProtocols: ['http/1.1'],
        handshakeTimeout: handshakeTimeoutMs,
        SNICallback: (name, done) => done(null, tls.contextOf(name.toLowerCase())),
      })
    : createServer(options);
  // No limit on the number of fields: a field that the parser dropped would be neither judged nor sent on.
  server.maxHeadersCount = 0;
  server.timeout = clientStallMs ?? defaultClientStallMs;
  return server;
}

/** A listener. With `tls` it speaks HTTPS, by TLS 1.2 or newer. */
export class HttpListener {
  readonly #parts: HttpListenerParts;
  readonly #server: Server;
  readonly #connections = new Connections();
  /** Connections over the limit that are being answered. */
  #toldRefusals = 0;
  /** What the count over all processes said of connections that are handed to the server. */
  readonly #judged = new WeakMap<Socket, ConnectionRefusal>();
  #accepting: Accepting | undefined;

  /** Binds nothing before `listen`. */
  constructor(parts: HttpListenerParts) {
    this.#parts = parts;
    const server = makeServer(parts);
    this.#server = server;
    server.on('connection', this.#accept);
    if (parts.tls) {
      // Before Node begins TLS on it: a client that ends its side within the handshake can never finish it.
      server.prependListener('connection', (socket) => (socket.allowHalfOpen = false));
      server.on('secureConnection', this.#acceptTls);
    }
    server.on('request', this.#onRequest);
    // RFC 9110 §10.1.1: whoever reads the body sends 100 (Continue), and only once the body is wanted.
    server.on('checkContinue', this.#onRequest);
    server.on('checkExpectation', this.#onRequest);
    // With these two events Node gives the socket away, without its own error handler.
    server.on('upgrade', this.#onUpgrade);
    server.on('connect', this.#onConnect);
    server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) =>
      onClientError(error, socket, { connections: this.#connections, onRefused: parts.onRefused }),
    );
    server.on('timeout', (socket: Socket) => this.#connections.timedOut(socket));
  }

  readonly #accept = (socket: Socket): void => {
    const { limit, tls } = this.#parts;
    // Node remembers the address once asked. Of a client that has gone before, no limit, block list or log could name the sender.
    const address = socket.remoteAddress;
    if (address === undefined) return void socket.destroy();
    const refusal = limit?.overAll ? this.#judged.get(socket) : limit?.take(address);
    if (refusal) return this.#refuse(socket, refusal);
    if (limit && !limit.overAll) socket.once('close', () => limit.closed(address));
    this.#connections.accepted(socket);
    if (!tls) this.#connections.speaks(socket);
  };

  /** RFC 9110 §15.6.4: a connection above the limit gets a 503, or no answer if many are refused at once or TLS comes first. */
  #refuse(socket: Socket, refusal: ConnectionRefusal): void {
    const cause = refusal === 'all' ? 'too many connections' : 'too many connections from this address';
    const { tls, onRefused } = this.#parts;
    if (tls || this.#toldRefusals >= maxToldRefusals) {
      onRefused?.({ rayId: randomHex(8), client: socket.remoteAddress, cause });
      socket.destroy();
      return;
    }
    this.#toldRefusals += 1;
    socket.once('close', () => (this.#toldRefusals -= 1));
    socket.on('error', () => socket.destroy());
    new RequestTurns(socket).stop();
    const headers = { 'Retry-After': '30' };
    refuseSocket(socket, this.#parts, { status: 503, text: 'Too many connections', cause, headers });
  }

  readonly #acceptTls = (socket: Socket): void => {
    // From here on a client that has ended its side still gets its answer, as without TLS.
    socket.allowHalfOpen = true;
    if (socket.remoteAddress === undefined) socket.destroy();
    else this.#connections.speaks(socket);
  };

  readonly #onRequest = (request: IncomingMessage, response: ServerResponse): void =>
    this.#connections.asked(request, response, () => {
      if (this.#refusesVersion(request)) return;
      // Mostly there is no body, and the request is complete before anybody answers it.
      if (!request.complete) response.on('finish', () => linger(request));
      this.#parts.handlers().request(request, response);
    });

  readonly #onUpgrade = (request: IncomingMessage, socket: Socket, head: Buffer): void => {
    const handlers = this.#parts.handlers();
    const behind = this.#connections.upgraded(socket);
    socket.on('error', () => socket.destroy());
    if (this.#refusesVersion(request)) return;
    // Node before 24.9 knows no shouldUpgradeCallback and brings every upgrade here, h2c too, which must reach no origin.
    if (handlers.takesUpgrade(request)) return handlers.upgrade(request, socket, Buffer.concat([head, behind]));
    const cause = 'an upgrade that is not taken';
    refuseSocket(socket, this.#parts, { status: 501, text: 'This upgrade is not taken', cause });
  };

  readonly #onConnect = (request: IncomingMessage, socket: Socket): void => {
    this.#connections.upgraded(socket);
    socket.on('error', () => socket.destroy());
    if (!this.#refusesVersion(request)) this.#parts.handlers().connect(request, socket);
  };

  /** Refuses a request that is neither HTTP/1.0 nor HTTP/1.1, whose octets have another meaning than ours (RFC 9112 §2.3). */
  #refusesVersion({ httpVersion, socket }: IncomingMessage): boolean {
    const isHttp = this.#connections.isHttp(socket);
    if (isHttp && (httpVersion === '1.1' || httpVersion === '1.0')) return false;
    this.#connections.broke(socket);
    const cause = isHttp ? `HTTP/${httpVersion}` : 'another protocol than HTTP';
    refuseSocket(socket, this.#parts, { status: 505, text: 'HTTP Version Not Supported', cause });
    return true;
  }

  /** Hands a connection to the server once it is known whether it may come in by the count over all processes. */
  async #arrive(socket: Socket, ofProcess: ConnectionLimit, overAll: OverAll): Promise<void> {
    const address = socket.remoteAddress;
    const destroy = (): void => void socket.destroy();
    socket.on('error', destroy);
    if (address === undefined) return destroy();
    let refusal = ofProcess.take(address);
    if (!refusal) {
      const taken = await overAll.take(address).catch(() => 'gone' as const);
      if (taken !== undefined || socket.destroyed) {
        ofProcess.closed(address);
        if (taken === undefined) overAll.closed(address);
      } else {
        socket.once('close', () => {
          ofProcess.closed(address);
          overAll.closed(address);
        });
      }
      if (taken === 'gone') destroy();
      else refusal = taken;
    }
    socket.off('error', destroy);
    if (socket.destroyed) return;
    if (refusal) this.#judged.set(socket, refusal);
    this.#server.emit('connection', socket);
  }

  async listen(at: BoundHttp): Promise<BoundHttp> {
    const { limit } = this.#parts;
    const overAll = limit?.overAll;
    this.#accepting =
      limit && overAll
        ? await listenShared(at, (socket) => void this.#arrive(socket, limit, overAll))
        : await listenBySeveral(this.#server, at);
    return this.#accepting.at;
  }

  /**
   * Shows another certificate to clients that ask for no name, or for one without a certificate; sessions of TLS from
   * before are not resumed. Plain HTTP has none and does nothing. Connections that are up go on.
   * @throws Error where certificate and key do not fit one another
   */
  showCertificate({ cert, key }: Pick<ListenerTls, 'cert' | 'key'>): void {
    if (this.#server instanceof TlsServer) this.#server.setSecureContext({ cert, key, minVersion: oldestTls });
  }

  open(): OpenHttp {
    return this.#connections.open();
  }

  /** Stops accepting, finishes requests with `Connection: close`, and cuts what is left after so many milliseconds. */
  async close(withinMs: number): Promise<void> {
    const connections = this.#connections;
    connections.close();
    const cut = setTimeout(() => connections.cutAll(), withinMs);
    const cutSilent = setTimeout(() => connections.cutSilent(), Math.min(withinMs, silentGraceMs));
    await this.#accepting?.stop();
    // The servers are closed before their sockets are, so that the close of each socket is still counted.
    await connections.whenEmpty();
    clearTimeout(cut);
    clearTimeout(cutSilent);
  }
}
