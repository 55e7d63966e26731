// The reconciler: listeners are what the plans say, after any change, failure or restart.

import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import type { ForwardingPlan } from '../../../src/proxy/application/application.ts';
import { clockOf } from '../../support/manual-clock.ts';
import {
  dial,
  dialedEnd,
  directTo,
  echoServer,
  endOf,
  isOpen,
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
const other = 'b0'.repeat(16);

/** Connects, says nothing and reads what the origin greets with. */
async function greeting(address: string, edgePort: number): Promise<string> {
  const client = await dial(address, edgePort);
  client.end();
  return String(await readToEnd(client));
}

function greeter(text: string) {
  return tcpServer((socket) => socket.end(text));
}

test('an application is pending until it is applied, and gone when it is removed', async () => {
  const address = loopbackAddress();
  const plane = await startPlane([]);
  expect(plane.status(id).state).toBe('pending');
  expect(plane.traffic(id)).toBeUndefined();
  const origin = await greeter('hello');
  await plane.apply(planOf({ addresses: [address], origin: directTo(origin) }));
  expect(plane.status(id)).toEqual({ state: 'active', reason: '' });
  expect(await greeting(address, 22)).toBe('hello');
  await until(() => plane.totals().get(id)?.open === 0);
  expect(plane.totals().get(id)).toMatchObject({ connections: 1, bytesFromOrigins: 5 });
  await plane.apply();
  expect(plane.status(id).state).toBe('pending');
  expect(plane.totals().size).toBe(0);
  expect(await isOpen(address, 22)).toBe(false);
});

test('the log tells where an application listens, anew whenever it listens elsewhere', async () => {
  const [one, two] = [loopbackAddress(), loopbackAddress()];
  const first = planOf({ addresses: [one], ports: { first: 1000, last: 1002 } });
  const plane = await startPlane([first]);
  const told = () =>
    plane.lines
      .filter(({ msg }) => msg === 'proxy application is active' || msg === 'proxy application has failed')
      .map(({ msg, listening }) => [msg, listening]);
  const at = (address: string, from: number, to: number) => `${address}:${from + testOffset}-${to + testOffset}`;
  expect(told()).toEqual([['proxy application is active', at(one, 1000, 1002)]]);
  await plane.apply(first);
  await plane.apply({ ...first, addresses: [one, two] });
  await plane.apply({ ...first, addresses: [one, two] }, planOf({ id: other, addresses: ['192.0.2.1'] }));
  expect(told().slice(1)).toEqual([
    ['proxy application is active', `${at(one, 1000, 1002)}, ${at(two, 1000, 1002)}`],
    ['proxy application has failed', ''],
  ]);
  expect(plane.traffic(id)?.listening).toEqual([at(one, 1000, 1002), at(two, 1000, 1002)]);
});

test('every address of an application listens', async () => {
  const addresses = [loopbackAddress(), loopbackAddress()];
  const origin = await greeter('hello');
  await startPlane([planOf({ addresses, origin: directTo(origin) })]);
  for (const address of addresses) expect(await greeting(address, 22)).toBe('hello');
});

test('an update keeps 100 open connections, which all finish; new ones go to the new origin', async () => {
  const address = loopbackAddress();
  const oldOrigin = await echoServer('old:');
  const newOrigin = await echoServer('new:');
  const plan = planOf({ addresses: [address], origin: directTo(oldOrigin) });
  const plane = await startPlane([plan]);
  const clients = await Promise.all(Array.from({ length: 100 }, () => dial(address, 22)));
  const greetings = await Promise.all(clients.map((client) => readOctets(client, 4)));
  expect(new Set(greetings.map(String))).toEqual(new Set(['old:']));

  await plane.apply({ ...plan, origin: directTo(newOrigin) });
  expect(plane.traffic(id)?.counters.open).toBe(100);
  const fresh = await dial(address, 22);
  fresh.end('x');
  expect(String(await readToEnd(fresh))).toBe('new:x');

  const ends = clients.map(async (client, index) => {
    client.end(`number ${index}`);
    return String(await readToEnd(client));
  });
  expect(await Promise.all(ends)).toEqual(clients.map((_, index) => `number ${index}`));
  await until(() => plane.traffic(id)?.counters.open === 0);
  // Counters survive the update.
  expect(plane.traffic(id)?.counters).toMatchObject({ connections: 101, failed: 0 });
});

test('after an update what was open is cut when the drain time is over, what came later is not', async () => {
  const address = loopbackAddress();
  const origin = await echoServer('hello');
  const plan = planOf({ addresses: [address], origin: directTo(origin) });
  const plane = await startPlane([plan], { drainMs: 100 });
  const before = await dial(address, 22);
  await readOctets(before, 5);
  await plane.apply({ ...plan, proxyProtocol: 'simple' });
  const after = await dial(address, 22);
  await readOctets(after, 5);
  expect(await endOf(before)).toBe('ECONNRESET');
  await until(() => plane.traffic(id)?.counters.open === 1);
  expect(plane.traffic(id)?.events[0]?.reason).toBe('the application was changed or removed');
  const back = readOctets(after, 1);
  after.write('x');
  expect(String(await back)).toBe('x');
});

test('an address that is added touches no open connection', async () => {
  const [address, added] = [loopbackAddress(), loopbackAddress()];
  const origin = await echoServer('hello');
  const plan = planOf({ addresses: [address], origin: directTo(origin) });
  const plane = await startPlane([plan], { drainMs: 0 });
  const client = await dial(address, 22);
  await readOctets(client, 5);
  await plane.apply({ ...plan, addresses: [address, added] });
  const echoed = readOctets(client, 1);
  client.write('x');
  expect(String(await echoed)).toBe('x');
  expect(await isOpen(added, 22)).toBe(true);
});

test('removal closes the listener at once; 100 open connections drain, and the rest is cut', async () => {
  const address = loopbackAddress();
  const origin = await echoServer('hello');
  const plane = await startPlane([planOf({ addresses: [address], origin: directTo(origin) })], { drainMs: 3000 });
  const clients = await Promise.all(Array.from({ length: 100 }, () => dial(address, 22)));
  await Promise.all(clients.map((client) => readOctets(client, 5)));
  await plane.apply();
  expect(await isOpen(address, 22)).toBe(false);
  const finishing = clients.slice(0, 50).map(async (client) => {
    client.end('bye');
    return String(await readToEnd(client));
  });
  expect(new Set(await Promise.all(finishing))).toEqual(new Set(['bye']));
  const rest = await Promise.all(clients.slice(50).map(endOf));
  expect(new Set(rest)).toEqual(new Set(['ECONNRESET']));
});

test('ports that move are closed at the old place and open at the new', async () => {
  const address = loopbackAddress();
  const origin = await greeter('hello');
  const plan = planOf({ addresses: [address], origin: directTo(origin) });
  const plane = await startPlane([plan]);
  await plane.apply({ ...plan, ports: { first: 23, last: 23 } });
  expect(await isOpen(address, 22)).toBe(false);
  expect(await greeting(address, 23)).toBe('hello');
});

test('two applications swap their ports in one step', async () => {
  const address = loopbackAddress();
  const a = planOf({ addresses: [address], origin: directTo(await greeter('a')) });
  const b = planOf({
    id: other,
    addresses: [address],
    origin: directTo(await greeter('b')),
    ports: { first: 23, last: 23 },
  });
  const plane = await startPlane([a, b]);
  expect([await greeting(address, 22), await greeting(address, 23)]).toEqual(['a', 'b']);
  await plane.apply({ ...a, ports: b.ports }, { ...b, ports: a.ports });
  expect([await greeting(address, 22), await greeting(address, 23)]).toEqual(['b', 'a']);
  expect([plane.status(id).state, plane.status(other).state]).toEqual(['active', 'active']);
});

test('a port that is taken is failed, the others of the range serve, and it is tried again until it is free', async () => {
  const address = loopbackAddress();
  const blocker = createServer();
  blocker.listen(101 + testOffset, address);
  await once(blocker, 'listening');
  onTestFinished(() => void (blocker.listening && blocker.close()));
  const origin = await tcpServer((socket) => socket.end('hello'), { address: loopbackAddress(), port: 7000 });
  const plane = await startPlane(
    [
      planOf({
        addresses: [address],
        ports: { first: 100, last: 102 },
        origin: { kind: 'direct', origins: [{ address: origin.address, ports: { first: 7000, last: 7002 } }] },
      }),
    ],
    { retry: { firstMs: 10, longestMs: 40 } },
  );
  expect(plane.status(id)).toEqual({
    state: 'failed',
    reason: `port 101 (bound 20000 higher) on ${address}: another program listens there (EADDRINUSE)`,
  });
  expect(await greeting(address, 100)).toBe('hello');
  expect(await isOpen(address, 102)).toBe(true);
  // Tries that fail in the same way are told once.
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(plane.lines.filter(({ level }) => level === 'warn')).toHaveLength(1);
  await new Promise((resolve) => blocker.close(resolve));
  await until(() => plane.status(id).state === 'active');
  expect(await isOpen(address, 101)).toBe(true);
});

test('an address that this machine does not have is told once for all ports', async () => {
  const plane = await startPlane([planOf({ addresses: ['192.0.2.77'], ports: { first: 100, last: 400 } })]);
  expect(plane.status(id)).toEqual({
    state: 'failed',
    reason: 'ports 100-400 (bound 20000 higher): 192.0.2.77 is no address of this machine (EADDRNOTAVAIL)',
  });
});

test('ports that are over 65535 with the offset are failed, those below serve', async () => {
  const address = loopbackAddress();
  const plane = await startPlane([planOf({ addresses: [address], ports: { first: 45_534, last: 45_537 } })]);
  expect(plane.status(id)).toEqual({
    state: 'failed',
    reason: 'ports 45536-45537 and the offset of 20000 are over 65535',
  });
  expect(await isOpen(address, 45_534)).toBe(true);
  expect(await isOpen(address, 45_535)).toBe(true);
});

test('an application with an obstacle is failed and listens nowhere', async () => {
  const address = loopbackAddress();
  const plane = await startPlane([planOf({ addresses: [address], obstacle: 'its network is gone' })]);
  expect(plane.status(id)).toEqual({ state: 'failed', reason: 'its network is gone' });
  expect(await isOpen(address, 22)).toBe(false);
});

test('all 65535 ports are more than there may be: the application has none, others go on', async () => {
  const address = loopbackAddress();
  const huge = planOf({ id: other, addresses: [address], ports: { first: 1, last: 45_535 } });
  const plane = await startPlane([huge, planOf({ addresses: [loopbackAddress()] })], { maxListeners: 100 });
  expect(plane.status(other)).toEqual({
    state: 'failed',
    reason: 'it needs 45535 listening sockets, and 50 of the 50 of its account are left',
  });
  expect(plane.status(id).state).toBe('active');
  expect(await isOpen(address, 1)).toBe(false);
});

test('a wide range is bound without keeping the event loop', async () => {
  const address = loopbackAddress();
  let turns = 0;
  const timer = setInterval(() => {
    turns += 1;
  }, 1);
  const plane = await startPlane([planOf({ addresses: [address], ports: { first: 1, last: 2000 } })]);
  clearInterval(timer);
  expect(plane.status(id).state).toBe('active');
  expect(turns).toBeGreaterThan(3);
  expect(await isOpen(address, 2000)).toBe(true);
  await plane.apply();
  expect(await isOpen(address, 2000)).toBe(false);
});

test('a port of the gateway itself is not taken', async () => {
  const address = loopbackAddress();
  const plane = await startPlane([planOf({ addresses: [address] })], {
    ownDoors: () => [{ host: '127.0.0.1', port: 22 + testOffset }],
  });
  expect(plane.status(id)).toEqual({ state: 'failed', reason: 'port 22: the gateway itself listens there' });
  expect(await isOpen(address, 22)).toBe(false);
});

test('UDP plans are carried by sessions, on the same port as TCP', async () => {
  const address = loopbackAddress();
  const origin = createSocket('udp4');
  origin.on('message', (datagram, from) => origin.send(`udp ${String(datagram)}`, from.port, from.address));
  origin.bind(0, '127.0.0.1');
  await once(origin, 'listening');
  onTestFinished(() => void origin.close());
  const udp = planOf({
    id: other,
    addresses: [address],
    transport: 'udp',
    origin: directTo({ address: '127.0.0.1', port: origin.address().port }),
  });
  const tcp = planOf({ addresses: [address], origin: directTo(await greeter('tcp')) });
  const plane = await startPlane([udp, tcp]);
  expect([plane.status(id).state, plane.status(other).state]).toEqual(['active', 'active']);
  expect(await greeting(address, 22)).toBe('tcp');

  const client = createSocket('udp4');
  onTestFinished(() => void client.close());
  client.send('hello', 22 + testOffset, address);
  const [answer] = await once(client, 'message');
  expect(String(answer)).toBe('udp hello');
  expect(plane.totals().get(other)).toMatchObject({
    open: 1,
    connections: 1,
    bytesFromClients: 5,
    bytesFromOrigins: 9,
  });

  // Draining does not wait for the silence of a session.
  await plane.drain(60_000);
  const free = createSocket('udp4');
  free.bind(22 + testOffset, address);
  await once(free, 'listening');
  free.close();
});

test('a flood of refusals leaves the other events in their place', async () => {
  const address = loopbackAddress();
  const origin = await greeter('hello');
  const firewall = { block: ['127.9.9.9/32'], allow: [] };
  const now = Date.now();
  const plane = await startPlane([planOf({ addresses: [address], origin: directTo(origin), firewall })], {
    clock: clockOf(() => now),
  });
  expect(await greeting(address, 22)).toBe('hello');
  await until(() => plane.traffic(id)?.counters.open === 0);
  for (let call = 0; call < 120; call += 1) await dialedEnd(address, 22, '127.9.9.9');
  expect(plane.traffic(id)?.counters.refused).toBe(120);
  const kinds = plane.traffic(id)?.events.map(({ kind }) => kind);
  expect(kinds).toEqual([...Array<string>(10).fill('refused'), 'disconnect', 'connect']);
});

test('plans that cannot be read leave everything as it is, and are read again', async () => {
  const address = loopbackAddress();
  const origin = await greeter('hello');
  const plan = planOf({ addresses: [address], origin: directTo(origin) });
  let reads = 0;
  const plane = await startPlane([], {
    retry: { firstMs: 10, longestMs: 10 },
    plans: async () => {
      reads += 1;
      if (reads === 1 || reads === 3) throw new Error('the store is busy');
      return [plan];
    },
  });
  expect(plane.status(id).state).toBe('pending');
  await until(() => plane.status(id).state === 'active');
  await plane.reconcile();
  expect(await greeting(address, 22)).toBe('hello');
  await until(() => reads >= 4);
});

test('calls at once run one after another, and those that wait share one run', async () => {
  const address = loopbackAddress();
  let reads = 0;
  let atOnce = 0;
  let plans: readonly ForwardingPlan[] = [];
  const plane = await startPlane([], {
    plans: async () => {
      reads += 1;
      atOnce += 1;
      expect(atOnce).toBe(1);
      await new Promise((resolve) => setTimeout(resolve, 10));
      atOnce -= 1;
      return plans;
    },
  });
  reads = 0;
  const calls = [plane.reconcile()];
  plans = [planOf({ addresses: [address] })];
  for (let call = 0; call < 20; call += 1) calls.push(plane.reconcile());
  await Promise.all(calls);
  expect(reads).toBe(2);
  expect(plane.status(id).state).toBe('active');
});

test('draining stops listening, lets connections finish, cuts the rest', async () => {
  const address = loopbackAddress();
  const origin = await echoServer('hello');
  const plane = await startPlane([planOf({ addresses: [address], origin: directTo(origin) })]);
  const [finishing, staying] = await Promise.all([dial(address, 22), dial(address, 22)]);
  await Promise.all([readOctets(finishing, 5), readOctets(staying, 5)]);
  let isDrained = false;
  const drained = plane.drain(3000).then(() => {
    isDrained = true;
  });
  await until(async () => !(await isOpen(address, 22)));
  finishing.end('bye');
  expect(String(await readToEnd(finishing))).toBe('bye');
  expect(isDrained).toBe(false);
  expect(await endOf(staying)).toBe('ECONNRESET');
  await drained;
  // Nothing listens again afterwards.
  await plane.reconcile();
  expect(await isOpen(address, 22)).toBe(false);
});

test('a restart gives the same listeners', async () => {
  const address = loopbackAddress();
  const origin = await greeter('hello');
  const plans = [
    planOf({ addresses: [address], origin: directTo(origin) }),
    planOf({ id: other, addresses: [address], ports: { first: 30, last: 32 }, origin: directTo(origin) }),
  ];
  const first = await startPlane(plans);
  await first.drain(0);
  expect(await isOpen(address, 22)).toBe(false);
  const second = await startPlane(plans);
  expect([second.status(id).state, second.status(other).state]).toEqual(['active', 'active']);
  for (const port of [22, 30, 31, 32]) expect(await isOpen(address, port)).toBe(true);
});

test('the latest 100 events are kept, the newest first', async () => {
  const address = loopbackAddress();
  const origin = await greeter('');
  const plane = await startPlane([planOf({ addresses: [address], origin: directTo(origin) })]);
  const ports: (number | undefined)[] = [];
  for (let call = 0; call < 60; call += 1) {
    const client: Socket = await dial(address, 22);
    ports.push(client.localPort);
    client.end();
    await readToEnd(client);
    await until(() => plane.traffic(id)?.counters.open === 0);
  }
  const events = plane.traffic(id)?.events ?? [];
  expect(events).toHaveLength(100);
  expect(events[0]).toMatchObject({ kind: 'disconnect', client: `127.0.0.1:${ports.at(-1)}` });
  expect(events.at(-1)).toMatchObject({ kind: 'connect', client: `127.0.0.1:${ports.at(-50)}` });
});
