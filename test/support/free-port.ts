// Ports for tests that must know a port before something listens there, or that want one where nothing listens.

import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';

/** The ports that the kernel gives to whoever asks for any, connections that go out among them (ip(7), ip_local_port_range). */
function givenByKernel(): readonly [number, number] {
  const [first = 32_768, last = 60_999] = readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8')
    .trim()
    .split(/\s+/)
    .map(Number);
  return [first, last];
}

/** Below it are services of the system. */
const firstOwn = 10_000;
const lastPort = 65_535;

/** A port at random that the kernel gives to nobody by itself; any above 10,000 where it gives all of them. */
function anyPort(): number {
  const [first, last] = givenByKernel();
  const below = Math.max(0, first - firstOwn);
  const above = Math.max(0, lastPort - Math.max(last, firstOwn - 1));
  const count = below + above;
  if (count === 0) return firstOwn + Math.floor(Math.random() * (lastPort - firstOwn));
  const at = Math.floor(Math.random() * count);
  return at < below ? firstOwn + at : lastPort - (at - below);
}

async function isFreeForTcp(port: number): Promise<boolean> {
  const server = createServer();
  const isFree = await new Promise<boolean>((resolve) => {
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => resolve(true));
  });
  if (!isFree) return false;
  server.close();
  await once(server, 'close');
  return true;
}

async function isFreeForUdp(port: number): Promise<boolean> {
  const socket = createSocket('udp4');
  const isFree = await new Promise<boolean>((resolve) => {
    socket.once('error', () => resolve(false));
    socket.bind(port, '127.0.0.1', () => resolve(true));
  });
  socket.close();
  return isFree;
}

/**
 * A port of 127.0.0.1 that nothing has, by TCP or UDP, and that stays so until the test takes it: a port that the kernel had given
 * would soon be given to another test.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = anyPort();
    if ((await isFreeForTcp(port)) && (await isFreeForUdp(port))) return port;
  }
}
