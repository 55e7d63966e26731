// Listens on one TCP port of an application and hands every connection that may come in on (D84).

import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { errorMessage } from '../../base/errors.ts';
import { randomHex } from '../../base/ids.ts';
import { resetConnection } from '../../base/net/reset-connection.ts';
import { normalAddress } from '../../base/net/socket-address.ts';
import { countOpen, mayEnter } from './admission.ts';
import { keepAliveMs, logErrors, type OpenListener, type RunningApplication } from './listener.ts';
import type { OpenConnection } from './open-budget.ts';
import { serveConnection } from './tcp-connection.ts';

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
