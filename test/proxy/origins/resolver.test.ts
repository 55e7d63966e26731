// Records of origins: from the configuration for its zones, from a real DNS server for everything else.

import { expect, test } from 'vitest';
import { createResolver } from '../../../src/proxy/origins/dns-cache.ts';
import { startDnsServer } from '../../support/dns-server.ts';

const zones = [
  {
    name: 'example.com',
    records: {
      '@': { A: ['192.0.2.1'] },
      Origin: { A: ['192.0.2.2', '192.0.2.3', '192.0.2.2'], AAAA: ['2001:db8::2'] },
      alias: { CNAME: ['Origin.Example.com.'] },
      out: { CNAME: ['outside.test'] },
      loop: { CNAME: ['pool.example.com'] },
      pool: { CNAME: ['loop.example.com'] },
      '_ssh._tcp': { SRV: ['0 5 2222 Origin.example.com.', '65536 0 1 wrong', 'nonsense', '1 0 22 .'] },
      _alias: { CNAME: ['_ssh._tcp.example.com'] },
    },
  },
  { name: 'plain.example' },
  { name: 'inner.example.com' },
];

async function resolverWithDns(names: Parameters<typeof startDnsServer>[0], withinMs = 10_000) {
  const server = await startDnsServer(names);
  return { server, resolver: createResolver({ zones, dns: { servers: [server.address], withinMs } }) };
}

test('a name under a zone with records is answered from them, and DNS never hears of it', async () => {
  const { server, resolver } = await resolverWithDns({ 'absent.example.com': { a: ['203.0.113.1'] } });
  expect(await resolver.addresses('example.com', 'A')).toEqual({ ok: true, records: ['192.0.2.1'] });
  expect(await resolver.addresses('origin.example.com', 'A')).toEqual({
    ok: true,
    records: ['192.0.2.2', '192.0.2.3'],
  });
  expect(await resolver.addresses('ALIAS.example.com.', 'AAAA')).toEqual({ ok: true, records: ['2001:db8::2'] });
  expect(await resolver.addresses('example.com', 'AAAA')).toEqual({ ok: true, records: [] });
  expect(await resolver.addresses('absent.example.com', 'A')).toEqual({ ok: true, records: [] });
  expect(server.asked).toEqual([]);
});

test('a wildcard of the configuration stands for names that do not exist, right below the closest one that does', async () => {
  const records = { '*': { A: ['192.0.2.1'] }, '*.deep': { A: ['192.0.2.2'] }, 'a.there': { A: ['192.0.2.3'] } };
  const resolver = createResolver({ zones: [{ name: 'wild.example', records }] });
  const ask = async (name: string): Promise<readonly string[]> => {
    const answer = await resolver.addresses(`${name}.wild.example`, 'A');
    return answer.ok ? answer.records : [answer.why];
  };
  expect(await ask('x')).toEqual(['192.0.2.1']);
  expect(await ask('x.y')).toEqual(['192.0.2.1']);
  expect(await ask('x.deep')).toEqual(['192.0.2.2']);
  expect(await ask('a.there')).toEqual(['192.0.2.3']);
  // `there` and `deep` exist, since something is below them.
  expect([await ask('there'), await ask('b.there'), await ask('deep')]).toEqual([[], [], []]);
  expect(await resolver.addresses('wild.example', 'A')).toEqual({ ok: true, records: [] });
});

test('services of the configuration: unreadable ones are left out, CNAMEs followed', async () => {
  const { resolver } = await resolverWithDns({});
  const services = [
    { priority: 0, weight: 5, port: 2222, target: 'origin.example.com' },
    { priority: 1, weight: 0, port: 22, target: '.' },
  ];
  expect(await resolver.services('_ssh._tcp.example.com')).toEqual({ ok: true, records: services });
  expect(await resolver.services('_alias.example.com')).toEqual({ ok: true, records: services });
});

test('a CNAME of the configuration leads out into DNS, and a circle of them ends', async () => {
  const { server, resolver } = await resolverWithDns({ 'outside.test': { a: ['203.0.113.7'] } });
  expect(await resolver.addresses('out.example.com', 'A')).toEqual({ ok: true, records: ['203.0.113.7'] });
  expect(server.asked).toEqual(['A outside.test']);
  expect(await resolver.addresses('loop.example.com', 'A')).toEqual({
    ok: false,
    why: 'A of "loop.example.com": more than 8 CNAMEs in a row',
  });
});

test('a zone without records, and one inside a zone with records, are asked of DNS', async () => {
  const { server, resolver } = await resolverWithDns({
    'www.plain.example': { a: ['203.0.113.1'] },
    'www.inner.example.com': { cname: 'other.test' },
    'other.test': { aaaa: ['2001:db8::9'] },
    '_x._udp.test': { srv: ['3 4 5 target.test', '0 0 0 .'] },
  });
  expect(await resolver.addresses('www.plain.example', 'A')).toEqual({ ok: true, records: ['203.0.113.1'] });
  expect(await resolver.addresses('www.inner.example.com', 'AAAA')).toEqual({ ok: true, records: ['2001:db8::9'] });
  expect(await resolver.services('_x._udp.test')).toEqual({
    ok: true,
    records: expect.arrayContaining([
      { priority: 3, weight: 4, port: 5, target: 'target.test' },
      { priority: 0, weight: 0, port: 0, target: '.' },
    ]),
  });
  expect(server.asked).toEqual(['A www.plain.example', 'AAAA www.inner.example.com', 'SRV _x._udp.test']);
});

test('no such name is an answer; a server that fails or is silent is none', async () => {
  const { resolver } = await resolverWithDns({
    'broken.test': { fails: 'SERVFAIL' },
    'closed.test': { fails: 'REFUSED' },
    'empty.test': {},
  });
  expect(await resolver.addresses('nothing.test', 'A')).toEqual({ ok: true, records: [] });
  expect(await resolver.addresses('empty.test', 'A')).toEqual({ ok: true, records: [] });
  expect(await resolver.addresses('broken.test', 'A')).toEqual({
    ok: false,
    why: 'A of "broken.test": the name server answered SERVFAIL',
  });
  expect(await resolver.services('closed.test')).toEqual({
    ok: false,
    why: 'SRV of "closed.test": the name server refused the query',
  });
  const quick = await resolverWithDns({ 'silent.test': { fails: 'silence' } }, 50);
  expect(await quick.resolver.addresses('silent.test', 'A')).toEqual({
    ok: false,
    why: 'A of "silent.test": the name server did not answer in time',
  });
});

test('an answer of more than 64 addresses is cut', async () => {
  const many = Array.from({ length: 70 }, (_, index) => `192.0.2.${index}`);
  const resolver = createResolver({ zones: [{ name: 'many.test', records: { '@': { A: many } } }] });
  const answer = await resolver.addresses('many.test', 'A');
  expect(answer.ok && answer.records).toEqual(many.slice(0, 64));
});

test('a server that is no address is refused at once', () => {
  expect(() => createResolver({ zones: [], dns: { servers: ['name.test'], withinMs: 1 } })).toThrow(TypeError);
});
