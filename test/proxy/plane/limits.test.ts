// The bounds of the data plane: descriptors of the process, shares of an account, limits of one application, and the UDP
// sessions that give way.

import { once } from 'node:events';
import { expect, test } from 'vitest';
import { readLimits } from '../../../src/proxy/plane/data-plane-parts.ts';
import { descriptorsAllowed } from '../../../src/proxy/traffic/listener.ts';
import {
  dial,
  dialedEnd,
  directTo,
  echoServer,
  loopbackAddress,
  planOf,
  readOctets,
  startPlane,
  testOffset,
  until,
} from '../../support/proxy-plane.ts';
import { udpPeer } from '../../support/udp-peers.ts';

const one = 'a0'.repeat(16);
const other = 'b0'.repeat(16);
const account = 'c1'.repeat(16);

test.each([
  [20_000, 16_000],
  [1024, 819],
  [320, 256],
  [319, 255],
  [200, 136],
  [64, 0],
  [10, 0],
])('of %i files the applications may have %i', (limit, allowed) => {
  expect(descriptorsAllowed(limit)).toBe(allowed);
});

test('TCP connections leave the reserve alone, are told so, and come in again when others have gone', async () => {
  const address = loopbackAddress();
  const origin = await echoServer();
  // 71 for the applications: one for the listener, two for each connection.
  const plane = await startPlane([planOf({ addresses: [address], origin: directTo(origin) })], { openFiles: 135 });
  expect(plane.open()).toMatchObject({ descriptors: 1, allowed: 71, listeners: 1 });
  const clients = await Promise.all(
    Array.from({ length: 26 }, async () => {
      const client = await dial(address, 22);
      client.write('x');
      await readOctets(client, 1);
      return client;
    }),
  );
  // The share of the account, three quarters, is used up; the rest is for other accounts.
  expect(await dialedEnd(address, 22)).toBe('ECONNRESET');
  expect(plane.traffic(one)?.events[0]?.reason).toBe('the account has 26 open, its limit');
  await plane.apply(
    planOf({ addresses: [address], origin: directTo(origin) }),
    planOf({ id: other, account, addresses: [address], origin: directTo(origin), ports: { first: 23, last: 23 } }),
  );
  for (let turn = 0; turn < 8; turn += 1) {
    const client = await dial(address, 23);
    client.write('x');
    await readOctets(client, 1);
    clients.push(client);
  }
  expect(plane.open()).toMatchObject({ descriptors: 70, allowed: 71 });
  expect(await dialedEnd(address, 23)).toBe('ECONNRESET');
  expect(plane.traffic(other)?.events[0]?.reason).toBe('all applications together have as many files open as they may');
  expect([...plane.open().refused]).toEqual([
    ['account', 1],
    ['descriptors', 1],
  ]);
  for (const client of clients) client.end();
  await until(() => plane.open().descriptors === 2);
  expect([...plane.open().byAccount]).toEqual([]);
  const later = await dial(address, 23);
  later.write('y');
  expect(String(await readOctets(later, 1))).toBe('y');
});

test('a listener for which no descriptor is left is a failure that is told', async () => {
  const address = loopbackAddress();
  const plan = planOf({ addresses: [address], ports: { first: 22, last: 29 } });
  const plane = await startPlane([plan], { openFiles: 70, maxListeners: 100, retry: { firstMs: 50, longestMs: 50 } });
  expect(plane.status(one)).toEqual({
    state: 'failed',
    reason: `ports 28-29 (bound ${testOffset} higher) on ${address}: this process may not open more files (EMFILE)`,
  });
  // The ports are given back with the listeners.
  await plane.apply(planOf({ addresses: [address], ports: { first: 22, last: 24 } }));
  expect(plane.open().descriptors).toBe(3);
});

test('the ports of one account take its share of the listening sockets, and no other account notices', async () => {
  const address = loopbackAddress();
  const plane = await startPlane(
    [
      planOf({ addresses: [address], ports: { first: 100, last: 139 } }),
      planOf({ id: 'd'.repeat(32), addresses: [address], ports: { first: 200, last: 219 } }),
      planOf({ id: other, account, addresses: [address], ports: { first: 300, last: 349 } }),
    ],
    { maxListeners: 100 },
  );
  expect(plane.status(one).state).toBe('active');
  expect(plane.status('d'.repeat(32))).toEqual({
    state: 'failed',
    reason: 'it needs 20 listening sockets, and 10 of the 50 of its account are left',
  });
  expect(plane.status(other).state).toBe('active');
  expect(plane.open()).toMatchObject({ listeners: 90, maxListeners: 100 });
});

test('UDP sessions that nobody answers make room; those that are answered stay', async () => {
  const address = loopbackAddress();
  const origin = await udpPeer({ answer: (data) => (String(data) === 'flood' ? undefined : data) });
  const plan = planOf({
    addresses: [address],
    origin: directTo(origin),
    transport: 'udp',
    ports: { first: 53, last: 53 },
  });
  const plane = await startPlane([plan], { limits: { openPerApplication: 20 } });
  const edge = { address, port: 53 + testOffset };
  const honest = await Promise.all(Array.from({ length: 5 }, () => udpPeer()));
  for (const peer of honest) {
    await peer.send('first', edge);
    await peer.next();
  }
  const flood = await Promise.all(Array.from({ length: 60 }, () => udpPeer()));
  for (const peer of flood) await peer.send('flood', edge);
  await until(() => plane.open().evicted === 45);
  expect(plane.traffic(one)?.counters).toMatchObject({ open: 20, connections: 65, refused: 0 });
  for (const [index, peer] of honest.entries()) {
    await peer.send(`still ${index}`, edge);
    expect(String((await peer.next()).data)).toBe(`still ${index}`);
  }
  // Somebody new is served in the middle of it.
  const late = await udpPeer();
  await late.send('late', edge);
  expect(String((await late.next()).data)).toBe('late');
  expect(plane.traffic(one)?.counters.connections).toBe(66);
});

test.each([
  ['client', { limits: { openPerClient: 3 } }],
  ['account', { accountBounds: { accountSessions: 3, accountConnections: 3 } }],
])(
  'at the limit of its %s a session takes the place of one that nobody answers, and of none elsewhere',
  async (_, given) => {
    const address = loopbackAddress();
    const origin = await udpPeer({ answer: (data) => (String(data) === 'flood' ? undefined : data) });
    const at = (port: number) =>
      ({
        addresses: [address],
        origin: directTo(origin),
        transport: 'udp',
        ports: { first: port, last: port },
      }) as const;
    const plane = await startPlane([planOf(at(53)), planOf({ id: other, account, ...at(54) })], given);
    // Those of the other account are the older ones.
    for (const [id, port] of [
      [other, 54],
      [one, 53],
    ] as const) {
      for (const peer of await Promise.all(Array.from({ length: 3 }, () => udpPeer())))
        await peer.send('flood', { address, port: port + testOffset });
      await until(() => plane.traffic(id)?.counters.open === 3);
    }
    const late = await udpPeer();
    await late.send('late', { address, port: 53 + testOffset });
    expect(String((await late.next()).data)).toBe('late');
    expect([one, other].map((id) => plane.traffic(id)?.counters.open)).toEqual([3, 3]);
    expect(plane.open().evicted).toBe(1);
  },
);

test('answered UDP sessions are not cut for others: then the newcomer is refused', async () => {
  const address = loopbackAddress();
  const origin = await udpPeer({ answer: (data) => data });
  const plan = planOf({
    addresses: [address],
    origin: directTo(origin),
    transport: 'udp',
    ports: { first: 53, last: 53 },
  });
  const plane = await startPlane([plan], { limits: { openPerClient: 3 } });
  const edge = { address, port: 53 + testOffset };
  for (const peer of await Promise.all(Array.from({ length: 3 }, () => udpPeer()))) {
    await peer.send('x', edge);
    await peer.next();
  }
  await (await udpPeer()).send('x', edge);
  await until(() => plane.traffic(one)?.counters.refused === 1);
  expect(plane.traffic(one)?.events[0]?.reason).toBe('the client has 3 open, its limit');
  expect(plane.open().evicted).toBe(0);
});

test('an unanswered session gives its descriptor to a TCP connection', async () => {
  const address = loopbackAddress();
  const [silent, origin] = [await udpPeer(), await echoServer()];
  const plane = await startPlane(
    [
      planOf({ id: other, addresses: [address], origin: directTo(silent), transport: 'udp' }),
      planOf({ addresses: [address], origin: directTo(origin) }),
    ],
    // Eight for the applications: two listeners, and six for what they carry.
    { openFiles: 72, accountBounds: { accountSessions: 6, accountConnections: 6 } },
  );
  const senders = await Promise.all(Array.from({ length: 6 }, () => udpPeer()));
  for (const peer of senders) await peer.send('x', { address, port: 22 + testOffset });
  await until(() => plane.traffic(other)?.counters.open === 6);
  const client = await dial(address, 22);
  client.write('y');
  expect(String(await readOctets(client, 1))).toBe('y');
  expect(plane.open()).toMatchObject({ descriptors: 8, evicted: 2 });
  client.destroy();
  await once(client, 'close');
});

test('TCP connections over the account’s limit end none of its UDP sessions, which would give them no place', async () => {
  const address = loopbackAddress();
  const [silent, origin] = [await udpPeer(), await echoServer()];
  const plane = await startPlane(
    [
      planOf({ id: other, addresses: [address], origin: directTo(silent), transport: 'udp' }),
      planOf({ addresses: [address], origin: directTo(origin) }),
    ],
    { accountBounds: { accountSessions: 6, accountConnections: 1 } },
  );
  const senders = await Promise.all(Array.from({ length: 6 }, () => udpPeer()));
  for (const peer of senders) await peer.send('x', { address, port: 22 + testOffset });
  await until(() => plane.traffic(other)?.counters.open === 6);
  const client = await dial(address, 22);
  client.write('y');
  await readOctets(client, 1);
  expect(await dialedEnd(address, 22)).toBe('ECONNRESET');
  expect(plane.traffic(one)?.events[0]?.reason).toBe('the account has 1 open, its limit');
  expect([plane.open().evicted, plane.traffic(other)?.counters.open]).toEqual([0, 6]);
  client.destroy();
  await once(client, 'close');
});

test('limits of the configuration: for all, for one application over them, for an account', () => {
  const { limitsOf, ...rest } = readLimits({
    connections: 100,
    sessions: 50,
    perClient: 10,
    udpIdleSeconds: 5,
    accountConnections: 200,
    accountListeners: 12,
    applications: { [one.toUpperCase()]: { connections: 7, tcpIdleSeconds: 9 } },
  });
  const shared = { connectTimeoutMs: 10_000, openPerClient: 10, tcpIdleMs: 3_600_000, udpIdleMs: 5000 };
  expect(limitsOf(planOf({ id: other, addresses: [] }))).toEqual({ ...shared, openPerApplication: 100 });
  expect(limitsOf(planOf({ id: other, addresses: [], transport: 'udp' }))).toEqual({
    ...shared,
    openPerApplication: 50,
  });
  expect(limitsOf(planOf({ addresses: [] }))).toEqual({ ...shared, openPerApplication: 7, tcpIdleMs: 9000 });
  expect(rest).toEqual({ accountBounds: { accountConnections: 200 }, maxListenersPerAccount: 12 });
  expect(readLimits({}).limitsOf(planOf({ addresses: [] }))).toEqual({
    ...{ connectTimeoutMs: 10_000, tcpIdleMs: 3_600_000, udpIdleMs: 60_000 },
    ...{ openPerApplication: 10_000, openPerClient: 1000 },
  });
});
