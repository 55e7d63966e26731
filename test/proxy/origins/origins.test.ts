// Which origin a connection goes to: turns, health, ranges, DNS with its time to live, SRV. Time is the test's own.

import { expect, test } from 'vitest';
import type { ForwardingPlan } from '../../../src/proxy/application/application.ts';
import { createResolver } from '../../../src/proxy/origins/dns-cache.ts';
import { createOrigins, type OriginAddress, type Origins } from '../../../src/proxy/origins/origins.ts';
import { startDnsServer } from '../../support/dns-server.ts';

function planFor(origin: ForwardingPlan['origin'], ports = { first: 22, last: 22 }): ForwardingPlan {
  return {
    id: '0'.repeat(32),
    zone: '1'.repeat(32),
    account: 'a1'.repeat(16),
    name: 'ssh.example.com',
    transport: 'tcp',
    ports,
    addresses: ['127.0.0.1'],
    origin,
    proxyProtocol: 'off',
    tls: 'off',
    firewall: { block: [], allow: [] },
  };
}

const direct = (...places: readonly string[]): ForwardingPlan['origin'] => ({
  kind: 'direct',
  origins: places.map((place) => {
    const [address = '', first, last = first] = place.split(' ');
    return { address, ports: { first: Number(first), last: Number(last) } };
  }),
});

function startClock() {
  let now = 1_000_000;
  return { now: () => now, monotonic: () => now, pass: (ms: number) => (now += ms) };
}

const text = ({ address, port, name }: OriginAddress): string => `${address} ${port}${name ? ` ${name}` : ''}`;
async function list(origins: Origins, port = 22): Promise<string[]> {
  return (await origins.candidates(port)).origins.map(text);
}

function directOrigins(...places: readonly string[]) {
  const clock = startClock();
  const origins = createOrigins(planFor(direct(...places)), { resolve: createResolver({ zones: [] }), clock });
  const at = (place: string): OriginAddress => {
    const [address = '', port] = place.split(' ');
    return { address, port: Number(port) };
  };
  return { clock, origins, at };
}

test('direct origins take turns', async () => {
  const { origins } = directOrigins('10.0.0.1 1', '10.0.0.2 2', '2001:db8::3 3');
  expect(await list(origins)).toEqual(['10.0.0.1 1', '10.0.0.2 2', '2001:db8::3 3']);
  expect(await list(origins)).toEqual(['10.0.0.2 2', '2001:db8::3 3', '10.0.0.1 1']);
  expect(await list(origins)).toEqual(['2001:db8::3 3', '10.0.0.1 1', '10.0.0.2 2']);
  expect(await list(origins)).toEqual(['10.0.0.1 1', '10.0.0.2 2', '2001:db8::3 3']);
});

test('a port of a range goes to the origin port in step, and any other nowhere', async () => {
  const plan = planFor(direct('10.0.0.1 2000 2010'), { first: 1000, last: 1010 });
  const origins = createOrigins(plan, { resolve: createResolver({ zones: [] }), clock: startClock() });
  expect(await list(origins, 1000)).toEqual(['10.0.0.1 2000']);
  expect(await list(origins, 1007)).toEqual(['10.0.0.1 2007']);
  expect(await list(origins, 1010)).toEqual(['10.0.0.1 2010']);
  expect(await list(origins, 999)).toEqual([]);
  expect(await origins.candidates(1011)).toEqual({ origins: [], why: "port 1011 is none of the application's" });
});

test('an origin that failed comes last, until it is due for one connection', async () => {
  const { clock, origins, at } = directOrigins('10.0.0.1 1', '10.0.0.2 2');
  origins.failed(at('10.0.0.1 1'));
  for (let count = 0; count < 4; count += 1) expect(await list(origins)).toEqual(['10.0.0.2 2', '10.0.0.1 1']);
  clock.pass(999);
  expect(await list(origins)).toEqual(['10.0.0.2 2', '10.0.0.1 1']);
  clock.pass(1);
  const next = [await list(origins), await list(origins), await list(origins)];
  // One of them tries it, the others do not wait for what comes of that.
  expect(next.filter(([first]) => first === '10.0.0.1 1').length).toBe(1);
  origins.succeeded(at('10.0.0.1 1'));
  const after = [await list(origins), await list(origins)].map(([first]) => first);
  expect(after.toSorted((left, right) => (left ?? '').localeCompare(right ?? ''))).toEqual([
    '10.0.0.1 1',
    '10.0.0.2 2',
  ]);
});

test('the time until the next try doubles from 1 s to 30 s, and a success begins anew', async () => {
  const { clock, origins, at } = directOrigins('10.0.0.1 1', '10.0.0.2 2');
  const bad = at('10.0.0.1 1');
  const isTried = async (): Promise<boolean> => {
    const firsts = [await list(origins), await list(origins)].map(([first]) => first);
    return firsts.includes('10.0.0.1 1');
  };
  for (const seconds of [1, 2, 4, 8, 16, 30, 30]) {
    origins.failed(bad);
    origins.failed(bad); // at the same time: one failure
    clock.pass(seconds * 1000 - 1);
    expect(await isTried()).toBe(false);
    clock.pass(1);
    expect(await isTried()).toBe(true);
  }
  expect(origins.health()).toEqual([
    { origin: bad, healthy: false, failures: 14 },
    { origin: at('10.0.0.2 2'), healthy: true, failures: 0 },
  ]);
  origins.succeeded(bad);
  origins.failed(bad);
  clock.pass(1000);
  expect(await isTried()).toBe(true);
});

test('where all have failed, the one that is due soonest comes first', async () => {
  const { clock, origins, at } = directOrigins('10.0.0.1 1', '10.0.0.2 2', '10.0.0.3 3');
  origins.failed(at('10.0.0.2 2'));
  clock.pass(100);
  origins.failed(at('10.0.0.3 3'));
  clock.pass(100);
  origins.failed(at('10.0.0.1 1'));
  expect(await list(origins)).toEqual(['10.0.0.2 2', '10.0.0.3 3', '10.0.0.1 1']);
});

async function dnsOrigins(
  origin: Partial<ForwardingPlan['origin'] & { kind: 'dns' }>,
  names: Parameters<typeof startDnsServer>[0],
  random?: () => number,
) {
  const server = await startDnsServer(names);
  const resolve = createResolver({ zones: [], dns: { servers: [server.address], withinMs: 10_000 } });
  const clock = startClock();
  const plan = planFor({
    kind: 'dns',
    name: 'origin.test',
    type: '',
    ttlSeconds: 600,
    ...(origin.type === 'SRV' ? {} : { ports: { first: 22, last: 22 } }),
    ...origin,
  });
  return { server, clock, origins: createOrigins(plan, { resolve, clock, ...(random ? { random } : {}) }) };
}

test('a name: IPv4 and IPv6 addresses take turns, and are kept for the time to live', async () => {
  const { server, clock, origins } = await dnsOrigins(
    {},
    { 'origin.test': { a: ['10.0.0.1'], aaaa: ['2001:db8::1'] } },
  );
  expect(await list(origins)).toEqual(['10.0.0.1 22 origin.test', '2001:db8::1 22 origin.test']);
  expect(await list(origins)).toEqual(['2001:db8::1 22 origin.test', '10.0.0.1 22 origin.test']);
  clock.pass(599_999);
  await list(origins);
  expect(server.asked.toSorted()).toEqual(['A origin.test', 'AAAA origin.test']);
  expect(origins.health().map(({ origin }) => text(origin))).toEqual([
    '10.0.0.1 22 origin.test',
    '2001:db8::1 22 origin.test',
  ]);
});

test('type A asks for IPv4 alone, AAAA for IPv6 alone', async () => {
  const names = { 'origin.test': { a: ['10.0.0.1'], aaaa: ['2001:db8::1'] } };
  const four = await dnsOrigins({ type: 'A' }, names);
  expect(await list(four.origins)).toEqual(['10.0.0.1 22 origin.test']);
  expect(four.server.asked).toEqual(['A origin.test']);
  const six = await dnsOrigins({ type: 'AAAA' }, names);
  expect(await list(six.origins)).toEqual(['2001:db8::1 22 origin.test']);
});

test('what has run out is used once more while new records are looked up', async () => {
  const { server, clock, origins } = await dnsOrigins({ type: 'A' }, { 'origin.test': { a: ['10.0.0.1'] } });
  await list(origins);
  server.names.set('origin.test', { a: ['10.0.0.2'] });
  clock.pass(600_000);
  const release = server.hold();
  expect(await list(origins)).toEqual(['10.0.0.1 22 origin.test']);
  release();
  await expect.poll(() => list(origins)).toEqual(['10.0.0.2 22 origin.test']);
  expect(server.asked.length).toBe(2);
  // After twice its time it is not used unseen.
  server.names.set('origin.test', { a: ['10.0.0.3'] });
  clock.pass(1_200_000);
  expect(await list(origins)).toEqual(['10.0.0.3 22 origin.test']);
});

test('many at once are one look-up', async () => {
  const { server, origins } = await dnsOrigins({ type: 'A' }, { 'origin.test': { a: ['10.0.0.1'] } });
  const all = await Promise.all(Array.from({ length: 50 }, () => list(origins)));
  expect(new Set(all.flat())).toEqual(new Set(['10.0.0.1 22 origin.test']));
  expect(server.asked).toEqual(['A origin.test']);
});

test('while DNS fails the last good answer is used and said to be old; it is asked again after 5 s', async () => {
  const { server, clock, origins } = await dnsOrigins({ type: 'A' }, { 'origin.test': { a: ['10.0.0.1'] } });
  await list(origins);
  server.names.set('origin.test', { fails: 'SERVFAIL' });
  clock.pass(1_300_000);
  expect(await origins.candidates(22)).toEqual({
    origins: [{ address: '10.0.0.1', port: 22, name: 'origin.test' }],
    why: 'A of "origin.test": the name server answered SERVFAIL; the answer of 1300 s ago is used',
  });
  const asked = server.asked.length;
  clock.pass(4999);
  await list(origins);
  expect(server.asked.length).toBe(asked);
  server.names.set('origin.test', { a: ['10.0.0.2'] });
  clock.pass(1);
  await expect
    .poll(() => origins.candidates(22))
    .toEqual({
      origins: [{ address: '10.0.0.2', port: 22, name: 'origin.test' }],
    });
});

test('a name that was never found gives no origin and says why, and is asked again after 5 s', async () => {
  const { server, clock, origins } = await dnsOrigins({}, {});
  expect(await origins.candidates(22)).toEqual({
    origins: [],
    why: '"origin.test" has no A record; "origin.test" has no AAAA record',
  });
  server.names.set('origin.test', { aaaa: ['2001:db8::7'] });
  clock.pass(4999);
  expect(await list(origins)).toEqual([]);
  clock.pass(1);
  expect(await origins.candidates(22)).toEqual({
    origins: [{ address: '2001:db8::7', port: 22, name: 'origin.test' }],
  });
});

test('one family that DNS fails for does not keep the other from being used', async () => {
  const { server, origins, clock } = await dnsOrigins({}, { 'origin.test': { a: ['10.0.0.1'] } });
  await list(origins);
  server.names.set('origin.test', { fails: 'SERVFAIL' });
  clock.pass(5000); // AAAA is asked again, A is still good
  expect(await list(origins)).toEqual(['10.0.0.1 22 origin.test']);
});

test('SRV: by priority, the port of the record, the addresses of its target in turn', async () => {
  const { origins } = await dnsOrigins(
    { type: 'SRV', name: '_ssh._tcp.test' },
    {
      '_ssh._tcp.test': { srv: ['10 0 2210 late.test', '5 0 2205 Early.test'] },
      'early.test': { a: ['10.0.0.1', '10.0.0.2'], aaaa: ['2001:db8::1'] },
      'late.test': { a: ['10.0.0.9'] },
    },
    () => 0,
  );
  const early = ['10.0.0.1 2205 early.test', '10.0.0.2 2205 early.test', '2001:db8::1 2205 early.test'];
  const late = '10.0.0.9 2210 late.test';
  expect(await list(origins)).toEqual([...early, late]);
  expect(await list(origins)).toEqual([early[1], early[2], early[0], late]);
  origins.failed({ address: '10.0.0.9', port: 2210 });
  for (const address of ['10.0.0.1', '10.0.0.2', '2001:db8::1']) origins.failed({ address, port: 2205 });
  expect((await list(origins)).length).toBe(4);
});

test('SRV: a failed target of the first priority comes behind the second priority', async () => {
  const { origins } = await dnsOrigins(
    { type: 'SRV' },
    {
      'origin.test': { srv: ['5 0 1 a.test', '6 0 2 b.test'] },
      'a.test': { a: ['10.0.0.1'] },
      'b.test': { a: ['10.0.0.2'] },
    },
  );
  expect(await list(origins)).toEqual(['10.0.0.1 1 a.test', '10.0.0.2 2 b.test']);
  origins.failed({ address: '10.0.0.1', port: 1 });
  expect(await list(origins)).toEqual(['10.0.0.2 2 b.test', '10.0.0.1 1 a.test']);
});

test('SRV: weights decide who is first', async () => {
  const drawn = [0, 0, 0.999, 0];
  const { origins } = await dnsOrigins(
    { type: 'SRV' },
    {
      'origin.test': { srv: ['1 1 1 light.test', '1 9 2 heavy.test'] },
      'light.test': { a: ['10.0.0.1'] },
      'heavy.test': { a: ['10.0.0.2'] },
    },
    () => drawn.shift() ?? 0,
  );
  const firsts = [(await list(origins))[0], (await list(origins))[0]];
  expect(firsts[1]).toBe('10.0.0.2 2 heavy.test');
});

test('SRV: a target of the root is no service; a target without an address says so', async () => {
  const none = await dnsOrigins({ type: 'SRV' }, { 'origin.test': { srv: ['0 0 0 .'] } });
  expect(await none.origins.candidates(22)).toEqual({
    origins: [],
    why: 'SRV of "origin.test" says that there is no such service',
  });
  const empty = await dnsOrigins({ type: 'SRV' }, { 'origin.test': { srv: ['0 0 5 gone.test'] } });
  expect(await empty.origins.candidates(22)).toEqual({
    origins: [],
    why: '"gone.test" has no A record; "gone.test" has no AAAA record',
  });
  const absent = await dnsOrigins({ type: 'SRV' }, {});
  expect(await absent.origins.candidates(22)).toEqual({ origins: [], why: '"origin.test" has no SRV record' });
});
