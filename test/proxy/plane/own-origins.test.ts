// No application borrows the trust that Postern's own address has: its own listeners are no origins (D84, 11002).

import { createServer, type Socket } from 'node:net';
import { describe, expect, test } from 'vitest';
import { systemClock } from '../../../src/base/clock.ts';
import { createResolver } from '../../../src/proxy/origins/dns-cache.ts';
import { createOrigins } from '../../../src/proxy/origins/origins.ts';
import { startProxyApi, zoneIds } from '../../support/proxy-api.ts';
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

const id = 'a0'.repeat(16);

describe('when an application is written', () => {
  async function writes(origin: string, options: Parameters<typeof startProxyApi>[0], more: object = {}) {
    const api = await startProxyApi(options);
    const transport = origin.slice(0, 3);
    const body = {
      protocol: `${transport}/22`,
      dns: { type: 'CNAME', name: 'a.example.com' },
      origin_direct: [origin],
    };
    const { status, json } = await api.call('POST', zoneIds.example, '/apps', { body: { ...body, ...more } });
    return status === 200 ? 'taken' : json.errors.map(({ code }) => code);
  }
  const loopback = [{ host: '127.0.0.1', port: 8080 }];
  const everywhere = [{ host: '0.0.0.0', port: 8080 }];
  const bothFamilies = [{ host: '::', port: 8080 }];
  const none = { originDeny: [] };

  test.each([
    ['tcp://127.0.0.1:8080', loopback],
    ['tcp://[::ffff:127.0.0.1]:8080', loopback],
    ['tcp://0.0.0.0:8080', loopback],
    ['tcp://[::ffff:0.0.0.0]:8080', loopback],
    ['tcp://[2002:7f00:1::]:8080', loopback],
    ['tcp://[64:ff9b::7f00:1]:8080', loopback],
    ['tcp://127.9.8.7:8080', everywhere],
    ['tcp://0.0.0.0:8080', everywhere],
    ['tcp://127.0.0.1:8080', bothFamilies],
    ['tcp://[::1]:8080', bothFamilies],
    ['tcp://[::]:8080', [{ host: '::1', port: 8080 }]],
  ])('%s is refused', async (origin, ownDoors) => {
    expect(await writes(origin, { ownDoors, settings: none })).toEqual([11002]);
  });

  test('so is a range that holds such a port', async () => {
    const more = { protocol: 'tcp/22-31' };
    expect(await writes('tcp://127.0.0.1:8075-8084', { ownDoors: loopback }, more)).toEqual([11002]);
    expect(await writes('tcp://127.0.0.1:8081-8090', { ownDoors: loopback }, more)).toBe('taken');
  });

  test.each([
    ['tcp://127.0.0.2:8080', loopback],
    ['tcp://127.0.0.1:8081', loopback],
    ['udp://127.0.0.1:8080', loopback],
    ['tcp://192.0.2.77:8080', everywhere],
    ['tcp://[2001:db8::77]:8080', bothFamilies],
    ['tcp://[::1]:8080', everywhere],
  ])('%s is another place', async (origin, ownDoors) => {
    expect(await writes(origin, { ownDoors })).toBe('taken');
  });

  test.each([
    ['127.0.0.1:8080', 'taken'],
    ['127.0.0.0/8', 'taken'],
    ['127.0.0.1', 'taken'],
    ['127.0.0.1:8081', [11002]],
    ['[::1]:8080', [11002]],
  ])('originAllow %s gives it free or not', async (entry, wanted) => {
    const settings = { originAllow: [entry] };
    expect(await writes('tcp://127.0.0.1:8080', { ownDoors: loopback, settings })).toEqual(wanted);
  });

  test('the listeners of applications are refused, those of the account itself too', async () => {
    const api = await startProxyApi();
    const write = async (name: string, protocol: string, origin: string, known = '') => {
      const body = { protocol, dns: { type: 'CNAME', name: `${name}.example.com` }, origin_direct: [origin] };
      const made = await api.call(known ? 'PUT' : 'POST', zoneIds.example, `/apps${known && `/${known}`}`, { body });
      return made.json as { readonly result: { readonly id: string }; readonly errors: readonly { code: number }[] };
    };
    const { id: first } = (await write('one', 'tcp/22', 'tcp://127.0.0.1:9')).result;
    const [address] = (await api.store.all()).find((one) => one.id === first)?.addresses ?? [];
    const itself = `tcp://${address}:${api.bound(22)}`;
    expect((await write('two', 'tcp/23', itself)).errors).toMatchObject([{ code: 11002 }]);
    expect((await write('one', 'tcp/22', itself, first)).errors).toMatchObject([{ code: 11002 }]);
    expect((await write('two', 'tcp/23', `tcp://${address}:${api.bound(22) + 1}`)).errors).toEqual([]);
    expect((await write('udp', 'udp/23', itself.replace('tcp', 'udp'))).errors).toEqual([]);
  });
});

describe('when a connection is opened', () => {
  async function ownDoor() {
    const door = await echoServer('220 postern');
    return { door, ownDoors: () => [{ host: '127.0.0.1', port: door.port }] };
  }

  test.each(['127.0.0.1', '0.0.0.0', '::ffff:127.0.0.1'])('no listener of Postern is reached by %s', async (host) => {
    const address = loopbackAddress();
    const { door, ownDoors } = await ownDoor();
    const origin = directTo({ address: host, port: door.port });
    const plane = await startPlane([planOf({ addresses: [address], origin })], { ownDoors });
    expect(await dialedEnd(address, 22)).toBe('ECONNRESET');
    await until(() => plane.traffic(id)?.counters.open === 0);
    expect(plane.traffic(id)?.events[0]?.reason).toContain('Postern itself listens there');
    expect(door.sockets).toHaveLength(0);
    expect(plane.origins.failed).toEqual([]);
  });

  test.each(['A', 'SRV'] as const)('nor by a name that has come to mean it: %s', async (type) => {
    const address = loopbackAddress();
    const { door, ownDoors } = await ownDoor();
    const records = { origin: { A: ['127.0.0.1'] }, '_x._tcp': { SRV: [`0 0 ${door.port} origin.example.com`] } };
    const resolve = createResolver({ zones: [{ name: 'example.com', records }] });
    const ports = { first: door.port, last: door.port };
    const name = type === 'A' ? 'origin.example.com' : '_x._tcp.example.com';
    const origin = { kind: 'dns', name, type, ttlSeconds: 1200, ...(type === 'A' && { ports }) } as const;
    const plane = await startPlane([planOf({ addresses: [address], origin })], {
      ownDoors,
      createOrigins: (plan) => createOrigins(plan, { resolve, clock: systemClock }),
    });
    expect(await dialedEnd(address, 22)).toBe('ECONNRESET');
    await until(() => plane.traffic(id)?.counters.open === 0);
    expect(plane.traffic(id)?.events[0]?.reason).toContain('Postern itself listens there');
    expect(door.sockets).toHaveLength(0);
  });

  test('what proxy.originAllow names is reached', async () => {
    const address = loopbackAddress();
    const { door, ownDoors } = await ownDoor();
    await startPlane([planOf({ addresses: [address], origin: directTo(door) })], {
      ownDoors,
      originAllow: [`127.0.0.1:${door.port}`],
    });
    expect(String(await readOctets(await dial(address, 22), 11))).toBe('220 postern');
  });

  test('an application is never its own origin: one connection, and no second', async () => {
    const address = loopbackAddress();
    const origin = directTo({ address, port: 22 + testOffset });
    const plane = await startPlane([planOf({ addresses: [address], origin })], { originAllow: ['127.0.0.0/8'] });
    expect(await dialedEnd(address, 22)).toBe('ECONNRESET');
    await until(() => plane.traffic(id)?.counters.open === 0);
    expect(plane.traffic(id)?.counters.connections).toBe(1);
    expect(plane.traffic(id)?.events[0]?.reason).toContain('the application itself listens there');
  });

  test('nor over UDP', async () => {
    const address = loopbackAddress();
    const origin = directTo({ address, port: 22 + testOffset });
    const plane = await startPlane([planOf({ transport: 'udp', addresses: [address], origin })]);
    const client = await udpPeer();
    await client.send('x', { address, port: 22 + testOffset });
    await until(() => plane.traffic(id)?.counters.failed === 1);
    expect(plane.traffic(id)?.counters.connections).toBe(1);
    expect(plane.traffic(id)?.events[0]?.reason).toContain('the application itself listens there');
  });

  test('two applications that are each other’s origin end at the first', async () => {
    const [one, two] = [loopbackAddress(), loopbackAddress()];
    const to = (address: string) => directTo({ address, port: 22 + testOffset });
    const plane = await startPlane([
      planOf({ addresses: [one], origin: to(two) }),
      planOf({ id: 'b0'.repeat(16), addresses: [two], origin: to(one) }),
    ]);
    expect(await dialedEnd(one, 22)).toBe('ECONNRESET');
    await until(() => plane.traffic(id)?.counters.open === 0);
    expect(plane.traffic('b0'.repeat(16))?.counters.connections).toBe(0);
  });

  test('a wildcard listener is every local address, and none of other machines', async () => {
    const address = loopbackAddress();
    const door = await new Promise<{ readonly port: number; readonly taken: Socket[] }>((resolve) => {
      const taken: Socket[] = [];
      const server = createServer((socket) => taken.push(socket));
      server.listen(0, '0.0.0.0', () => {
        const bound = server.address();
        resolve({ port: typeof bound === 'object' ? (bound?.port ?? 0) : 0, taken });
        server.unref();
      });
    });
    const origin = directTo({ address: '127.9.9.9', port: door.port });
    const ownDoors = () => [{ host: '0.0.0.0', port: door.port }];
    await startPlane([planOf({ addresses: [address], origin })], { ownDoors });
    expect(await dialedEnd(address, 22)).toBe('ECONNRESET');
    expect(door.taken).toHaveLength(0);
  });
});
