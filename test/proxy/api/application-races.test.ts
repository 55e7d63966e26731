// What requests at once can race for is decided by the store, and told as a rule (D87); and no body, however odd, is
// answered 500 or leaves a listener or a row behind.

import { expect, test } from 'vitest';
import type { ApplicationFields } from '../../../src/proxy/application/application.ts';
import type { HttpAnswer } from '../../support/http-app.ts';
import fc, { anyCharacter } from '../../support/properties.ts';
import { type ProxyApi, sshApplication, startProxyApi, zoneIds } from '../../support/proxy-api.ts';

/** How often each status and code came. */
function tally(answers: readonly HttpAnswer[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { status, json } of answers) {
    const key = [status, ...json.errors.map(({ code }) => code)].join(' ');
    counts[key] = (counts[key] ?? 0) + 1;
  }
  return counts;
}

function many(count: number, call: (at: number) => Promise<HttpAnswer>): Promise<readonly HttpAnswer[]> {
  return Promise.all(Array.from({ length: count }, (_, at) => call(at)));
}

test('of two hundred creates of one protocol on pay-as-you-go exactly one succeeds', async () => {
  const api = await startProxyApi({ unseeded: true });
  const answers = await many(200, (at) =>
    api.call('POST', zoneIds.payg, '/apps', {
      as: 'payg-full',
      // The quota is 10: the hostnames are few, so that only the protocol is raced for.
      body: sshApplication({ dns: { type: 'CNAME', name: `${at % 5}.payg.example` } }),
    }),
  );
  const { '200': succeeded, ...refused } = tally(answers);
  expect(succeeded).toBe(1);
  for (const key of Object.keys(refused)) expect(key).toMatch(/^400 11034( 13002)?$/);
  expect(await api.store.all()).toHaveLength(1);
}, 60_000);

test('the quota lets through as many hostnames as it has addresses', async () => {
  const api = await startProxyApi({ unseeded: true });
  const answers = await many(40, (at) =>
    api.call('POST', zoneIds.full, '/apps', {
      body: sshApplication({ dns: { type: 'CNAME', name: `h${at}.full.example` } }),
    }),
  );
  expect(tally(answers)).toEqual({ '200': 1, '400 12005': 39 });
});

test('an edge IP goes to one of two zones, and ports to one of many ranges', async () => {
  const api = await startProxyApi({ unseeded: true });
  const zones = [
    [zoneIds.example, 'example.com'],
    [zoneIds.other, 'other.example'],
  ] as const;
  const ips = await many(20, (at) => {
    const [id, name] = zones[at % 2] ?? zones[0];
    const dns = { type: 'ADDRESS', name: `ip${at}.${name}` };
    const body = sshApplication({
      protocol: `tcp/${at + 100}`,
      origin_direct: ['tcp://127.0.0.1:1'],
      dns,
      edge_ips: ['127.9.0.50'],
    });
    return api.call('POST', id, '/apps', { body });
  });
  expect(tally(ips)).toEqual({ '200': 10, '400 11033': 10 });
  const holders = new Set((await api.store.all()).map(({ zone }) => zone));
  expect(holders.size).toBe(1);

  const ranges = await many(30, (at) => {
    const body = sshApplication({
      protocol: `tcp/${2000 + at}-${2040 + at}`,
      origin_direct: [`tcp://127.0.0.1:${2000 + at}-${2040 + at}`],
    });
    return api.call('POST', zoneIds.example, '/apps', { body });
  });
  expect(tally(ranges)['200']).toBe(1);
  expect(Object.keys(tally(ranges)).filter((key) => !/^(?:200|400 13002)$/.test(key))).toEqual([]);
});

test('a hostname goes to one of two nested zones', async () => {
  const api = await startProxyApi({ unseeded: true });
  const { store } = api;
  const [before] = await many(1, () => api.call('POST', zoneIds.example, '/apps', { body: sshApplication() }));
  expect(before?.status).toBe(200);
  // Hostnames of other zones are 16001 by name; the store keeps to it where names no longer tell.
  const application = (await store.all())[0];
  if (!application) throw new Error('Nothing was stored');
  const claims = {
    transport: 'tcp',
    ports: { first: 9, last: 9 },
    edge: { kind: 'ipv6' },
    ipv4Quota: 1,
    ipv4Pool: '10.0.0.0/8',
  } as const;
  const { fields, account } = application;
  const write = { id: 'e'.repeat(32), zone: zoneIds.other, account, fields, claims, now: 0 };
  expect(await store.create(write)).toEqual({ ok: false, conflict: { kind: 'hostname' } });
});

test('creates, changes and removals at once leave listeners and rows that agree', async () => {
  const api = await startProxyApi({ unseeded: true });
  const made = await many(20, (at) =>
    api.call('POST', zoneIds.example, '/apps', {
      body: sshApplication({ protocol: `tcp/${at + 100}`, origin_direct: ['tcp://127.0.0.1:1'] }),
    }),
  );
  const ids = made.map(({ json }) => (json.result as { id: string }).id);
  const answers = await Promise.all(
    ids.flatMap((id, at) => [
      api.call('PATCH', zoneIds.example, `/apps/${id}`, { body: { protocol: `tcp/${at + 200}` } }),
      api.call('DELETE', zoneIds.example, `/apps/${at % 2 === 0 ? id : 'none'}`),
    ]),
  );
  expect(Object.keys(tally(answers)).filter((key) => !/^(?:200|404 10000)$/.test(key))).toEqual([]);
  const list = await api.call('GET', zoneIds.example, '/apps?per_page=100');
  const shown = list.json.result as { id: string; protocol: string; status: { state: string } }[];
  expect(shown.map(({ id }) => id).sort(byText)).toEqual(ids.filter((_, at) => at % 2 === 1).sort(byText));
  for (const { protocol, status } of shown) expect([protocol.slice(0, 5), status.state]).toEqual(['tcp/2', 'active']);
  expect(await api.metric('postern_proxy_connections_open{')).toHaveLength(10);
});

function byText(one: string, other: string): number {
  return one < other ? -1 : 1;
}

/** Any JSON, often near to an application. */
function bodies(): fc.Arbitrary<unknown> {
  const text = fc.oneof(
    fc.string({ unit: anyCharacter }),
    fc.constantFrom('tcp/22', 'udp/53', 'tcp/1-65535', 'ftp', 'tcp/0', 'tcp/22-21', 'a.example.com', 'A.EXAMPLE.COM.'),
    fc.constantFrom(
      'tcp://127.0.0.1:22',
      'tcp://[::1]:22',
      'tcp://::1:22',
      'udp://10.0.0.1:1-2',
      '127.9.0.60',
      '::',
      '1e3',
    ),
    fc.constantFrom(
      'CNAME',
      'ADDRESS',
      'SRV',
      '',
      'static',
      'dynamic',
      'ipv6',
      'v1',
      'full',
      '__proto__',
      'constructor',
    ),
    fc.constantFrom('7d6f0c1e-0000-4000-8000-00000000a001', '1-2', '65535', '65536'),
  );
  const scalar = fc.oneof(text, fc.integer(), fc.double(), fc.boolean(), fc.constant(null));
  const any = fc.oneof(
    scalar,
    fc.array(scalar, { maxLength: 4 }),
    fc.dictionary(fc.constantFrom('type', 'name', 'ips', 'ttl', 'connectivity', 'x'), scalar, {
      noNullPrototype: true,
    }),
    fc.jsonValue({ maxDepth: 4 }),
  );
  const names: readonly (keyof ApplicationFields)[] = [
    'protocol',
    'dns',
    'origin_direct',
    'origin_dns',
    'origin_port',
    'edge_ips',
    'smart_routing',
    'virtual_network_id',
    'ip_firewall',
    'proxy_protocol',
    'tls',
    'traffic_type',
  ];
  const broken = fc.dictionary(fc.constantFrom(...names, 'id', 'status', 'x'), any, {
    noNullPrototype: true,
    maxKeys: 4,
  });
  return fc.oneof(
    fc.jsonValue(),
    broken,
    broken.map((more) => ({ ...sshApplication(), ...more })),
  );
}

async function everything(api: ProxyApi): Promise<string> {
  const metrics = await api.metric('postern_proxy_connections_open{');
  return JSON.stringify([await api.store.all(), await api.store.revision(), metrics.toSorted(byText)]);
}

test('no body is answered 500, and a refused one changes nothing', async () => {
  const api = await startProxyApi();
  const target = '/apps/44440000000000000000000000000001';
  const request = fc.record({
    call: fc.constantFrom(
      ['POST', zoneIds.example, '/apps', 'dev-full'],
      ['POST', zoneIds.payg, '/apps', 'payg-full'],
      ['POST', zoneIds.dnsDown, '/apps', 'dev-full'],
      ['PUT', zoneIds.other, target, 'dev-full'],
      ['PATCH', zoneIds.other, target, 'dev-full'],
    ),
    body: bodies(),
  });
  await fc.assert(
    fc.asyncProperty(request, async ({ call: [method = '', zone = '', path = '', as = ''], body }) => {
      const before = await everything(api);
      const answer = await api.call(method, zone, path, { as, body: JSON.stringify(body) });
      if (answer.status === 200) {
        const { id } = answer.json.result as { id: string };
        expect((await api.store.get(zone, id))?.id).toBe(id);
        // What was taken must come out again: every stored application can be shown.
        expect((await api.call('GET', zone, `/apps/${id}`, { as })).status).toBe(200);
        if (method === 'POST') expect((await api.call('DELETE', zone, `/apps/${id}`, { as })).status).toBe(200);
        return;
      }
      expect([400, 403, 409, 503]).toContain(answer.status);
      for (const { code, message } of answer.json.errors) {
        expect(code === 10002 ? zone : '').toBe(code === 10002 ? zoneIds.dnsDown : '');
        expect(message.length).toBeLessThan(4000);
      }
      expect(await everything(api)).toBe(before);
    }),
    { numRuns: 100 },
  );
  expect(await api.store.all()).toHaveLength(4);
}, 120_000);
