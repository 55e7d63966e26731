// Listens on one TCP port of an application and hands every connection that may come in on (D84).

import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { type SecureContext, TLSSocket } from 'node:tls';
import { errorCode, errorMessage } from '../../base/errors.ts';
import { randomHex } from '../../base/ids.ts';
import { type Connection, resetConnection } from '../../base/net/reset-connection.ts';
import { normalAddress } from '../../base/net/socket-address.ts';
import { countOpen, mayEnter } from './admission.ts';
import { contextOf } from './certificates.ts';
import { type ConnectedOrigin, connectOrigin } from './connect-origin.ts';
import {
  keepAliveMs,
  logErrors,
  noteFor,
  type OpenListener,
  type PeerContext,
  type RunningApplication,
} from './listener.ts';
import type { OpenConnection } from './open-budget.ts';
import type { Endpoint } from './proxy-header.ts';
import { splice } from './splice.ts';
import { TlsCarrier } from './tls-carrier.ts';

interface ServedConnection extends OpenConnection {
  /** Resolves when both sides are closed; never rejects. */
  readonly ended: Promise<void>;
}

/** Serves a connection. Until an origin has taken it, nothing is read. @param raw just accepted and paused, half-open allowed */
function serveConnection(raw: Socket, context: PeerContext): ServedConnection {
  const abort = new AbortController();
  // An error must find a listener at any time; before the splice, which has its own, the close that follows tells it.
  raw.on('error', () => undefined);
  const client: ClientConnection = { stream: raw, raw };
  const ended = run(client, context, abort).catch((error: unknown) => {
    resetConnection(client);
    context.parts.log.error({ connection: context.id, error: errorMessage(error) }, 'proxy connection crashed');
  });
  return { cut: (reason) => abort.abort(reason), ended };
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
  const { application, parts, client, edgePort } = context;
  const { plan } = application;
  const { raw } = connection;
  // The address that was asked, of those that a wildcard stands for, and the port as the application names it (D84).
  const edge = (): Endpoint => ({ address: normalAddress(raw.localAddress ?? '') ?? '', port: edgePort });
  if (plan.tls !== 'off') {
    const certificate = parts.certificate(plan.name);
    if (!certificate) return { ok: false, wasCut: false, reason: `there is no certificate for ${plan.name}` };
    const secured = await secureClient(connection, contextOf(certificate), {
      timeoutMs: parts.limits(plan).connectTimeoutMs,
      signal,
    });
    if (!secured.ok) return secured;
  }
  const connected = await connectOrigin(application, { edgePort, client, edge, signal }, parts);
  if (!connected.ok || !signal.aborted) return connected;
  resetConnection(connected.end);
  return { ok: false, reason: String(signal.reason), wasCut: true, origin: connected.origin };
}

type Secured = { readonly ok: true } | { readonly ok: false; readonly reason: string; readonly wasCut: boolean };

/** The server's side of a TLS handshake. */
function secureClient(
  connection: ClientConnection,
  secureContext: SecureContext,
  { timeoutMs, signal }: { readonly timeoutMs: number; readonly signal: AbortSignal },
): Promise<Secured> {
  return new Promise((resolve) => {
    const carrier = new TlsCarrier(connection.raw);
    const stream = new TLSSocket(carrier, { isServer: true, secureContext });
    connection.stream = stream;
    connection.carrier = carrier;
    const settle = (outcome: Secured): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', abort);
      resolve(outcome);
    };
    const fail = (why: string): void => settle({ ok: false, wasCut: false, reason: `no TLS with the client: ${why}` });
    const abort = (): void => settle({ ok: false, wasCut: true, reason: String(signal.reason) });
    const timer = setTimeout(() => fail(`no handshake within ${timeoutMs} ms`), timeoutMs);
    signal.addEventListener('abort', abort, { once: true });
    stream.once('secure', () => settle({ ok: true }));
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
      const empty = new Promise<void>((resolve) => {
        whenEmpty = resolve;
      });
      const timer = setTimeout(() => {
        for (const connection of open) connection.cut('the listener was closed and the drain time is over');
      }, drainMs);
      await empty;
      clearTimeout(timer);
    },
  };
};
