// UDP sessions on real sockets: replies to the right client, expiry, limits, refused origins, headers, sizes.

import { networkInterfaces } from 'node:os';
import { expect, onTestFinished, test } from 'vitest';
import { systemClock } from '../../../src/base/clock.ts';
import { Counts } from '../../../src/base/counts.ts';
import { silentLog } from '../../../src/base/log.ts';
import type { ConnectionEvent, ForwardingPlan } from '../../../src/proxy/application/application.ts';
import { createResolver } from '../../../src/proxy/origins/dns-cache.ts';
import { createOrigins } from '../../../src/proxy/origins/origins.ts';
import { createNoteLimit, toldPerSecond } from '../../../src/proxy/plane/running-applications.ts';
import {
  type DataPlaneLimits,
  OpenBudget,
  type ProxyListenerParts,
  type RunningApplication,
} from '../../../src/proxy/traffic/listener.ts';
import { proxyHeaderV2, simpleHeader } from '../../../src/proxy/traffic/proxy-header.ts';
import { mostPendingDatagrams, openUdpListener } from '../../../src/proxy/traffic/udp-listener.ts';
import { startDnsServer } from '../../support/dns-server.ts';
import { directTo, loopbackAddress, planOf, startPlane, testOffset, until } from '../../support/proxy-plane.ts';
import { readSimpleHeader } from '../../support/simple-header.ts';
import { udpEcho, udpPeer } from '../../support/udp-peers.ts';

const edgePort = 53;

interface Given {
  readonly plan?: Partial<ForwardingPlan>;
  readonly limits?: Partial<DataPlaneLimits>;
  readonly address?: string;
  readonly refuseOrigin?: ProxyListenerParts['refuseOrigin'];
  readonly dns?: string;
}

/** One listener on a free port, with everything that it has told. */
async function listen(given: Given) {
  const address = given.address ?? loopbackAddress();
  const plan = planOf({
    transport: 'udp',
    ports: { first: edgePort, last: edgePort },
    addresses: [address],
    ...given.plan,
  });
  const events: ConnectionEvent[] = [];
  const limit = createNoteLimit(systemClock);
  const resolve = createResolver({
    zones: [],
    ...(given.dns === undefined ? {} : { dns: { servers: [given.dns], withinMs: 10_000 } }),
  });
  const running: RunningApplication = {
    plan,
    origins: createOrigins(plan, { resolve, clock: systemClock }),
    traffic: {
      open: 0,
      connections: 0,
      refused: 0,
      failed: 0,
      bytesFromClients: 0,
      bytesFromOrigins: 0,
      datagramsDropped: 0,
    },
    note: (event) => limit(event, (told) => void events.push(told)),
    openByClient: new Counts(),
    connections: new Set(),
  };
  let current = running;
  // The listener is told its port, so that one is found first.
  const finder = await udpPeer({ address });
  const { port } = finder;
  await finder.close();
  const at = { address, port, edgePort };
  const listener = await openUdpListener(at, () => current, {
    budget: new OpenBudget({ descriptors: 10_000, accountConnections: 10_000, accountSessions: 10_000 }),
    limits: () => ({
      connectTimeoutMs: 5000,
      tcpIdleMs: 60_000,
      udpIdleMs: 60_000,
      openPerApplication: 5000,
      openPerClient: 5000,
      ...given.limits,
    }),
    clock: systemClock,
    log: silentLog,
    refuseOrigin: given.refuseOrigin ?? (() => undefined),
    certificate: () => undefined,
  });
  onTestFinished(() => listener.close(0));
  const use = (next: Partial<RunningApplication>): void => {
    current = { ...current, ...next };
  };
  return { at, listener, running, events, use, kinds: () => events.map(({ kind }) => kind) };
}

test('a question goes to the origin and its answer to the client, and both are counted', async () => {
  const origin = await udpEcho('re:');
  const edge = await listen({ plan: { origin: directTo(origin) } });
  const client = await udpPeer();
  await client.send('question', edge.at);
  const answer = await client.next();
  expect(answer.data.toString()).toBe('re:question');
  expect(answer.from).toMatchObject({ address: edge.at.address, port: edge.at.port });
  expect(edge.running.traffic).toEqual({
    open: 1,
    connections: 1,
    refused: 0,
    failed: 0,
    bytesFromClients: 8,
    bytesFromOrigins: 11,
    datagramsDropped: 0,
  });
  expect(edge.events).toEqual([
    {
      at: expect.any(Number),
      kind: 'connect',
      connection: expect.stringMatching(/^[0-9a-f]{16}$/),
      client: `127.0.0.1:${client.port}`,
      port: edgePort,
      origin: `127.0.0.1:${origin.port}`,
    },
  ]);
});

test('datagrams of one client come from one port, those of another from another, and replies find their way', async () => {
  const origin = await udpPeer({ answer: (data, from) => Buffer.from(`${String(data)} by ${from.port}`) });
  const edge = await listen({ plan: { origin: directTo(origin) } });
  const [ann, bob] = [await udpPeer(), await udpPeer()];
  const ports = new Map<string, Set<string>>();
  for (const [name, client] of [
    ['ann', ann],
    ['bob', bob],
    ['ann', ann],
    ['bob', bob],
  ] as const) {
    await client.send(name, edge.at);
    const [who = '', , by = ''] = (await client.next()).data.toString().split(' ');
    expect(who).toBe(name);
    ports.set(name, new Set([...(ports.get(name) ?? []), by]));
  }
  expect(ports.get('ann')?.size).toBe(1);
  expect(ports.get('bob')?.size).toBe(1);
  expect(ports.get('ann')).not.toEqual(ports.get('bob'));
});

test('the origin may send whenever it likes, and several times', async () => {
  const origin = await udpPeer();
  const edge = await listen({ plan: { origin: directTo(origin) } });
  const client = await udpPeer();
  await client.send('subscribe', edge.at);
  const { from } = await origin.next();
  for (const news of ['one', 'two', 'three']) await origin.send(news, from);
  const got = [await client.next(), await client.next(), await client.next()];
  expect(got.map(({ data }) => data.toString())).toEqual(['one', 'two', 'three']);
});

test('somebody else cannot send into a session', async () => {
  const origin = await udpPeer();
  const edge = await listen({ plan: { origin: directTo(origin) } });
  const [client, stranger] = [await udpPeer(), await udpPeer()];
  await client.send('question', edge.at);
  const { from } = await origin.next();
  await stranger.send('forged', from);
  await origin.send('true', from);
  expect((await client.next()).data.toString()).toBe('true');
});

test('boundaries and sizes are kept: nothing, one octet, 1,472, 1,473, and the largest', async () => {
  const origin = await udpEcho();
  const edge = await listen({ plan: { origin: directTo(origin) } });
  const client = await udpPeer();
  for (const size of [0, 1, 1472, 1473, 65_507]) {
    const sent = Buffer.alloc(size, size % 251);
    await client.send(sent, edge.at);
    expect((await client.next()).data.equals(sent)).toBe(true);
  }
  expect(edge.running.traffic.bytesFromOrigins).toBe(1 + 1472 + 1473 + 65_507);
  expect(origin.received.map(({ data }) => data.length)).toEqual([0, 1, 1472, 1473, 65_507]);
});

test('a thousand clients at once each get their own answer', { timeout: 60_000 }, async () => {
  const origin = await udpEcho('re:');
  const edge = await listen({ plan: { origin: directTo(origin) } });
  const clients = [];
  for (let index = 0; index < 1000; index += 1) clients.push(await udpPeer());
  for (let begin = 0; begin < clients.length; begin += 50) {
    const batch = clients.slice(begin, begin + 50);
    const answers = batch.map((client) => client.next());
    for (const client of batch) await client.send(`from ${client.port}`, edge.at);
    const texts = (await Promise.all(answers)).map(({ data }) => data.toString());
    expect(texts).toEqual(batch.map(({ port }) => `re:from ${port}`));
  }
  expect(edge.running.traffic).toMatchObject({ open: 1000, connections: 1000, refused: 0, failed: 0 });
  expect(edge.running.openByClient.get('127.0.0.1')).toBe(1000);
  expect(edge.running.connections.size).toBe(1000);
  await edge.listener.close(0);
  expect(edge.running.traffic.open).toBe(0);
  expect(edge.running.openByClient.size).toBe(0);
  expect(edge.running.connections.size).toBe(0);
});

test('an idle session ends, is told with its octets, and the next datagram begins another', async () => {
  const origin = await udpEcho();
  const edge = await listen({ plan: { origin: directTo(origin) }, limits: { udpIdleMs: 400 } });
  const client = await udpPeer();
  await client.send('first', edge.at);
  await client.next();
  await until(() => edge.running.traffic.open === 0);
  expect(edge.events.at(-1)).toEqual({
    at: expect.any(Number),
    kind: 'disconnect',
    connection: edge.events[0]?.connection,
    client: `127.0.0.1:${client.port}`,
    port: edgePort,
    origin: `127.0.0.1:${origin.port}`,
    reason: 'idle',
    bytesFromClient: 5,
    bytesFromOrigin: 5,
    durationMs: expect.any(Number),
  });
  await client.send('second', edge.at);
  expect((await client.next()).data.toString()).toBe('second');
  expect(edge.running.traffic.connections).toBe(2);
  expect(new Set(origin.received.map(({ from }) => from.port)).size).toBe(2);
});

test('a session in use does not end, whichever side uses it', async () => {
  const origin = await udpPeer();
  const edge = await listen({ plan: { origin: directTo(origin) }, limits: { udpIdleMs: 1500 } });
  const client = await udpPeer();
  await client.send('begin', edge.at);
  const { from } = await origin.next();
  const startedAt = performance.now();
  // Longer in all than one idle time, in steps far shorter.
  for (let step = 0; performance.now() - startedAt < 2200; step += 1) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    if (step % 2 === 0) {
      await origin.send('news', from);
      await client.next();
    } else {
      await client.send('more', edge.at);
      await origin.next();
    }
  }
  expect(edge.running.traffic).toMatchObject({ open: 1, connections: 1 });
});

test('the lists of the zone decide who may send; the rest is counted and gets no answer', async () => {
  const origin = await udpEcho();
  const firewall = { block: ['127.0.0.66'], allow: ['127.0.0.64/30', '127.0.0.1'] };
  const edge = await listen({ plan: { origin: directTo(origin), firewall } });
  const [blocked, absent, allowed] = [
    await udpPeer({ address: '127.0.0.66' }),
    await udpPeer({ address: '127.0.0.68' }),
    await udpPeer({ address: '127.0.0.67' }),
  ];
  await blocked.send('x', edge.at);
  await absent.send('x', edge.at);
  await allowed.send('ok', edge.at);
  expect((await allowed.next()).data.toString()).toBe('ok');
  expect(edge.running.traffic).toMatchObject({ refused: 2, connections: 1 });
  expect(edge.events.filter(({ kind }) => kind === 'refused')).toMatchObject([
    { client: `127.0.0.66:${blocked.port}`, reason: 'blocked by the zone', port: edgePort },
    { client: `127.0.0.68:${absent.port}`, reason: "not on the zone's allow list", port: edgePort },
  ]);
  expect(origin.received.length).toBe(1);
  expect(blocked.received.length + absent.received.length).toBe(0);
});

test('sessions of a client and of the application are limited; those that are open go on', async () => {
  const origin = await udpEcho();
  const edge = await listen({
    plan: { origin: directTo(origin) },
    limits: { openPerClient: 2, openPerApplication: 3 },
  });
  const from = async (address: string): Promise<[Awaited<ReturnType<typeof udpPeer>>, boolean]> => {
    const client = await udpPeer({ address });
    const { refused } = edge.running.traffic;
    await client.send('x', edge.at);
    await until(() => edge.running.traffic.refused > refused || client.received.length > 0);
    return [client, client.received.length > 0];
  };
  const [first, isFirstIn] = await from('127.0.0.2');
  expect([isFirstIn, (await from('127.0.0.2'))[1], (await from('127.0.0.2'))[1]]).toEqual([true, true, false]);
  expect([(await from('127.0.0.3'))[1], (await from('127.0.0.4'))[1]]).toEqual([true, false]);
  const reasons = edge.events.filter(({ kind }) => kind === 'refused').map(({ reason }) => reason);
  expect(reasons).toEqual(['the client has 2 open, its limit', 'the application has 3 open, its limit']);
  await first.send('still', edge.at);
  await until(() => first.received.length === 2);
});

test('a flood of refused datagrams is counted in full and told ten times a second', async () => {
  const origin = await udpEcho();
  const edge = await listen({ plan: { origin: directTo(origin), firewall: { block: ['127.0.0.5'], allow: [] } } });
  const flooder = await udpPeer({ address: '127.0.0.5' });
  const startedAt = performance.now();
  for (let count = 0; count < 300; count += 1) {
    await flooder.send('x', edge.at);
    if (count % 50 === 49) await until(() => edge.running.traffic.refused === count + 1);
  }
  const seconds = Math.floor((performance.now() - startedAt) / 1000) + 2;
  expect(edge.running.traffic.refused).toBe(300);
  expect(edge.events.length).toBeGreaterThanOrEqual(toldPerSecond);
  expect(edge.events.length).toBeLessThanOrEqual(toldPerSecond * seconds);
});

test('an origin whose port is closed ends the session at once, and the next datagram goes to another', async () => {
  const gone = await udpPeer();
  await gone.close();
  const alive = await udpEcho();
  const edge = await listen({ plan: { origin: directTo(gone, alive) } });
  const client = await udpPeer();
  await client.send('lost', edge.at);
  await until(() => edge.running.traffic.failed === 1);
  expect(edge.events.at(-1)).toMatchObject({
    kind: 'error',
    origin: `127.0.0.1:${gone.port}`,
    reason: 'the origin cannot be reached: ECONNREFUSED',
  });
  expect(edge.running.traffic.open).toBe(0);
  expect(edge.running.origins.health()).toEqual([
    { origin: { address: '127.0.0.1', port: gone.port }, healthy: false, failures: 1 },
    { origin: { address: '127.0.0.1', port: alive.port }, healthy: true, failures: 0 },
  ]);
  await client.send('found', edge.at);
  expect((await client.next()).data.toString()).toBe('found');
});

test('an origin that goes and comes back is used again', async () => {
  const origin = await udpEcho();
  const edge = await listen({ plan: { origin: directTo(origin) } });
  const client = await udpPeer();
  await client.send('before', edge.at);
  await client.next();
  await origin.close();
  await client.send('lost', edge.at);
  await until(() => edge.running.traffic.failed === 1);
  await udpEcho('back:', { port: origin.port });
  await client.send('after', edge.at);
  expect((await client.next()).data.toString()).toBe('back:after');
  expect(edge.running.origins.health()).toMatchObject([{ healthy: true }]);
});

test('an origin that is denied is passed over; where all are, the session fails', async () => {
  const denied = await udpEcho('wrong:', { address: '127.0.0.77' });
  const right = await udpEcho('right:');
  const refuseOrigin: ProxyListenerParts['refuseOrigin'] = ({ address }) =>
    address === '127.0.0.77' ? 'denied by proxy.originDeny' : undefined;
  const edge = await listen({ plan: { origin: directTo(denied, right) }, refuseOrigin });
  const client = await udpPeer();
  await client.send('x', edge.at);
  expect((await client.next()).data.toString()).toBe('right:x');
  const none = await listen({ plan: { origin: directTo(denied) }, refuseOrigin });
  await client.send('x', none.at);
  await until(() => none.running.traffic.failed === 1);
  expect(none.events.at(-1)?.reason).toBe(
    `no origin could be reached: 127.0.0.77:${denied.port}: denied by proxy.originDeny; 1 datagrams dropped`,
  );
  expect(none.running.traffic.datagramsDropped).toBe(1);
  expect(denied.received).toEqual([]);
});

test('what comes while the origin is looked up waits in its order, up to a bound', async () => {
  const origin = await udpEcho();
  const dns = await startDnsServer({ 'origin.test': { a: ['127.0.0.1'] } });
  const release = dns.hold();
  const edge = await listen({
    dns: dns.address,
    plan: {
      origin: {
        kind: 'dns',
        name: 'origin.test',
        type: 'A',
        ttlSeconds: 600,
        ports: { first: origin.port, last: origin.port },
      },
    },
  });
  const client = await udpPeer();
  for (let index = 0; index < mostPendingDatagrams + 5; index += 1) await client.send(`${index}`, edge.at);
  // The question of another client shows that everything before it has been read.
  const other = await udpPeer();
  await other.send('other', edge.at);
  await until(() => edge.running.traffic.open === 2);
  release();
  await until(() => client.received.length === mostPendingDatagrams);
  expect(client.received.map(({ data }) => data.toString())).toEqual(
    Array.from({ length: mostPendingDatagrams }, (_, index) => `${index}`),
  );
  await edge.listener.close(0);
  const mine = edge.events.find(({ kind, client: who }) => kind === 'disconnect' && who.endsWith(`:${client.port}`));
  expect(mine?.reason).toBe('the listener was closed; 5 datagrams dropped');
});

test('a name that is not found fails the session with the reason', async () => {
  const dns = await startDnsServer({});
  const origin = { kind: 'dns', name: 'none.test', type: 'A', ttlSeconds: 600, ports: { first: 1, last: 1 } } as const;
  const edge = await listen({ dns: dns.address, plan: { origin } });
  const client = await udpPeer();
  await client.send('x', edge.at);
  await until(() => edge.running.traffic.failed === 1);
  expect(edge.events).toMatchObject([
    { kind: 'error', reason: 'no origin could be reached: "none.test" has no A record; 1 datagrams dropped' },
  ]);
});

test('PROXY protocol v2 stands before each datagram and nothing before the replies', async () => {
  const origin = await udpPeer({ answer: (data) => data.subarray(28) });
  const edge = await listen({ plan: { origin: directTo(origin), proxyProtocol: 'v2' } });
  const client = await udpPeer({ address: '127.0.0.9' });
  const header = proxyHeaderV2({
    transport: 'udp',
    client: { address: '127.0.0.9', port: client.port },
    edge: { address: edge.at.address, port: edge.at.edgePort },
  });
  for (const text of ['one', '', 'three']) {
    await client.send(text, edge.at);
    expect((await client.next()).data.toString()).toBe(text);
    expect(origin.received.at(-1)?.data).toEqual(Buffer.concat([header, Buffer.from(text)]));
  }
  expect(edge.running.traffic).toMatchObject({ bytesFromClients: 8, bytesFromOrigins: 8 });
});

test('the simple header stands before each datagram; the same one before a reply is taken off, another is not', async () => {
  const strange = simpleHeader({ client: { address: '192.0.2.1', port: 1 }, edge: { address: '192.0.2.2', port: 2 } });
  const origin = await udpPeer({
    answer: (data) => {
      const payload = readSimpleHeader(data)?.payload.toString();
      if (payload === 'with') return data;
      return payload === 'strange' ? Buffer.concat([strange, Buffer.from('kept')]) : Buffer.from('bare');
    },
  });
  const edge = await listen({ plan: { origin: directTo(origin), proxyProtocol: 'simple' } });
  const client = await udpPeer();
  const answers: Buffer[] = [];
  for (const text of ['with', 'without', 'strange']) {
    await client.send(text, edge.at);
    answers.push((await client.next()).data);
  }
  expect(answers.map(String).slice(0, 2)).toEqual(['with', 'bare']);
  expect(answers[2]).toEqual(Buffer.concat([strange, Buffer.from('kept')]));
  expect(readSimpleHeader(origin.received[0]?.data ?? Buffer.alloc(0))).toMatchObject({
    client: { address: '127.0.0.1', port: client.port },
    edge: { address: edge.at.address, port: edge.at.edgePort },
  });
});

test('version 1, which has no form for UDP, says UNKNOWN', async () => {
  const origin = await udpPeer();
  const edge = await listen({ plan: { origin: directTo(origin), proxyProtocol: 'v1' } });
  const client = await udpPeer();
  await client.send('x', edge.at);
  expect((await origin.next()).data.toString()).toBe('PROXY UNKNOWN\r\nx');
});

test('a datagram that no longer fits with its header is dropped, and the session goes on', async () => {
  const origin = await udpPeer({ answer: (data) => data.subarray(38) });
  const edge = await listen({ plan: { origin: directTo(origin), proxyProtocol: 'simple' } });
  const client = await udpPeer();
  await client.send(Buffer.alloc(65_507 - 37), edge.at);
  await client.send(Buffer.alloc(65_507 - 38, 7), edge.at);
  expect((await client.next()).data.length).toBe(65_507 - 38);
  expect(edge.running.traffic).toMatchObject({ open: 1, failed: 0 });
  await edge.listener.close(0);
  expect(edge.events.at(-1)?.reason).toBe('the listener was closed; 1 datagrams dropped');
});

test('IPv6: `::` takes clients of IPv6 alone, and an origin may be of either family', async () => {
  const origin = await udpEcho('six:', { address: '::1' });
  const four = await udpEcho('four:');
  const edge = await listen({ address: '::', plan: { origin: directTo(origin, four), proxyProtocol: 'off' } });
  // The same port of IPv4 is still free.
  const sameOnFour = await udpPeer({ address: '0.0.0.0', port: edge.at.port });
  expect(sameOnFour.port).toBe(edge.at.port);
  const [one, two] = [await udpPeer({ address: '::1' }), await udpPeer({ address: '::1' })];
  const to = { address: '::1', port: edge.at.port };
  await one.send('x', to);
  expect((await one.next()).data.toString()).toBe('six:x');
  await two.send('x', to);
  expect((await two.next()).data.toString()).toBe('four:x');
  expect(edge.events[0]).toMatchObject({ client: `[::1]:${one.port}`, origin: `[::1]:${origin.port}` });
});

test('a source address is what the origin sees; one that is not there fails the session', async () => {
  const origin = await udpEcho();
  const edge = await listen({ plan: { origin: directTo(origin), sourceAddress: '127.0.0.99' } });
  const client = await udpPeer();
  await client.send('x', edge.at);
  await client.next();
  expect(origin.received[0]?.from.address).toBe('127.0.0.99');
  const wrong = await listen({ plan: { origin: directTo(origin), sourceAddress: '192.0.2.99' } });
  await client.send('x', wrong.at);
  await until(() => wrong.running.traffic.failed === 1);
  expect(wrong.events.at(-1)?.reason).toContain('EADDRNOTAVAIL');
  // Not the origin's fault.
  expect(wrong.running.origins.health()).toMatchObject([{ healthy: true }]);
});

test('new sessions follow a changed plan, those that are open keep their origin until they are cut', async () => {
  const [before, after] = [await udpEcho('before:'), await udpEcho('after:')];
  const edge = await listen({ plan: { origin: directTo(before) } });
  const [old, young] = [await udpPeer(), await udpPeer()];
  await old.send('x', edge.at);
  expect((await old.next()).data.toString()).toBe('before:x');
  const plan = { ...edge.running.plan, origin: directTo(after) };
  const origins = createOrigins(plan, { resolve: createResolver({ zones: [] }), clock: systemClock });
  edge.use({ plan, origins, connections: new Set() });
  await young.send('x', edge.at);
  expect((await young.next()).data.toString()).toBe('after:x');
  await old.send('y', edge.at);
  expect((await old.next()).data.toString()).toBe('before:y');
  for (const connection of edge.running.connections) connection.cut('the application was changed or removed');
  expect(edge.running.traffic.open).toBe(1);
  await old.send('z', edge.at);
  expect((await old.next()).data.toString()).toBe('after:z');
});

test('closing frees the port at once and ends the sessions; a port in use is the system error', async () => {
  const origin = await udpEcho();
  const edge = await listen({ plan: { origin: directTo(origin) } });
  const parts = { clock: systemClock, log: silentLog, refuseOrigin: () => undefined, certificate: () => undefined };
  const limits = { connectTimeoutMs: 1, tcpIdleMs: 1, udpIdleMs: 1000, openPerApplication: 1, openPerClient: 1 };
  const open = () =>
    openUdpListener(edge.at, () => edge.running, {
      ...parts,
      budget: new OpenBudget({ descriptors: 10, accountConnections: 10, accountSessions: 10 }),
      limits: () => limits,
    });
  await expect(open()).rejects.toMatchObject({ code: 'EADDRINUSE' });
  const client = await udpPeer();
  await client.send('x', edge.at);
  await client.next();
  const closed = edge.listener.close(60_000);
  const again = await open();
  await closed;
  await again.close(0);
  expect(edge.events.at(-1)).toMatchObject({ kind: 'disconnect', reason: 'the listener was closed' });
  expect(edge.running.traffic.open).toBe(0);
});

test('in the data plane: a range of ports goes to the origin ports in step, and an update keeps the listeners', async () => {
  const [edge, address] = [loopbackAddress(), loopbackAddress()];
  const first = await udpPeer({ address, port: 5300, answer: () => Buffer.from('first') });
  const second = await udpPeer({ address, port: 5301, answer: () => Buffer.from('second') });
  const plan = planOf({
    transport: 'udp',
    addresses: [edge],
    ports: { first: 1053, last: 1054 },
    origin: { kind: 'direct', origins: [{ address, ports: { first: 5300, last: 5301 } }] },
  });
  const plane = await startPlane([plan]);
  expect(plane.status(plan.id)).toEqual({ state: 'active', reason: '' });
  const client = await udpPeer();
  const bound = (port: number) => ({ address: edge, port: port + testOffset });
  const ask = async (port: number): Promise<string> => {
    await client.send('x', bound(port));
    const { data, from } = await client.next();
    return `${from.address}:${from.port - testOffset} ${String(data)}`;
  };
  expect([await ask(1053), await ask(1054)]).toEqual([`${edge}:1053 first`, `${edge}:1054 second`]);
  expect([first, second].map(({ received }) => received.length)).toEqual([1, 1]);
  await plane.apply({ ...plan, proxyProtocol: 'v1' });
  const other = await udpPeer();
  await other.send('x', bound(1053));
  await other.next();
  expect(first.received.at(-1)?.data.toString()).toBe('PROXY UNKNOWN\r\nx');
  await plane.apply();
  await udpPeer(bound(1053));
});

/** The IPv6 addresses of this machine, without link-local ones. */
function ownIpv6(): readonly string[] {
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  return all.flatMap(({ family, address, scopeid }) => (family === 'IPv6' && !scopeid ? [address] : []));
}

test('on every IPv6 address: each answer leaves from the address that was asked, and the header names it', async () => {
  const origin = await udpPeer({ answer: (data) => data });
  const plan = planOf({
    addresses: ['::'],
    origin: directTo(origin),
    transport: 'udp',
    ports: { first: 5353, last: 5353 },
    proxyProtocol: 'simple',
  });
  const plane = await startPlane([plan]);
  expect(plane.status(plan.id).state).toBe('active');
  for (const address of ownIpv6()) {
    for (const source of ownIpv6()) {
      const client = await udpPeer({ address: source });
      await client.send('hello', { address, port: 5353 + testOffset });
      const { data, from } = await client.next();
      expect([String(data), from.address]).toEqual(['hello', address]);
      const { edge } = readSimpleHeader(origin.received.at(-1)?.data ?? Buffer.alloc(0)) ?? {};
      expect(edge).toEqual({ address, port: 5353 });
    }
  }
});

test('an IPv6 address that comes is listened on, one that goes is not', async () => {
  const origin = await udpPeer({ answer: (data) => data });
  let addresses: readonly string[] = [];
  const plan = planOf({
    addresses: ['::'],
    origin: directTo(origin),
    transport: 'udp',
    ports: { first: 5354, last: 5354 },
  });
  const plane = await startPlane([plan], { ipv6Addresses: () => addresses, renewMs: 20 });
  expect(plane.status(plan.id)).toEqual({ state: 'failed', reason: 'this machine has no IPv6 address' });
  addresses = ['::1'];
  await until(() => plane.status(plan.id).state === 'active');
  expect(plane.traffic(plan.id)?.listening).toEqual([`[::1]:${5354 + testOffset}`]);
  addresses = [];
  await until(() => plane.status(plan.id).state === 'failed');
  expect(plane.traffic(plan.id)?.listening).toEqual([]);
});
