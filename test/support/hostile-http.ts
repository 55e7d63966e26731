// Hostile HTTP clients, by HTTP and HTTPS, and an origin that is no better: pipelining mixed with upgrades and CONNECT, bad
// framing, uploads that stop, answers that nobody reads, and connections that end in every way at every moment. What they
// do is drawn at random; the number of connections at a time and the time are bounded.

import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { type BoundedSockets, boundedSockets } from './bounded-sockets.ts';
import { faultOrigin, type OriginSide } from './fault-origin.ts';

/** Where the attack goes. */
export interface Attacked {
  readonly port: number;
  readonly tlsPort: number;
  /** Hostnames of zones, and of the API. */
  readonly hosts: readonly string[];
}

/** What was done. */
export interface AttackReport {
  readonly connections: number;
  readonly octetsSent: number;
  readonly octetsRead: number;
}

/** Connections that the clients have open at a time, those that linger among them, and the origin. */
const maxOpenClients = 300;
const maxOpenOrigins = 400;

function pick<T>(values: readonly [T, ...T[]]): T {
  return values[Math.floor(Math.random() * values.length)] ?? values[0];
}

const below = (limit: number): number => Math.floor(Math.random() * limit);
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

const targets = [
  '/ok',
  '/hang',
  '/reset',
  '/half',
  '/slow',
  '/big',
  '/garbage',
  '/cdn-cgi/error/522',
  '/livez',
  '/docs',
] as const;

/** How an origin behaves for each of these targets. */
async function misbehave(side: OriginSide): Promise<void> {
  for (;;) {
    const target = (await side.head()).split(' ')[1] ?? '';
    if (target === '/hang') await side.gone();
    else if (target === '/reset') side.socket.resetAndDestroy();
    else if (target === '/half') await side.send('HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nhalf of it');
    else if (target === '/garbage') await side.send('NOTHING LIKE HTTP\r\n\r\n');
    else if (target === '/big') {
      await side.send('HTTP/1.1 200 OK\r\nContent-Length: 4000000\r\n\r\n');
      for (let sent = 0; sent < 4_000_000; sent += 40_000) await side.send(Buffer.alloc(40_000, 'x'));
    } else if (target === '/slow') {
      await side.send('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n');
      for (let piece = 0; piece < 10; piece += 1) {
        await side.send('4\r\nslow\r\n');
        await pause(20);
      }
      await side.send('0\r\n\r\n');
    } else if (target === '/ws') {
      await side.send('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
      side.socket.pipe(side.socket);
      await side.gone();
    } else await side.send('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
  }
}

/**
 * Starts an origin that hangs, stalls, resets, and answers as it should, by the target asked for. It ends with its process.
 * @returns its port
 */
export async function startHostileHttpOrigin(): Promise<number> {
  const sockets = boundedSockets(maxOpenOrigins);
  const behave = async (side: OriginSide): Promise<void> => {
    sockets.add(side.socket);
    try {
      await misbehave(side);
    } finally {
      // The gateway has ended its half or is gone: nothing else would close ours.
      side.socket.destroy();
    }
  };
  const { port } = await faultOrigin(behave, { keepsReceived: false });
  return port;
}

/** A request as an honest client would send it, or nearly. */
function requestTo(host: string): string {
  const target = pick(targets);
  const line = `Host: ${host}\r\n`;
  return pick([
    `GET ${target} HTTP/1.1\r\n${line}\r\n`,
    `GET ${target} HTTP/1.1\r\n${line}\r\n`,
    `HEAD ${target} HTTP/1.1\r\n${line}\r\n`,
    `GET ${target} HTTP/1.0\r\n${line}Connection: keep-alive\r\n\r\n`,
    `PUT ${target} HTTP/1.1\r\n${line}Content-Length: 5\r\n\r\nhello`,
    `POST ${target} HTTP/1.1\r\n${line}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-T: 1\r\n\r\n`,
    `POST ${target} HTTP/1.1\r\n${line}Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello`,
    `GET ${target} HTTP/1.1\r\n${line}Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n`,
    `DELETE ${target} HTTP/1.1\r\n${line}Connection: close\r\n\r\n`,
  ]);
}

/** What stands behind the last request of a connection, or in the middle of it. */
function poison(host: string): string {
  const line = `Host: ${host}\r\n`;
  return pick([
    `CONNECT ${host}:443 HTTP/1.1\r\n${line}\r\n`,
    `GET /ws HTTP/1.1\r\n${line}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\nearly octets`,
    `GET /hang HTTP/1.1\r\n${line}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n`,
    'GARBAGE\r\n\r\n',
    'GET / HTTP/1.1\r\n\r\n',
    `GET / HTTP/1.1\n${line.trim()}\n\n`,
    `TRACE / HTTP/1.1\r\n${line}\r\n`,
    `GET / HTTP/1.1\r\n${line}Expect: more\r\n\r\n`,
    `POST / HTTP/1.1\r\n${line}Transfer-Encoding: gzip\r\n\r\n`,
    `POST / HTTP/1.1\r\n${line}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    `POST / HTTP/1.1\r\n${line}Transfer-Encoding: chunked\r\n\r\nzz\r\n`,
    `POST /ok HTTP/1.1\r\n${line}Content-Length: 100000\r\n\r\nthe upload stops here`,
    `POST /ok HTTP/1.1\r\n${line}Transfer-Encoding: chunked\r\n\r\n5\r\nhel`,
    `GET / HTTP/1.1\r\n${line}X: ${'x'.repeat(pick([40_000, 300_000]))}\r\n\r\n`,
    `GET / HTTP/1.1\r\n${line}X-Half: of a he`,
    '',
  ]);
}

/** The octets of one connection. */
function octetsFor(host: string): string {
  const many = pick([0, 1, 3, 20, 400]);
  let text = '';
  for (let index = 0; index < many; index += 1) text += requestTo(host);
  text += poison(host);
  if (Math.random() < 0.5) text += requestTo(host) + poison(host);
  return text;
}

async function write(socket: Socket, octets: string): Promise<void> {
  if (Math.random() < 0.8) {
    socket.write(octets, 'latin1');
    return;
  }
  const size = pick([1, 7, 100]);
  for (let at = 0; at < Math.min(octets.length, size * 100) && !socket.destroyed; at += size) {
    socket.write(octets.slice(at, at + size), 'latin1');
    await pause(0);
  }
}

function end(socket: Socket): void {
  const how = pick(['reset', 'end', 'destroy', 'end and read'] as const);
  // Under TLS a reset is what `destroy` makes of octets that were not read.
  if (how === 'reset' && !('encrypted' in socket)) socket.resetAndDestroy();
  else if (how === 'end' || how === 'end and read') {
    socket.end();
    if (how === 'end and read') socket.resume();
    setTimeout(() => socket.destroy(), below(1500));
  } else socket.destroy();
}

/** One client after another on one connection each, until the time is up. */
async function worker(
  at: Attacked,
  until: number,
  kept: { readonly open: BoundedSockets; readonly report: { connections: number; sent: number; read: number } },
): Promise<void> {
  const { open, report } = kept;
  while (performance.now() < until) {
    const secure = Math.random() < 0.4;
    const where = { host: '127.0.0.1', allowHalfOpen: true };
    const host = at.hosts[below(at.hosts.length)] ?? '';
    const handshakes = secure && Math.random() < 0.9;
    const socket = handshakes
      ? connectTls({ ...where, port: at.tlsPort, servername: host, rejectUnauthorized: false })
      : connect({ ...where, port: secure ? at.tlsPort : at.port });
    report.connections += 1;
    open.add(socket);
    socket.on('data', (piece: Buffer) => (report.read += piece.length));
    if (Math.random() < 0.3) socket.pause();
    await write(socket, octetsFor(host));
    await pause(pick([0, 0, 5, 50, 300, 1000]));
    report.sent += socket.bytesWritten;
    end(socket);
  }
}

/**
 * Attacks for so many seconds. When it resolves, every connection of its own is closed.
 * @param options `clients`: connections at a time, but for those that linger in their end
 */
export async function attackHttp(
  at: Attacked,
  options: { readonly seconds: number; readonly clients: number },
): Promise<AttackReport> {
  const report = { connections: 0, sent: 0, read: 0 };
  const until = performance.now() + options.seconds * 1000;
  const open = boundedSockets(maxOpenClients);
  await Promise.all(Array.from({ length: options.clients }, () => worker(at, until, { open, report })));
  open.destroyAll();
  return { connections: report.connections, octetsSent: report.sent, octetsRead: report.read };
}
