// One bound HTTP or HTTPS listener of node:http: its limits and timeouts, octets that are no HTTP, and a close that waits for
// answers under way (D66, D67, D68, D97). Its handlers decide who answers.

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

/** Octets or a connection that were refused before there was a request to answer. */
export interface RefusedOctets {
  readonly rayId: string;
  /** Absent where the connection was closed without a word. */
  readonly status?: number | undefined;
  readonly client?: string | undefined;
  /** The parser's error, or the limit that was reached. */
  readonly cause?: string | undefined;
}

/** What a listener is made from. */
export interface HttpListenerParts {
  readonly handlers: ListenerHandlers;
  /** Absent: plain HTTP. */
  readonly tls?: ListenerTls | undefined;
  /** Shared with other listeners; absent: as many connections as come. */
  readonly limit?: ConnectionLimit | undefined;
  /** Milliseconds after which a client that takes nothing of an answer is cut; absent: 300,000. */
  readonly clientStallMs?: number | undefined;
  /** Called with each refusal. */
  readonly onRefused?: ((refused: RefusedOctets) => void) | undefined;
}

/** A listener. */
export interface HttpListener {
  listen(at: BoundHttp): Promise<BoundHttp>;
  /**
   * Shows another certificate to clients that ask for no name, or for one without a certificate; sessions of TLS from
   * before are not resumed. Plain HTTP has none and does nothing. Connections that are up go on.
   * @throws Error where certificate and key do not fit one another
   */
  showCertificate(shown: Pick<ListenerTls, 'cert' | 'key'>): void;
  /** What is open now. */
  open(): OpenHttp;
  /**
   * Stops accepting, lets requests in flight finish with `Connection: close`, and cuts what is left after so many
   * milliseconds.
   */
  close(withinMs: number): Promise<void>;
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
  headersTimeout: 20_000,
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

/** Answers on the socket, ends the connection, and tells of it. */
function refuseSocket(
  socket: Socket,
  { onRefused }: Pick<HttpListenerParts, 'onRefused'>,
  { status, text, cause }: { readonly status: number; readonly text: string; readonly cause: string | undefined },
): void {
  const rayId = randomHex(8);
  writeWhole(socket, plainWhole(status, text, { rayId }));
  onRefused?.({ rayId, status, client: socket.remoteAddress, cause });
}

/** RFC 9110 §15.6.4: a connection above the limit gets a 503, or no answer if many are refused at once or TLS comes first. */
class Refusals {
  readonly #parts: HttpListenerParts;
  #open = 0;

  constructor(parts: HttpListenerParts) {
    this.#parts = parts;
  }

  refuse(socket: Socket, refusal: ConnectionRefusal): void {
    const { tls, onRefused } = this.#parts;
    const rayId = randomHex(8);
    const isTold = !tls && this.#open < maxToldRefusals;
    onRefused?.({
      rayId,
      status: isTold ? 503 : undefined,
      client: socket.remoteAddress,
      cause: refusal === 'all' ? 'too many connections' : 'too many connections from this address',
    });
    if (!isTold) {
      socket.destroy();
      return;
    }
    this.#open += 1;
    socket.once('close', () => (this.#open -= 1));
    socket.on('error', () => socket.destroy());
    new RequestTurns(socket).stop();
    writeWhole(socket, plainWhole(503, 'Too many connections', { rayId, headers: { 'Retry-After': '30' } }));
  }
}

function makeServer({ handlers, tls, clientStallMs }: HttpListenerParts): Server {
  const options = { ...serverOptions, shouldUpgradeCallback: handlers.takesUpgrade };
  const server = tls
    ? createTlsServer({
        ...options,
        // A client that has ended its side still gets its answer, as without TLS.
        allowHalfOpen: true,
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

/** Makes a listener. With `tls` it speaks HTTPS, by TLS 1.2 or newer. */
export function createListener(parts: HttpListenerParts): HttpListener {
  const { handlers, tls, limit } = parts;
  const server = makeServer(parts);
  const connections = new Connections();
  const refusals = new Refusals(parts);
  const judged = new WeakMap<Socket, ConnectionRefusal>();
  const accept = (socket: Socket): void => {
    // Once asked, Node remembers the address after the client has gone. A client that has gone before this is never served: the
    // kernel may still hand out its octets, but no limit, block list or log could name their sender.
    const address = socket.remoteAddress;
    if (address === undefined) {
      socket.destroy();
      return;
    }
    const refusal = limit?.overAll ? judged.get(socket) : limit?.take(address);
    if (refusal) {
      refusals.refuse(socket, refusal);
      return;
    }
    if (limit && !limit.overAll) socket.once('close', () => limit.closed(address));
    connections.accepted(socket);
    if (!tls) connections.speaks(socket);
  };
  const onRequest = (request: IncomingMessage, response: ServerResponse): void => {
    connections.asked(request, response, () => {
      if (refusesVersion(request)) return;
      // Mostly there is no body, and the request is complete before anybody answers it.
      if (!request.complete) response.on('finish', () => linger(request));
      handlers.request(request, response);
    });
  };
  /** Refuses a request that is neither HTTP/1.0 nor HTTP/1.1, whose octets have another meaning than ours (RFC 9112 §2.3). */
  const refusesVersion = ({ httpVersion, socket }: IncomingMessage): boolean => {
    if (httpVersion === '1.1' || httpVersion === '1.0') return false;
    connections.broke(socket);
    refuseSocket(socket, parts, { status: 505, text: 'HTTP Version Not Supported', cause: `HTTP/${httpVersion}` });
    return true;
  };
  /** Hands a connection to the server once it is known whether it may come in by the count over all processes. */
  const arrive = async (socket: Socket, ofProcess: ConnectionLimit, overAll: OverAll): Promise<void> => {
    const address = socket.remoteAddress;
    const destroy = (): void => void socket.destroy();
    socket.on('error', destroy);
    if (address === undefined) {
      destroy();
      return;
    }
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
    if (refusal) judged.set(socket, refusal);
    server.emit('connection', socket);
  };
  let accepting: Accepting | undefined;
  server.on('connection', accept);
  if (tls) {
    server.on('secureConnection', (socket: Socket) => {
      if (socket.remoteAddress === undefined) socket.destroy();
      else connections.speaks(socket);
    });
  }
  server.on('request', onRequest);
  // RFC 9110 §10.1.1: whoever reads the body sends 100 (Continue), and only once the body is wanted.
  server.on('checkContinue', onRequest);
  server.on('checkExpectation', onRequest);
  // With these two events Node gives the socket away, without its own error handler.
  server.on('upgrade', (request, socket: Socket, head) => {
    const behind = connections.upgraded(socket);
    socket.on('error', () => socket.destroy());
    if (refusesVersion(request)) return;
    // Node before 24.9 knows no shouldUpgradeCallback and brings every upgrade here, h2c too, which must reach no origin.
    if (handlers.takesUpgrade(request)) handlers.upgrade(request, socket, Buffer.concat([head, behind]));
    else {
      const cause = 'an upgrade that is not taken';
      refuseSocket(socket, parts, { status: 501, text: 'This upgrade is not taken', cause });
    }
  });
  server.on('connect', (request, socket: Socket) => {
    connections.upgraded(socket);
    socket.on('error', () => socket.destroy());
    if (!refusesVersion(request)) handlers.connect(request, socket);
  });
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    onClientError(error, socket, { connections, onRefused: parts.onRefused });
  });
  server.on('timeout', (socket: Socket) => connections.timedOut(socket));
  return {
    async listen(at) {
      const overAll = limit?.overAll;
      accepting =
        limit && overAll
          ? await listenShared(at, (socket) => void arrive(socket, limit, overAll))
          : await listenBySeveral(server, at);
      return accepting.at;
    },
    showCertificate({ cert, key }) {
      if (server instanceof TlsServer) server.setSecureContext({ cert, key, minVersion: oldestTls });
    },
    open: () => connections.open(),
    async close(withinMs) {
      connections.close();
      const cut = setTimeout(() => connections.cutAll(), withinMs);
      const cutSilent = setTimeout(() => connections.cutSilent(), Math.min(withinMs, silentGraceMs));
      await accepting?.stop();
      // The servers are closed before their sockets are, so that the close of each socket is still counted.
      await connections.whenEmpty();
      clearTimeout(cut);
      clearTimeout(cutSilent);
    },
  };
}
