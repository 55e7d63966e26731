// One bound HTTP or HTTPS listener of node:http: limits, timeouts, what is no HTTP, and an end that waits for answers under
// way (D66, D67, D68, D97). Who answers is none of its business.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { SecureContext } from 'node:tls';
import { randomHex } from '../base/ids.ts';
import { lingerMs, plainWhole, writeWhole } from './whole-response.ts';

/** Where a listener is bound. */
export interface BoundHttp {
  readonly host: string;
  readonly port: number;
}

/** What answers. */
export interface ListenerHandlers {
  readonly request: (request: IncomingMessage, response: ServerResponse) => void;
  /** Whether a request to upgrade is taken as one; if not it is an ordinary request (RFC 9110 §7.8). */
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

/** A listener. */
export interface HttpListener {
  listen(at: BoundHttp): Promise<BoundHttp>;
  /**
   * Stops accepting, lets requests in flight finish with `Connection: close`, and cuts what is left after so many
   * milliseconds.
   */
  close(withinMs: number): Promise<void>;
}

/** Octets of a request's head that the parser takes (D66); above it, a bare 431. */
export const maxParsedHeadBytes = 262_144;
/** How long a connection that has asked nothing, or half a question, has once the listener closes. */
const silentGraceMs = 500;
const handshakeTimeoutMs = 20_000;

const serverOptions = {
  maxHeaderSize: maxParsedHeadBytes,
  requireHostHeader: false,
  // Who takes a body sets its time: an upload to an origin may be long.
  requestTimeout: 0,
  headersTimeout: 20_000,
  keepAliveTimeout: 30_000,
} as const;

const clientErrors: Readonly<Record<string, readonly [number, string]>> = {
  HPE_HEADER_OVERFLOW: [431, 'Request Header Fields Too Large'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'Request Timeout'],
};

/** A body nobody wants is thrown away for a while, so that the client can read why, and then cut off. */
function linger(request: IncomingMessage): void {
  if (request.complete) return;
  const cut = setTimeout(() => {
    if (!request.complete) request.socket.destroy();
  }, lingerMs);
  cut.unref();
  request.once('close', () => clearTimeout(cut));
}

function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

interface Speaking {
  readonly peer: string;
  readonly answers: Set<ServerResponse>;
  /** The request that came last, the only one that may still be coming. */
  last?: IncomingMessage;
  /** Whether its last answer is given. */
  isEnding: boolean;
}

/**
 * RFC 9112 §9.6: a connection closed while octets still come is reset, and the client may lose the answer with it. So where
 * Node would close it behind the last answer, our side ends first, and what still comes is thrown away for a while.
 */
function closeInStages(socket: Socket, speaking: Speaking): void {
  const closeSoon = socket.destroySoon.bind(socket);
  socket.destroySoon = () => {
    const { last } = speaking;
    if (!last || last.complete || !socket.writable) {
      closeSoon();
      return;
    }
    socket.end();
    last.once('end', closeSoon);
    last.resume();
    const cut = setTimeout(() => socket.destroy(), lingerMs);
    cut.unref();
    socket.once('close', () => clearTimeout(cut));
  };
}

/** Open connections, and the answers that each has under way. */
class Connections {
  /** Every TCP connection by its peer, TLS or not. */
  readonly #sockets = new Map<string, Socket>();
  /** Connections that speak HTTP. */
  readonly #speaking = new Map<Duplex, Speaking>();
  readonly #upgraded = new Set<Duplex>();
  #closing = false;

  accepted(socket: Socket): void {
    const peer = peerOf(socket);
    this.#sockets.set(peer, socket);
    socket.once('close', () => {
      if (this.#sockets.get(peer) === socket) this.#sockets.delete(peer);
    });
  }

  speaks(socket: Socket): void {
    const speaking: Speaking = { peer: peerOf(socket), answers: new Set(), isEnding: false };
    this.#speaking.set(socket, speaking);
    closeInStages(socket, speaking);
    socket.once('close', () => {
      this.#speaking.delete(socket);
      this.#upgraded.delete(socket);
    });
  }

  /** Notes a request; false where it is not to be answered, since an answer before it ends the connection. */
  asked(request: IncomingMessage, response: ServerResponse): boolean {
    const { socket } = request;
    const speaking = this.#speaking.get(socket);
    if (!speaking) return true;
    const { answers } = speaking;
    // RFC 9112 §9.6: nothing behind the last request is processed; what was refused may be the first half of an attack.
    if (speaking.isEnding) return false;
    for (const { shouldKeepAlive } of answers) if (!shouldKeepAlive) return false;
    answers.add(response);
    speaking.last = request;
    if (this.#closing) response.shouldKeepAlive = false;
    response.on('close', () => {
      answers.delete(response);
      if (!response.shouldKeepAlive) speaking.isEnding = true;
      if (this.#closing && answers.size === 0) socket.destroySoon();
    });
    return true;
  }

  upgraded(socket: Duplex): void {
    this.#upgraded.add(socket);
  }

  /** How far the answers of a connection are: nothing of one is written, all that were begun are whole, or neither. */
  state(socket: Duplex): 'clean' | 'whole' | 'between' {
    const answers = [...(this.#speaking.get(socket)?.answers ?? [])];
    if (answers.every(({ headersSent }) => !headersSent)) return this.#speaking.has(socket) ? 'clean' : 'between';
    return answers.every(({ headersSent, writableEnded }) => writableEnded || !headersSent) ? 'whole' : 'between';
  }

  close(): void {
    this.#closing = true;
    for (const { answers } of this.#speaking.values()) {
      for (const answer of answers) if (!answer.headersSent) answer.shouldKeepAlive = false;
    }
  }

  /** Cuts who has asked nothing: to Node such a connection is not idle, and would hold the end back. */
  cutSilent(): void {
    const peers = new Set<string>();
    for (const [socket, { peer, answers }] of this.#speaking) {
      peers.add(peer);
      if (answers.size === 0 && !this.#upgraded.has(socket)) socket.destroy();
    }
    for (const [peer, socket] of this.#sockets) if (!peers.has(peer)) socket.destroy();
  }

  cutAll(): void {
    for (const socket of this.#speaking.keys()) socket.destroy();
    for (const socket of this.#sockets.values()) socket.destroy();
  }
}

/** Octets that are no HTTP: answered by hand, there is no request to answer. */
function onClientError(error: NodeJS.ErrnoException, socket: Socket, connections: Connections): void {
  const state = connections.state(socket);
  // A word between two parts of an answer would be taken for the answer's.
  if (!socket.writable || error.code === 'ECONNRESET' || state === 'between') {
    socket.destroy();
    return;
  }
  if (state === 'whole') {
    socket.destroySoon();
    return;
  }
  const [status, reason] = clientErrors[error.code ?? ''] ?? [400, 'Bad Request'];
  writeWhole(socket, plainWhole(status, reason, { rayId: randomHex(8) }));
}

function makeServer(handlers: ListenerHandlers, tls: ListenerTls | undefined): Server {
  const options = { ...serverOptions, shouldUpgradeCallback: handlers.takesUpgrade };
  if (!tls) return createServer(options);
  return createTlsServer({
    ...options,
    cert: tls.cert,
    key: tls.key,
    minVersion: 'TLSv1.2',
    ALPNProtocols: ['http/1.1'],
    handshakeTimeout: handshakeTimeoutMs,
    SNICallback: (name, done) => done(null, tls.contextOf(name.toLowerCase())),
  });
}

/** Makes a listener; with `tls` it speaks HTTPS, TLS 1.2 or newer. */
export function createListener(handlers: ListenerHandlers, tls?: ListenerTls): HttpListener {
  const server = makeServer(handlers, tls);
  // Every field counts: what the parser dropped would be neither judged nor sent on.
  server.maxHeadersCount = 0;
  const connections = new Connections();
  const onRequest = (request: IncomingMessage, response: ServerResponse): void => {
    if (!connections.asked(request, response)) return;
    response.on('finish', () => linger(request));
    handlers.request(request, response);
  };
  server.on('connection', (socket: Socket) => connections.accepted(socket));
  server.on(tls ? 'secureConnection' : 'connection', (socket: Socket) => connections.speaks(socket));
  server.on('request', onRequest);
  // RFC 9110 §10.1.1: a body is asked for only once it is wanted, by who takes it.
  server.on('checkContinue', onRequest);
  server.on('checkExpectation', onRequest);
  // Node gives the socket away with these two, its own error handler removed.
  server.on('upgrade', (request, socket, head) => {
    connections.upgraded(socket);
    socket.on('error', () => socket.destroy());
    // Node before 24.9 knows no shouldUpgradeCallback and brings every upgrade here, h2c too, which must reach no origin.
    if (handlers.takesUpgrade(request)) handlers.upgrade(request, socket, head);
    else writeWhole(socket, plainWhole(501, 'This upgrade is not taken', { rayId: randomHex(8) }));
  });
  server.on('connect', (request, socket) => {
    connections.upgraded(socket);
    socket.on('error', () => socket.destroy());
    handlers.connect(request, socket);
  });
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    onClientError(error, socket, connections);
  });
  return {
    async listen({ host, port }) {
      await new Promise<void>((resolve, reject) => {
        server.once('error', reject);
        server.listen({ host, port }, () => {
          server.off('error', reject);
          resolve();
        });
      });
      const address = server.address();
      if (!address || typeof address === 'string') throw new Error('The HTTP listener has no address');
      return { host: address.address, port: address.port };
    },
    async close(withinMs) {
      connections.close();
      const cut = setTimeout(() => connections.cutAll(), withinMs);
      const cutSilent = setTimeout(() => connections.cutSilent(), Math.min(withinMs, silentGraceMs));
      await new Promise<void>((resolve) => server.close(() => resolve()));
      clearTimeout(cut);
      clearTimeout(cutSilent);
    },
  };
}
