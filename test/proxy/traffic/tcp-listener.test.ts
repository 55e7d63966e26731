// TCP through the data plane: octets both ways, each half closed on its own, resets, backpressure, limits.

import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer as createHttpServer, request } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { networkInterfaces } from 'node:os';
import { expect, onTestFinished, test } from 'vitest';
import { collectGarbage } from '../../support/heap-octets.ts';
import {
  dial,
  dialedEnd,
  directTo,
  echoServer,
  endOf,
  loopbackAddress,
  planOf,
  readOctets,
  readToEnd,
  startPlane,
  tcpServer,
  testOffset,
  until,
} from '../../support/proxy-plane.ts';

const id = 'a0'.repeat(16);

test('octets go both ways and are counted, and the end is told', async () => {
  const address = loopbackAddress();
  const origin = await echoServer();
  const plane = await startPlane([planOf({ addresses: [address], origin: directTo(origin) })]);
  expect(plane.status(id)).toEqual({ state: 'active', reason: '' });

  const client = await dial(address, 22);
  const { localPort } = client;
  const sent = randomBytes(300_000);
  client.end(sent);
  expect(await readToEnd(client)).toEqual(sent);
  await until(() => plane.traffic(id)?.counters.open === 0);

  const { counters, events } = plane.traffic(id) ?? {};
  expect(counters).toEqual({
    open: 0,
    connections: 1,
    refused: 0,
    failed: 0,
    bytesFromClients: 300_000,
    bytesFromOrigins: 300_000,
    datagramsDropped: 0,
  });
  const shared = {
    connection: expect.stringMatching(/^[0-9a-f]{16}$/),
    client: `127.0.0.1:${localPort}`,
    port: 22,
    origin: `127.0.0.1:${origin.port}`,
    at: expect.any(Number),
  };
  expect(events).toEqual([
    {
      ...shared,
      kind: 'disconnect',
      reason: 'the client closed',
      bytesFromClient: 300_000,
      bytesFromOrigin: 300_000,
      durationMs: expect.any(Number),
    },
    { ...shared, kind: 'connect' },
  ]);
  const { at: _, kind: __, ...told } = events?.[0] ?? {};
  expect(plane.lines).toContainEqual(
    expect.objectContaining({ ...told, level: 'info', application: id, msg: 'proxy connection ended' }),
  );
});

test('single octets arrive as they are sent', async () => {
  const address = loopbackAddress();
  const origin = await echoServer();
  await startPlane([planOf({ addresses: [address], origin: directTo(origin) })]);
  const client = await dial(address, 22);
  for (const octet of 'one at a time') {
    const back = readOctets(client, 1);
    client.write(octet);
    expect(String(await back)).toBe(octet);
  }
});

test('what the client sends before an origin has taken it waits and comes first', async () => {
  const address = loopbackAddress();
  const origin = await echoServer('banner:');
  await startPlane([planOf({ addresses: [address], origin: directTo({ address: '127.0.0.1', port: 1 }, origin) })]);
  const client = await dial(address, 22);
  client.end('early');
  expect(String(await readToEnd(client))).toBe('banner:early');
});

test('the client may close its half and still be answered', async () => {
  const address = loopbackAddress();
  const origin = await tcpServer((socket) => {
    void readToEnd(socket).then((all) => socket.end(`${all.length} octets`));
  });
  await startPlane([planOf({ addresses: [address], origin: directTo(origin) })]);
  const client = await dial(address, 22);
  client.end('question');
  expect(String(await readToEnd(client))).toBe('8 octets');
});

test('the origin may close its half and still be sent to', async () => {
  const address = loopbackAddress();
  const got: Buffer[] = [];
  const origin = await tcpServer((socket) => {
    socket.end('goodbye');
    socket.on('data', (chunk) => got.push(chunk));
  });
  const plane = await startPlane([planOf({ addresses: [address], origin: directTo(origin) })]);
  const client = await dial(address, 22);
  expect(String(await readToEnd(client))).toBe('goodbye');
  expect(plane.traffic(id)?.counters.open).toBe(1);
  client.end('still here');
  await until(() => plane.traffic(id)?.counters.open === 0);
  expect(String(Buffer.concat(got))).toBe('still here');
  expect(plane.traffic(id)?.events[0]?.reason).toBe('the origin closed');
});

test('an origin that ends, and does not take what is left for it, is given up after the idle time', async () => {
  const address = loopbackAddress();
  const origin = await tcpServer((socket) => {
    socket.pause();
    socket.end();
  });
  const plane = await startPlane([planOf({ addresses: [address], origin: directTo(origin) })], {
    limits: { tcpIdleMs: 500 },
  });
  const client = await dial(address, 22);
  client.resume();
  client.end(Buffer.alloc(16 * 1024 * 1024));
  await until(() => plane.traffic(id)?.counters.open === 0);
  expect(plane.traffic(id)?.events[0]).toMatchObject({ kind: 'disconnect', reason: 'nothing came for 500 ms' });
});

test("the origin's reset is a reset for the client", async () => {
  const address = loopbackAddress();
  const origin = await tcpServer((socket) => socket.once('data', () => socket.resetAndDestroy()));
  const plane = await startPlane([planOf({ addresses: [address], origin: directTo(origin) })]);
  const client = await dial(address, 22);
  client.write('x');
  expect(await endOf(client)).toBe('ECONNRESET');
  await until(() => plane.traffic(id)?.counters.open === 0);
  expect(plane.traffic(id)?.events[0]).toMatchObject({
    reason: 'the origin broke off: ECONNRESET',
    bytesFromClient: 1,
  });
  // It broke off before its first octet: it is tried last for a while.
  expect(plane.origins.failed).toHaveLength(1);
});

test("the client's reset is a reset for the origin, and no fault of it", async () => {
  const address = loopbackAddress();
  const accepted = Promise.withResolvers<Socket>();
  const origin = await tcpServer((socket) => {
    socket.once('data', () => accepted.resolve(socket));
  });
  const plane = await startPlane([planOf({ addresses: [address], origin: directTo(origin) })]);
  const client = await dial(address, 22);
  client.write('x');
  const end = endOf(await accepted.promise);
  client.resetAndDestroy();
  expect(await end).toBe('ECONNRESET');
  await until(() => plane.traffic(id)?.counters.open === 0);
  expect(plane.traffic(id)?.events[0]?.reason).toBe('the client broke off: ECONNRESET');
  expect(plane.origins.failed).toEqual([]);
});

test('an HTTP server behind it answers, kept alive', async () => {
  const server = createHttpServer((asked, reply) => reply.end(`${asked.method} ${asked.url}`));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = loopbackAddress();
  const { port } = server.address() as AddressInfo;
  await startPlane([planOf({ addresses: [address], origin: directTo({ address: '127.0.0.1', port }) })]);
  for (const path of ['/a', '/b']) {
    const asked = request({ host: address, port: 22 + testOffset, path, method: 'POST' });
    asked.end('body');
    const [answer] = await once(asked, 'response');
    expect(String(await readToEnd(answer))).toBe(`POST ${path}`);
  }
});

test('64 MiB to a reader that stops: what is unsent stays bounded, and all of it arrives', async () => {
  const address = loopbackAddress();
  const size = 64 * 1024 * 1024;
  // What the files before this one have left is no part of it.
  collectGarbage();
  const held = process.memoryUsage().arrayBuffers;
  const piece = randomBytes(1024 * 1024);
  const origin = await tcpServer((socket) => {
    let left = size / piece.length;
    const more = (): void => {
      while (left > 0) {
        left -= 1;
        if (!socket.write(piece)) return;
      }
      socket.end();
    };
    socket.on('drain', more);
    socket.on('data', more);
  });
  const plane = await startPlane([planOf({ addresses: [address], origin: directTo(origin) })]);
  const client = await dial(address, 22);
  client.pause();
  client.write('go');
  // Nothing is read: the system's buffers fill (some MiB), and the gateway must stop taking from the origin.
  let before = -1;
  await until(async () => {
    const now = plane.traffic(id)?.counters.bytesFromOrigins ?? 0;
    const stands = now === before && now > 0;
    before = now;
    await new Promise((resolve) => setTimeout(resolve, 200));
    return stands;
  });
  expect(before).toBeLessThan(size / 2);
  expect(process.memoryUsage().arrayBuffers - held).toBeLessThan(size);
  const got = await readToEnd(client);
  expect(got.length).toBe(size);
  expect(got.subarray(-piece.length)).toEqual(piece);
}, 60_000);

test('an origin that refuses is passed over, and told to have failed', async () => {
  const address = loopbackAddress();
  const origin = await echoServer();
  const dead = { address: loopbackAddress(), port: 4 };
  const plane = await startPlane([planOf({ addresses: [address], origin: directTo(dead, origin) })]);
  const client = await dial(address, 22);
  client.end('x');
  expect(String(await readToEnd(client))).toBe('x');
  expect(plane.origins.failed).toEqual([dead]);
  expect(plane.origins.succeeded).toEqual([{ address: origin.address, port: origin.port }]);
  expect(plane.traffic(id)?.counters.failed).toBe(0);
});

test('where no origin takes it the client is reset, and the reason names each', async () => {
  const address = loopbackAddress();
  const dead = loopbackAddress();
  const plane = await startPlane([
    planOf({ addresses: [address], origin: directTo({ address: dead, port: 4 }, { address: dead, port: 5 }) }),
  ]);
  expect(await dialedEnd(address, 22)).toBe('ECONNRESET');
  await until(() => plane.traffic(id)?.counters.open === 0);
  expect(plane.traffic(id)).toMatchObject({
    counters: { connections: 1, failed: 1, open: 0, refused: 0 },
    events: [
      {
        kind: 'error',
        origin: `${dead}:5`,
        reason: `no origin could be reached: ${dead}:4: ECONNREFUSED; ${dead}:5: ECONNREFUSED`,
      },
    ],
  });
});

test('an origin name without addresses: the reason is that of the origins', async () => {
  const address = loopbackAddress();
  const origin = {
    kind: 'dns',
    name: 'gone.example.com',
    type: 'A',
    ttlSeconds: 1200,
    ports: { first: 1, last: 1 },
  } as const;
  const plane = await startPlane([planOf({ addresses: [address], origin })]);
  expect(await dialedEnd(address, 22)).toBe('ECONNRESET');
  await until(() => plane.traffic(id)?.counters.open === 0);
  expect(plane.traffic(id)?.events[0]?.reason).toBe('no origin could be reached: "gone.example.com" has no A record');
});

test('an origin name with an address is connected to, and told by its address', async () => {
  const address = loopbackAddress();
  const { port } = await echoServer('hello');
  const ports = { first: port, last: port };
  const origin = { kind: 'dns', name: 'origin.example.com', type: 'A', ttlSeconds: 1200, ports } as const;
  const plane = await startPlane([planOf({ addresses: [address], origin })]);
  expect(String(await readOctets(await dial(address, 22), 5))).toBe('hello');
  expect(plane.traffic(id)?.events[0]).toMatchObject({ kind: 'connect', origin: `127.0.0.1:${port}` });
});

test('an address on originDeny is never connected to', async () => {
  const address = loopbackAddress();
  const origin = await echoServer();
  const plane = await startPlane([planOf({ addresses: [address], origin: directTo(origin) })], {
    originDeny: ['127.0.0.1/32'],
  });
  expect(await dialedEnd(address, 22)).toBe('ECONNRESET');
  await until(() => plane.traffic(id)?.counters.open === 0);
  expect(plane.traffic(id)?.events[0]?.reason).toContain(`127.0.0.1:${origin.port}: denied by proxy.originDeny`);
  expect(origin.sockets).toHaveLength(0);
  // What is denied is no failure of the origin.
  expect(plane.origins.failed).toEqual([]);
});

test('connections come from the source address of the virtual network', async () => {
  const address = loopbackAddress();
  const sourceAddress = loopbackAddress();
  const origin = await echoServer();
  await startPlane([planOf({ addresses: [address], origin: directTo(origin), sourceAddress })]);
  const client = await dial(address, 22);
  const back = readOctets(client, 1);
  client.write('x');
  await back;
  expect(origin.sockets[0]?.remoteAddress).toBe(sourceAddress);
});

test('a source address that this machine does not have is no failure of the origin', async () => {
  const address = loopbackAddress();
  const origin = await echoServer();
  const plan = planOf({ addresses: [address], origin: directTo(origin), sourceAddress: '192.0.2.77' });
  const plane = await startPlane([plan]);
  expect(await dialedEnd(address, 22)).toBe('ECONNRESET');
  await until(() => plane.traffic(id)?.counters.open === 0);
  expect(plane.traffic(id)?.events[0]?.reason).toContain('EADDRNOTAVAIL');
  expect(plane.origins.failed).toEqual([]);
});

test('every IPv6 address: the same port of IPv4 stays free, and events write the client in brackets', async () => {
  const hasIpv6 = Object.values(networkInterfaces()).some((all) => all?.some(({ address }) => address === '::1'));
  const port = 1000 + Math.floor(Math.random() * 10_000);
  const ports = { first: port, last: port };
  const address = loopbackAddress();
  const origin = await echoServer('hello');
  const firewall = { block: ['127.0.0.0/8'], allow: ['::1/128'] };
  const plane = await startPlane([
    planOf({ addresses: ['::'], origin: directTo(origin), ports, firewall }),
    planOf({ id: 'b0'.repeat(16), addresses: [address], origin: directTo(origin), ports }),
  ]);
  expect(plane.status(id).state).toBe(hasIpv6 ? 'active' : 'failed');
  expect(String(await readOctets(await dial(address, port), 5))).toBe('hello');
  if (!hasIpv6) return;
  expect(String(await readOctets(await dial('::1', port), 5))).toBe('hello');
  expect(plane.traffic(id)?.events[0]?.client).toMatch(/^\[::1\]:\d+$/);
});

test.each([
  ['on the block list', { block: ['127.9.0.0/16'], allow: [] }, 'blocked by the zone'],
  ['on both lists', { block: ['127.9.9.9/32'], allow: ['127.0.0.0/8'] }, 'blocked by the zone'],
  ['not on the allow list', { block: [], allow: ['127.8.0.0/16', '::/0'] }, "not on the zone's allow list"],
])('a client %s is reset and counted', async (_what, firewall, reason) => {
  const address = loopbackAddress();
  const origin = await echoServer();
  const plane = await startPlane([planOf({ addresses: [address], origin: directTo(origin), firewall })]);
  expect(await dialedEnd(address, 22, '127.9.9.9')).toBe('ECONNRESET');
  expect(plane.traffic(id)).toMatchObject({
    counters: { refused: 1, connections: 0, open: 0, failed: 0 },
    events: [{ kind: 'refused', reason }],
  });
  expect(origin.sockets).toHaveLength(0);
  // Refusals could come without end: they are not logged for everybody.
  expect(plane.lines.filter(({ msg }) => String(msg).includes('connection'))).toEqual([]);
});

test('a client on the allow list comes in', async () => {
  const address = loopbackAddress();
  const origin = await echoServer();
  const firewall = { block: ['127.8.0.0/16'], allow: ['127.9.0.0/16'] };
  await startPlane([planOf({ addresses: [address], origin: directTo(origin), firewall })]);
  const client = await dial(address, 22, '127.9.9.9');
  client.end('x');
  expect(String(await readToEnd(client))).toBe('x');
});

test.each([
  ['of the client', { openPerClient: 2 }, '127.9.9.9', 'the client has 2 open, its limit'],
  ['of the application', { openPerApplication: 2 }, '127.9.9.8', 'the application has 2 open, its limit'],
])('beyond the limit %s new connections are refused until one ends', async (_what, limits, third, reason) => {
  const address = loopbackAddress();
  const origin = await echoServer('hello');
  const plane = await startPlane([planOf({ addresses: [address], origin: directTo(origin) })], { limits });
  const first = await dial(address, 22, '127.9.9.9');
  const second = await dial(address, 22, '127.9.9.9');
  await Promise.all([readOctets(first, 5), readOctets(second, 5)]);
  expect(await dialedEnd(address, 22, third)).toBe('ECONNRESET');
  expect(plane.traffic(id)?.events[0]).toMatchObject({ kind: 'refused', reason });
  first.end();
  await until(() => plane.traffic(id)?.counters.open === 1);
  const fourth = await dial(address, 22, third);
  expect(String(await readOctets(fourth, 5))).toBe('hello');
});

test('a connection that is silent both ways is closed, one that is not goes on', async () => {
  const address = loopbackAddress();
  const origin = await echoServer('hello');
  const plane = await startPlane([planOf({ addresses: [address], origin: directTo(origin) })], {
    limits: { tcpIdleMs: 2000 },
  });
  const silent = await dial(address, 22);
  const busy = await dial(address, 22);
  await Promise.all([readOctets(silent, 5), readOctets(busy, 5)]);
  const silentEnd = endOf(silent);
  while (!silent.destroyed) {
    const back = readOctets(busy, 1);
    busy.write('.');
    await back;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  expect(await silentEnd).toBe('ECONNRESET');
  await until(() => plane.traffic(id)?.counters.open === 1);
  expect(plane.traffic(id)?.events[0]).toMatchObject({ kind: 'disconnect', reason: 'nothing came for 2000 ms' });
});

test('a range is mapped in step to the ports of the origin', async () => {
  const address = loopbackAddress();
  const originAddress = loopbackAddress();
  const last = 3;
  for (let step = 0; step <= last; step += 1) {
    await tcpServer((socket) => socket.end(`port ${7000 + step}`), { address: originAddress, port: 7000 + step });
  }
  await startPlane([
    planOf({
      addresses: [address],
      ports: { first: 100, last: 103 },
      origin: { kind: 'direct', origins: [{ address: originAddress, ports: { first: 7000, last: 7003 } }] },
    }),
  ]);
  for (let step = 0; step <= last; step += 1) {
    const client = await dial(address, 100 + step);
    client.end();
    expect(String(await readToEnd(client))).toBe(`port ${7000 + step}`);
  }
});
