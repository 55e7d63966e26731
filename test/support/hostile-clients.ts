// Clients and origins that do everything to a proxy application but use it well: they reset, half-close, stall and vanish
// at every moment, with TLS and without, in datagrams and connections. For a test, and for hours by its command.

import { createSocket, type Socket as UdpSocket } from 'node:dgram';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls, createServer as createTlsServer, TLSSocket } from 'node:tls';
import { resetConnection } from '../../src/base/net/reset-connection.ts';
import { type BoundedSockets, boundedSockets } from './bounded-sockets.ts';
import type { TestCertificate } from './certificate.ts';
import type { EdgeOf } from './proxy-gateway.ts';

/** How an application is reached. */
export interface HostileEdge extends EdgeOf {
  readonly tls: 'off' | 'flexible' | 'full';
}

/** Connections that the clients have open at a time, those that stall among them, and the origins. */
const maxOpenClients = 600;
const maxOpenOrigins = 800;

function below(limit: number): number {
  return Math.floor(Math.random() * limit);
}

/** Goes by a reset where there is no TLS on the socket. */
function vanish(stream: Socket, raw: Socket): void {
  if (stream === raw && !(raw instanceof TLSSocket)) resetConnection({ stream, raw });
  else raw.destroy();
}

/** Does one of the things that a bad peer does, at a moment of its own. */
function misbehave(stream: Socket, raw: Socket): void {
  const octets = Buffer.alloc(1 + below(400_000), 'x');
  const acts: (() => unknown)[] = [
    () => stream.end(),
    () => stream.end(octets),
    () => stream.write(octets),
    () => stream.write(octets, () => raw.destroy()),
    () => stream.write(octets, () => vanish(stream, raw)),
    () => raw.destroy(),
    () => vanish(stream, raw),
    () => stream.pause(),
    () => stream.resume(),
    () => stream.end(octets, () => raw.destroy()),
    () => undefined,
  ];
  for (let act = 0; act < 1 + below(3); act += 1) {
    setTimeout(() => !raw.destroyed && acts[below(acts.length)]?.(), below(3) === 0 ? 0 : below(120)).unref();
  }
}

/** Ports of origins on loopback that misbehave. */
export interface HostileOrigins {
  readonly plain: number;
  readonly secure: number;
  readonly udp: number;
}

async function listening(server: Server, sockets: BoundedSockets): Promise<number> {
  server.on('connection', (raw: Socket) => sockets.add(raw));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

/** Starts them. They end with their process. */
export async function startHostileOrigins(certificate: TestCertificate): Promise<HostileOrigins> {
  const sockets = boundedSockets(maxOpenOrigins);
  const plainServer = createServer({ allowHalfOpen: true }, (raw) => {
    if (below(4) === 0) raw.pipe(raw);
    else misbehave(raw, raw);
  });
  const secureServer = createTlsServer({ ...certificate, allowHalfOpen: true }, (stream) => {
    stream.on('error', () => undefined);
    if (below(4) === 0) stream.pipe(stream);
    else misbehave(stream, stream);
  });
  secureServer.on('tlsClientError', () => undefined);
  // Some never get as far as TLS.
  secureServer.prependListener('connection', (raw: Socket) => {
    if (below(8) === 0) setTimeout(() => raw.destroy(), below(20)).unref();
  });
  const udp = createSocket('udp4');
  udp.on('message', (data, { port, address }) => {
    if (below(3) === 0) udp.send(data, port, address, () => undefined);
  });
  udp.bind(0, '127.0.0.1');
  await once(udp, 'listening');
  return {
    plain: await listening(plainServer, sockets),
    secure: await listening(secureServer, sockets),
    udp: udp.address().port,
  };
}

/** One client from its beginning to an end that it does not announce. */
async function sufferOne({ address, port, tls }: HostileEdge, open: BoundedSockets): Promise<void> {
  const raw = connect({ host: address, port, allowHalfOpen: true });
  open.add(raw);
  const closed = new Promise<void>((done) => raw.once('close', () => done()));
  // The moment may come before the connection, and in the middle of the handshake.
  if (below(6) === 0) setTimeout(() => raw.destroy(), below(8)).unref();
  if (tls === 'off' || below(10) === 0) {
    misbehave(raw, raw);
  } else {
    const stream = connectTls({ socket: raw, rejectUnauthorized: false });
    stream.on('error', () => undefined);
    if (below(8) === 0) misbehave(stream, raw);
    else stream.once('secureConnect', () => misbehave(stream, raw));
  }
  await Promise.race([closed, sleep(below(below(8) === 0 ? 3000 : 250), undefined, { ref: false })]);
  if (below(5) > 0) raw.destroy();
}

async function flood({ address, port }: EdgeOf, until: number): Promise<void> {
  while (performance.now() < until) {
    const socket: UdpSocket = createSocket('udp4');
    socket.on('error', () => undefined);
    for (let datagram = 0; datagram < 1 + below(3); datagram += 1) {
      socket.send(Buffer.alloc(1 + below(1200)), port, address, () => undefined);
    }
    await sleep(2 + below(8));
    socket.close();
  }
}

/** What was done. */
export interface HostileReport {
  readonly connections: number;
}

/**
 * Attacks the edges for so many seconds, so many clients at once on each.
 * @param udp edges that take datagrams
 */
export async function attackApplications(
  edges: readonly HostileEdge[],
  udp: readonly EdgeOf[],
  { seconds, atOnce }: { readonly seconds: number; readonly atOnce: number },
): Promise<HostileReport> {
  const until = performance.now() + seconds * 1000;
  const open = boundedSockets(maxOpenClients);
  let connections = 0;
  const client = async (edge: HostileEdge): Promise<void> => {
    while (performance.now() < until) {
      connections += 1;
      await sufferOne(edge, open);
    }
  };
  const clients = edges.flatMap((edge) => Array.from({ length: atOnce }, () => client(edge)));
  await Promise.all([...clients, ...udp.map((edge) => flood(edge, until))]);
  open.destroyAll();
  return { connections };
}
