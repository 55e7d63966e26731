// Binds a server to its port by several sockets. Node accepts one connection of a listening socket in each turn of its event
// loop (libuv since 1.45), however many wait. Under attack a turn is long, and an honest client would wait behind hundreds of
// connections that are to be refused, or whose client has gone. Where several sockets share a port (SO_REUSEPORT), the system
// spreads the connections over them, and each socket accepts one in a turn.

import { once } from 'node:events';
import { createServer, type ListenOptions, type Server, type Socket } from 'node:net';
import { errorCode } from '../../../base/errors.ts';
import { takePlace } from '../../../base/net/own-doors.ts';

/** Where a listener is bound. */
export interface BoundHttp {
  readonly host: string;
  readonly port: number;
}

/** A port at which connections are accepted. */
export interface Accepting {
  readonly at: BoundHttp;
  /** Stops accepting; resolves once every connection has closed. */
  stop(): Promise<void>;
}

/** Sockets that share the port of a listener. */
const socketsOfPort = 8;

async function bind(server: Server, options: ListenOptions): Promise<BoundHttp> {
  server.listen(options);
  // Rejects with the error event, if that comes first.
  await once(server, 'listening');
  // A connection that cannot be accepted (the process is out of descriptors) ends nothing: the next one is still tried.
  server.on('error', () => undefined);
  const address = server.address();
  if (!address || typeof address === 'string') throw new Error('The HTTP listener has no address');
  return { host: address.address, port: address.port };
}

/** Binds the port for a moment without sharing it, as another program may share it. @throws the system's error where one has it */
async function refuseTakenPort(at: BoundHttp): Promise<void> {
  // A connection that comes in this moment is closed: while open it would hold the socket.
  const alone = createServer((socket) => socket.destroy());
  await bind(alone, { host: at.host, port: at.port });
  alone.close();
  await once(alone, 'close');
}

/** Binds the socket that all processes share (node:cluster). @param arrive gets each connection @throws the system's error */
export async function listenShared({ host, port }: BoundHttp, arrive: (socket: Socket) => void): Promise<Accepting> {
  const leave = takePlace({ host, port });
  const server = createServer({ allowHalfOpen: true, noDelay: true }, arrive);
  const stop = (): Promise<void> => {
    leave();
    return stopAll([server]);
  };
  try {
    return { at: await bind(server, { host, port }), stop };
  } catch (error) {
    leave();
    throw error;
  }
}

async function stopAll(servers: readonly Server[]): Promise<void> {
  await Promise.all(servers.map((server) => new Promise<void>((resolve) => server.close(() => resolve()))));
}

/** Binds a server whose connections come by its `connection` event; only `stop` stops it. @throws the system's error */
export async function listenBySeveral(server: Server, at: BoundHttp): Promise<Accepting> {
  const { host } = at;
  if (at.port !== 0) await refuseTakenPort(at);
  let bound: BoundHttp;
  try {
    bound = await bind(server, { host, port: at.port, reusePort: true });
  } catch (error) {
    // Ports cannot be shared on this system (macOS).
    if (errorCode(error) !== 'ENOTSUP') throw error;
    return { at: await bind(server, { host, port: at.port }), stop: () => stopAll([server]) };
  }
  // The same settings as the sockets of node:http: each direction ends on its own, and small writes leave at once.
  const others = Array.from({ length: socketsOfPort - 1 }, () =>
    createServer({ allowHalfOpen: true, noDelay: true }, (socket) => void server.emit('connection', socket)),
  );
  const stop = (): Promise<void> => stopAll([server, ...others]);
  try {
    await Promise.all(others.map((other) => bind(other, { host, port: bound.port, reusePort: true })));
  } catch (error) {
    await stop();
    throw error;
  }
  return { at: bound, stop };
}
