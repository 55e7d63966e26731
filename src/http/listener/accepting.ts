// Binds a server to its port by several sockets. Node takes in one connection of a listening socket in a turn of its event
// loop (libuv since 1.45), however many wait. Under attack a turn is long, and an honest client would wait behind hundreds of
// connections that are to be refused, or whose client has gone. Of sockets that share a port (SO_REUSEPORT), each has one
// taken in; the system spreads the connections over them.

import { once } from 'node:events';
import { createServer, type ListenOptions, type Server } from 'node:net';

/** Where a listener is bound. */
export interface BoundHttp {
  readonly host: string;
  readonly port: number;
}

/** A port that connections are taken in at. */
export interface Accepting {
  readonly at: BoundHttp;
  /** Stops taking in; resolves once every connection has closed. */
  stop(): Promise<void>;
}

/** Sockets that share the port of a listener. */
const socketsOfPort = 8;

/** @throws the system's error where it cannot */
async function bind(server: Server, options: ListenOptions): Promise<BoundHttp> {
  server.listen(options);
  // Rejects with the error that comes in its place.
  await once(server, 'listening');
  // What cannot be taken in (the process is out of descriptors) ends nothing: the next one is tried all the same.
  server.on('error', () => undefined);
  const address = server.address();
  if (!address || typeof address === 'string') throw new Error('The HTTP listener has no address');
  return { host: address.address, port: address.port };
}

/**
 * Binds the port for a moment without sharing it: sockets that share would join those of another program that shares, too.
 * @throws the system's error where any program has the port
 */
async function refuseTakenPort(at: BoundHttp): Promise<void> {
  // Who connects in this moment is sent away: an open connection would hold the socket.
  const alone = createServer((socket) => socket.destroy());
  await bind(alone, { host: at.host, port: at.port });
  alone.close();
  await once(alone, 'close');
}

/** Whether ports can be shared; where not (macOS), Node says so by an error of this code. */
function isUnsupported(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOTSUP';
}

async function stopAll(servers: readonly Server[]): Promise<void> {
  await Promise.all(servers.map((server) => new Promise<void>((resolve) => server.close(() => resolve()))));
}

/**
 * Binds a server of HTTP or HTTPS; every connection comes to it as its own `connection` event. It is stopped by `stop`
 * alone: its own `close` would leave the other sockets open.
 * @param at port 0 is any free one
 * @throws the system's error where it cannot, such as EADDRINUSE
 */
export async function listenBySeveral(server: Server, at: BoundHttp): Promise<Accepting> {
  const { host } = at;
  if (at.port !== 0) await refuseTakenPort(at);
  let bound: BoundHttp;
  try {
    bound = await bind(server, { host, port: at.port, reusePort: true });
  } catch (error) {
    if (!isUnsupported(error)) throw error;
    return { at: await bind(server, { host, port: at.port }), stop: () => stopAll([server]) };
  }
  // As node:http has its own: both ways of a connection end by themselves, and small pieces leave at once.
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
