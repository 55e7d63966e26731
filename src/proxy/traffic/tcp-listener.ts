// Listens on one TCP port of an application with the certificates of its clients, which are read when plans are applied and now and then, and
// joins every connection that may come in with one to an origin (D84, RFC 9293 §3.6).

import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { createSecureContext, type SecureContext, TLSSocket } from 'node:tls';
import { errorCode, errorMessage } from '../../base/errors.ts';
import { freeOctets } from '../../base/free-octets.ts';
import { randomHex } from '../../base/ids.ts';
import { type Connection, resetConnection } from '../../base/net/reset-connection.ts';
import { normalAddress } from '../../base/net/socket-address.ts';
import { oncePer } from '../../base/once-per.ts';
import { type ConnectedOrigin, connectOrigin, TlsCarrier } from './connect-origin.ts';
import {
  countOpen,
  keepAliveMs,
  logErrors,
  mayEnter,
  noteFor,
  type OpenConnection,
  type OpenListener,
  type PeerContext,
  type RunningApplication,
} from './listener.ts';
import type { Endpoint } from './proxy-header.ts';

/** A certificate chain and its key, PEM. */
export interface CertificatePair {
  readonly cert: string;
  readonly key: string;
}

/** The TLS context of a certificate; made once. @throws Error where certificate and key cannot be read or do not fit */
const contextOf = oncePer(({ cert, key }: CertificatePair) => createSecureContext({ cert, key }));

/** When a certificate ends, milliseconds since 1970. @throws Error where it cannot be read */
export const expiryOf = oncePer(({ cert }: CertificatePair) => Date.parse(new X509Certificate(cert).validTo));

/** Keeps the certificates in use by name. @param read reads the present certificate of a name; undefined: there is none */
export function createCertificates(read: (name: string) => CertificatePair | undefined) {
  const inUse = new Map<string, CertificatePair>();

  /** Uses the present certificate of a name from now on. @returns why it cannot be used; undefined where it can */
  function take(name: string): string | undefined {
    const before = inUse.get(name);
    try {
      const found = read(name);
      if (!found) return `there is no certificate in certs/tls/${name}`;
      if (before && found.cert === before.cert && found.key === before.key) return undefined;
      contextOf(found);
      inUse.set(name, found);
      return undefined;
    } catch (error) {
      return `the certificate in certs/tls/${name} cannot be used: ${errorMessage(error)}`;
    }
  }

  function takeAll(names: readonly string[]): ReadonlyMap<string, string> {
    const reasons = names.map((name) => [name, take(name) ?? ''] as const);
    return new Map(reasons.filter(([, reason]) => reason !== ''));
  }

  return {
    /** Gives up the certificates of other names, and reads missing ones. @returns why a name has no usable certificate, by name */
    follow(names: ReadonlySet<string>) {
      for (const name of inUse.keys()) if (!names.has(name)) inUse.delete(name);
      return takeAll([...names].filter((name) => !inUse.has(name)));
    },
    /** Reads the certificates in use anew; where one cannot be used, the one before stays. @returns why, by name */
    renew: () => takeAll([...inUse.keys()]),
    /** The certificate in use for a name. */
    get: (name: string) => inUse.get(name),
  };
}

/** What a splice needs to know. */
interface SpliceOptions {
  /** Silence in both directions after which both are closed, milliseconds. */
  readonly idleMs: number;
  /** Cuts both at once; its reason, a text, is told as the end's. */
  readonly signal: AbortSignal;
  /** Told the octets of every piece that arrives. */
  readonly fromClient: (octets: number) => void;
  readonly fromOrigin: (octets: number) => void;
}

/** Smaller pieces are left to the garbage collector. */
const freedOctets = 16_384;

/** Sends what comes from one to the other. What the other cannot take yet stops the reading. */
function flow(from: Socket, to: Socket, count: (octets: number) => void): void {
  from.on('data', (chunk: Buffer) => {
    count(chunk.length);
    // write() says false for every full piece, even when the system has taken all of it at once.
    const wantsMore = chunk.length < freedOctets ? to.write(chunk) : to.write(chunk, () => freeOctets(chunk));
    if (!wantsMore && to.writableLength > 0) from.pause();
  });
  to.on('drain', () => from.resume());
  // With TLS the end may have been read before anybody listened.
  if (from.readableEnded) to.end();
  else from.on('end', () => to.end());
}

/**
 * Splices until both connections are closed. Neither may have a reader yet. A reset on one side is a reset on the other.
 * @returns how it ended; `originBroke`: the origin reset the connection, or closed it before anything else had happened
 */
export function splice(client: Connection, origin: Connection, options: SpliceOptions) {
  const { idleMs, signal } = options;
  return new Promise<{ readonly reason: string; readonly originBroke: boolean }>((resolve) => {
    let firstEnd: string | undefined;
    let broken: string | undefined;
    let originBroke = false;
    let octets = 0;
    let closed = 0;

    const stop = (reason: string): void => {
      broken ??= reason;
      resetConnection(client);
      resetConnection(origin);
    };
    const cut = (): void => stop(String(signal.reason));
    const isIdle = (): void => stop(`nothing came for ${idleMs} ms`);
    const counting = (count: (octets: number) => void) => (length: number) => {
      octets += length;
      count(length);
    };
    const watch = ({ stream }: Connection, name: 'client' | 'origin'): void => {
      stream.on('error', (error) => {
        if (name === 'origin' && firstEnd === undefined && broken === undefined) originBroke = true;
        stop(`the ${name} broke off: ${errorCode(error) ?? errorMessage(error)}`);
      });
      const ended = (): void => {
        if (name === 'origin' && firstEnd === undefined && octets === 0) originBroke = true;
        firstEnd ??= `the ${name} closed`;
      };
      if (stream.readableEnded) ended();
      else stream.once('end', ended);
      const isClosed = (): void => {
        const isWhole = stream.readableEnded && stream.writableFinished;
        if (!isWhole) stop(`the ${name} broke off`);
        closed += 1;
        // A closed connection has no timer any more; without this one, an origin that takes no more octets would never be closed.
        if (name === 'client') origin.stream.setTimeout(idleMs, isIdle);
        if (closed < 2) return;
        signal.removeEventListener('abort', cut);
        resolve({ reason: broken ?? firstEnd ?? 'closed', originBroke });
      };
      if (stream.closed) isClosed();
      else stream.once('close', isClosed);
    };

    watch(client, 'client');
    watch(origin, 'origin');
    signal.addEventListener('abort', cut, { once: true });
    // Every octet passes the client's connection, in or out: its silence is that of both directions.
    client.stream.setTimeout(idleMs, isIdle);
    flow(client.stream, origin.stream, counting(options.fromClient));
    flow(origin.stream, client.stream, counting(options.fromOrigin));
    client.stream.resume();
    origin.stream.resume();
    if (signal.aborted) cut();
  });
}

/** Serves a connection. Until an origin has taken it, nothing is read. @param raw just accepted and paused, half-open allowed */
function serveConnection(raw: Socket, context: PeerContext) {
  const abort = new AbortController();
  // An error must find a listener at any time; before the splice, which has its own, the close that follows tells it.
  raw.on('error', () => undefined);
  const client: ClientConnection = { stream: raw, raw };
  const ended = run(client, context, abort).catch((error: unknown) => {
    resetConnection(client);
    context.parts.log.error({ connection: context.id, error: errorMessage(error) }, 'proxy connection crashed');
  });
  /** `ended` resolves when both sides are closed; it never rejects. */
  return { cut: (reason: string) => abort.abort(reason), ended };
}

/** The client's connection; `stream` and `carrier` become those of TLS when that begins. */
interface ClientConnection extends Connection {
  stream: Socket;
  carrier?: TlsCarrier;
}

async function run(client: ClientConnection, context: PeerContext, abort: AbortController): Promise<void> {
  const { application, parts } = context;
  const startedAt = parts.clock.monotonic();
  const bytes = { bytesFromClient: 0, bytesFromOrigin: 0 };
  const note = noteFor(context);
  const noteEnd = (kind: 'disconnect' | 'error', reason: string, { origin }: Pick<ConnectedOrigin, 'origin'>): void =>
    note({ kind, reason, ...bytes, durationMs: Math.round(parts.clock.monotonic() - startedAt) }, origin);
  const closedEarly = (): void => abort.abort('the client closed');
  client.raw.once('close', closedEarly);
  const opened = await open(client, context, abort.signal);
  client.raw.off('close', closedEarly);
  if (!opened.ok) {
    resetConnection(client);
    if (!opened.wasCut) application.traffic.failed += 1;
    return noteEnd(opened.wasCut ? 'disconnect' : 'error', opened.reason, opened);
  }
  note({ kind: 'connect' }, opened.origin);
  const { reason, originBroke } = await splice(client, opened.end, {
    idleMs: parts.limits(application.plan).tcpIdleMs,
    signal: abort.signal,
    fromClient: (octets) => {
      bytes.bytesFromClient += octets;
      application.traffic.bytesFromClients += octets;
    },
    fromOrigin: (octets) => {
      bytes.bytesFromOrigin += octets;
      application.traffic.bytesFromOrigins += octets;
    },
  });
  if (originBroke && bytes.bytesFromOrigin === 0) application.origins.failed(opened.origin);
  noteEnd('disconnect', reason, opened);
}

/** Agrees on TLS with the client where the plan has it, then connects to an origin. */
async function open(connection: ClientConnection, context: PeerContext, signal: AbortSignal): Promise<ConnectedOrigin> {
  const {
    application: { plan },
    parts,
    edgePort,
  } = context;
  const { raw } = connection;
  // The address that was asked, of those that a wildcard stands for, and the port as the application names it (D84).
  const edge = (): Endpoint => ({ address: normalAddress(raw.localAddress ?? '') ?? '', port: edgePort });
  if (plan.tls !== 'off') {
    const certificate = parts.certificate(plan.name);
    if (!certificate) return { ok: false, wasCut: false, reason: `there is no certificate for ${plan.name}` };
    const { connectTimeoutMs } = parts.limits(plan);
    const fault = await secureClient(connection, contextOf(certificate), connectTimeoutMs, signal);
    if (fault) return { ok: false, ...fault };
  }
  const connected = await connectOrigin(context, edge, signal);
  if (!connected.ok || !signal.aborted) return connected;
  resetConnection(connected.end);
  return { ok: false, reason: String(signal.reason), wasCut: true, origin: connected.origin };
}

/** The server's side of a TLS handshake. @returns why there is none; undefined where it is done */
function secureClient(
  connection: ClientConnection,
  secureContext: SecureContext,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<{ readonly reason: string; readonly wasCut: boolean } | undefined> {
  return new Promise((resolve) => {
    const carrier = new TlsCarrier(connection.raw);
    const stream = new TLSSocket(carrier, { isServer: true, secureContext });
    connection.stream = stream;
    connection.carrier = carrier;
    const settle = (fault?: { readonly reason: string; readonly wasCut: boolean }): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', abort);
      resolve(fault);
    };
    const fail = (why: string): void => settle({ wasCut: false, reason: `no TLS with the client: ${why}` });
    const abort = (): void => settle({ wasCut: true, reason: String(signal.reason) });
    const timer = setTimeout(() => fail(`no handshake within ${timeoutMs} ms`), timeoutMs);
    signal.addEventListener('abort', abort, { once: true });
    stream.once('secure', () => settle());
    // It stays: an error between here and the splice must find a listener.
    stream.on('error', (error) => fail(errorCode(error) ?? errorMessage(error)));
    stream.once('end', () => fail('the client closed'));
    stream.once('close', () => fail('the client closed'));
  });
}

/** Connections that wait to be accepted; the system may allow fewer. */
const backlog = 1024;

/** Opens one TCP port; see {@link OpenListener}. */
export const openTcpListener: OpenListener = async (at, running, parts) => {
  const open = new Set<OpenConnection>();
  let whenEmpty: (() => void) | undefined;
  const server = createServer({
    allowHalfOpen: true,
    pauseOnConnect: true,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: keepAliveMs,
  });
  const accept = (socket: Socket, application: RunningApplication): void => {
    const address = normalAddress(socket.remoteAddress ?? '');
    if (address === undefined) {
      // The client is gone already.
      socket.destroy();
      return;
    }
    const client = { address, port: socket.remotePort ?? 0 };
    const peer = { id: randomHex(8), client, application, edgePort: at.edgePort, parts };
    if (!mayEnter(peer)) {
      resetConnection({ stream: socket, raw: socket });
      return;
    }
    const countClosed = countOpen(application, address, parts.budget);
    const connection = serveConnection(socket, peer);
    application.connections.add(connection);
    open.add(connection);
    void connection.ended.then(() => {
      application.connections.delete(connection);
      countClosed();
      open.delete(connection);
      if (open.size === 0) whenEmpty?.();
    });
  };
  server.on('connection', (socket) => {
    const application = running();
    try {
      accept(socket, application);
    } catch (error) {
      // An exception in an event handler would end the process: here it costs one connection.
      parts.log.error({ application: application.plan.id, error: errorMessage(error) }, 'cannot judge a connection');
      socket.destroy();
    }
  });
  // `::` is IPv6 only: another application may have the same port on an IPv4 address.
  server.listen({ host: at.address, port: at.port, ipv6Only: true, backlog });
  await once(server, 'listening');
  logErrors(server, { ...parts, at }, 'cannot accept connections');
  return {
    at,
    async close(drainMs) {
      server.close();
      if (open.size === 0) return;
      const empty = Promise.withResolvers<void>();
      whenEmpty = empty.resolve;
      const timer = setTimeout(() => {
        for (const connection of open) connection.cut('the listener was closed and the drain time is over');
      }, drainMs);
      await empty.promise;
      clearTimeout(timer);
    },
  };
};
