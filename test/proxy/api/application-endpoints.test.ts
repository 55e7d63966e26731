// The proxy-application API by real HTTP, with the real rules, store and data plane (D80, D81, D85).

import { once } from 'node:events';
import { connect } from 'node:net';
import { describe, expect, test } from 'vitest';
import { openTestDatabase } from '../../support/engines.ts';
import type { HttpAnswer } from '../../support/http-app.ts';
import { everyRule, type ProxyApi, sshApplication, startProxyApi, zoneIds } from '../../support/proxy-api.ts';
import { manualClock } from '../../support/smtp-peers.ts';

type Shown = Readonly<Record<string, unknown>> & { readonly id: string };

function shown(answer: HttpAnswer): Shown {
  expect(answer.json.errors).toEqual([]);
  expect(answer.status).toBe(200);
  return answer.json.result as Shown;
}

function codes(answer: HttpAnswer): [number, readonly number[]] {
  expect(answer.json.result ?? null).toBeNull();
  return [answer.status, answer.json.errors.map(({ code }) => code)];
}

const hexId = expect.stringMatching(/^[0-9a-f]{32}$/);
const isoTime = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
const active = { state: 'active', reason: '' };
const unknownId = 'f'.repeat(32);

async function create(api: ProxyApi, more: Readonly<Record<string, unknown>> = {}): Promise<Shown> {
  return shown(await api.call('POST', zoneIds.example, '/apps', { body: sshApplication(more) }));
}

describe('one application', () => {
  test('is created, shown, and listens when the answer comes', async () => {
    const api = await startProxyApi();
    const body = sshApplication({ tls: 'off', ip_firewall: true, colour: 'blue', origin_port: null });
    const answer = await api.call('POST', zoneIds.example, '/apps', { body });
    expect(answer.json).toEqual({
      success: true,
      errors: [],
      messages: [],
      result: {
        id: hexId,
        protocol: 'tcp/22',
        dns: { type: 'CNAME', name: 'ssh.example.com' },
        origin_direct: ['tcp://127.0.0.1:22'],
        tls: 'off',
        ip_firewall: true,
        created_on: isoTime,
        modified_on: isoTime,
        status: active,
      },
    });
    const { id } = shown(answer);
    expect(shown(await api.call('GET', zoneIds.example, `/apps/${id}`))).toEqual(answer.json.result);
    expect(shown(await api.call('GET', zoneIds.example.toUpperCase(), `/apps/${id.toUpperCase()}`)).id).toBe(id);
    const stored = await api.store.get(zoneIds.example, id);
    const socket = connect(api.bound(22), stored?.addresses[0]);
    await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject));
    socket.destroy();
    expect(shown(await api.call('DELETE', zoneIds.example, `/apps/${id}`))).toEqual({ id });
    const refused = connect(api.bound(22), stored?.addresses[0]);
    await expect(
      new Promise((resolve, reject) => refused.once('connect', resolve).once('error', reject)),
    ).rejects.toThrow('ECONNREFUSED');
    expect(codes(await api.call('GET', zoneIds.example, `/apps/${id}`))).toEqual([404, [10000]]);
    expect(codes(await api.call('DELETE', zoneIds.example, `/apps/${id}`))).toEqual([404, [10000]]);
  });

  test('changes and goes only where If-Match names its version', async () => {
    const api = await startProxyApi();
    const made = await api.call('POST', zoneIds.example, '/apps', { body: sshApplication() });
    const path = `/apps/${shown(made).id}`;
    const tagOf = (answer: HttpAnswer): string => answer.headers.get('etag') ?? '';
    const call = (method: string, tag: string) => {
      const more = method === 'DELETE' ? {} : { body: sshApplication() };
      return api.call(method, zoneIds.example, path, { ...more, headers: { 'If-Match': tag } });
    };
    const first = tagOf(made);
    expect(first).toMatch(/^"\d+"$/);
    expect(tagOf(await api.call('GET', zoneIds.example, path))).toBe(first);
    const put = await call('PUT', first);
    expect([put.status, tagOf(put) === first]).toEqual([200, false]);
    for (const tag of [first, `W/${tagOf(put)}`, '']) {
      for (const method of ['PUT', 'PATCH', 'DELETE']) expect((await call(method, tag)).status).toBe(412);
    }
    expect(tagOf(await api.call('GET', zoneIds.example, path))).toBe(tagOf(put));
    const both = await Promise.all(['PATCH', 'PATCH'].map((method) => call(method, tagOf(put))));
    expect(both.map(({ status }) => status).toSorted((one, other) => one - other)).toEqual([200, 412]);
    expect((await call('PATCH', '*')).status).toBe(200);
    const last = tagOf(await api.call('GET', zoneIds.example, path));
    const removed = await Promise.all([call('PATCH', last), call('DELETE', last)]);
    expect(removed.filter(({ status }) => status === 200)).toHaveLength(1);
  });

  test('that cannot be bound is there all the same, and says why', async () => {
    const api = await startProxyApi();
    const { id, status } = await create(api, { protocol: 'tcp/60000' });
    expect(status).toEqual({ state: 'failed', reason: expect.stringContaining('60000') });
    expect(shown(await api.call('GET', zoneIds.example, `/apps/${id}`))).toMatchObject({ status });
  });

  test.each([
    ['an array', ['127.9.0.7'], 'ADDRESS'],
    ['an object', { type: 'static', ips: ['127.9.0.7'] }, 'ADDRESS'],
    ['a dynamic object', { type: 'dynamic', connectivity: 'ipv4' }, 'CNAME'],
    ['an empty array', [], 'CNAME'],
  ])('answers edge IPs in the form that they were given in: %s', async (_, edgeIps, type) => {
    const api = await startProxyApi();
    const made = await create(api, { edge_ips: edgeIps, dns: { type, name: 'ssh.example.com' } });
    expect(made['edge_ips']).toEqual(edgeIps);
    expect(made['status']).toEqual(active);
  });

  test.each([unknownId, 'x', `${unknownId}0`, '%00', '..%2f'])('id %s is none', async (id) => {
    const api = await startProxyApi();
    for (const method of ['GET', 'DELETE'])
      expect(codes(await api.call(method, zoneIds.example, `/apps/${id}`))).toEqual([404, [10000]]);
    for (const method of ['PATCH', 'PUT']) {
      const options = { body: sshApplication() };
      expect(codes(await api.call(method, zoneIds.example, `/apps/${id}`, options))).toEqual([404, [10000]]);
    }
    expect(codes(await api.call('GET', zoneIds.example, `/apps/${id}/traffic`))).toEqual([404, [10000]]);
  });

  test('is removed by a request that names a type and has no body', async () => {
    const api = await startProxyApi();
    const { id } = await create(api);
    const headers = { 'Content-Type': 'application/json' };
    expect(shown(await api.call('DELETE', zoneIds.example, `/apps/${id}`, { headers }))).toEqual({ id });
    expect(codes(await api.call('POST', zoneIds.example, '/apps', { headers }))).toEqual([400, [10001]]);
  });

  test('of another zone is none here', async () => {
    const api = await startProxyApi();
    const { id } = await create(api);
    for (const method of ['GET', 'DELETE', 'PATCH']) {
      const options = method === 'PATCH' ? { body: { tls: 'off' } } : {};
      expect(codes(await api.call(method, zoneIds.other, `/apps/${id}`, options))).toEqual([404, [10000]]);
    }
  });
});

describe('pay-as-you-go', () => {
  const rdp = {
    protocol: 'tcp/22',
    dns: { type: 'CNAME', name: 'a.payg.example' },
    origin_direct: ['tcp://127.0.0.1:22'],
  };

  test('has three fields in requests and answers', async () => {
    const api = await startProxyApi();
    const as = 'payg-full';
    const made = shown(await api.call('POST', zoneIds.payg, '/apps', { as, body: rdp }));
    expect(made).toEqual({ id: hexId, ...rdp, created_on: isoTime, modified_on: isoTime, status: active });
    const more = await api.call('PATCH', zoneIds.payg, `/apps/${made.id}`, { as, body: { tls: 'off' } });
    expect(codes(more)).toEqual([400, [10012]]);
    const moved = { as, body: { origin_direct: ['tcp://127.0.0.1:23'] } };
    expect(shown(await api.call('PATCH', zoneIds.payg, `/apps/${made.id}`, moved))['origin_direct']).toEqual([
      'tcp://127.0.0.1:23',
    ]);
  });

  test('has each protocol once, over a replacement of its own too', async () => {
    const api = await startProxyApi();
    const as = 'payg-full';
    const { id } = shown(await api.call('POST', zoneIds.payg, '/apps', { as, body: rdp }));
    const again = { ...rdp, dns: { type: 'CNAME', name: 'b.payg.example' } };
    expect(codes(await api.call('POST', zoneIds.payg, '/apps', { as, body: again }))).toEqual([400, [11034]]);
    expect(shown(await api.call('PUT', zoneIds.payg, `/apps/${id}`, { as, body: again }))['dns']).toEqual(again.dns);
  });
});

describe('changes', () => {
  test('a merge patch replaces arrays, removes by null, and leaves the rest', async () => {
    const clock = manualClock();
    const api = await startProxyApi({ clock });
    const made = await create(api, { tls: 'off', proxy_protocol: 'v1' });
    for (const type of [
      'application/json',
      'application/merge-patch+json',
      'Application/Merge-Patch+JSON; charset=utf-8',
    ]) {
      clock.pass(1);
      const body = { origin_direct: ['tcp://127.0.0.1:2222', 'tcp://127.0.0.2:2222'], proxy_protocol: null };
      const headers = { 'Content-Type': type };
      const patched = shown(await api.call('PATCH', zoneIds.example, `/apps/${made.id}`, { body, headers }));
      const { proxy_protocol: _, ...rest } = made;
      expect(patched).toEqual({ ...rest, origin_direct: body.origin_direct, modified_on: isoTime });
      expect(Date.parse(String(patched['modified_on']))).toBe(clock.now());
    }
  });

  test('one form of origin takes the place of the other', async () => {
    const api = await startProxyApi();
    const { id } = await create(api);
    const dns = { origin_dns: { name: 'origin.example.com', ttl: 600 }, origin_port: 22 };
    const named = shown(await api.call('PATCH', zoneIds.example, `/apps/${id}`, { body: dns }));
    expect(named).toMatchObject(dns);
    expect(named).not.toHaveProperty('origin_direct');
    const nested = shown(
      await api.call('PATCH', zoneIds.example, `/apps/${id}`, { body: { origin_dns: { ttl: null } } }),
    );
    expect(nested['origin_dns']).toEqual({ name: 'origin.example.com' });
    const both = { ...dns, origin_direct: ['tcp://127.0.0.1:22'] };
    expect(codes(await api.call('PATCH', zoneIds.example, `/apps/${id}`, { body: both }))).toEqual([400, [11000]]);
  });

  test('an empty patch changes nothing but the date, and a refused one not even that', async () => {
    const api = await startProxyApi();
    const made = await create(api);
    const { modified_on: _, ...rest } = made;
    const touched = shown(await api.call('PATCH', zoneIds.example, `/apps/${made.id}`, { body: {} }));
    expect(touched).toMatchObject(rest);
    const refused = await api.call('PATCH', zoneIds.example, `/apps/${made.id}`, {
      body: { dns: { type: 'ADDRESS' } },
    });
    expect(codes(refused)).toEqual([400, [11004]]);
    expect(shown(await api.call('GET', zoneIds.example, `/apps/${made.id}`))).toEqual(touched);
  });

  test('a replacement forgets what it does not name', async () => {
    const api = await startProxyApi();
    const made = await create(api, { tls: 'off', ip_firewall: true });
    const put = shown(await api.call('PUT', zoneIds.example, `/apps/${made.id}`, { body: sshApplication() }));
    expect(put).toEqual({
      ...sshApplication(),
      id: made.id,
      created_on: made['created_on'],
      modified_on: isoTime,
      status: active,
    });
    const partial = await api.call('PUT', zoneIds.example, `/apps/${made.id}`, { body: { tls: 'off' } });
    expect(codes(partial)[0]).toBe(400);
  });

  test('a hundred patches of different fields at once all stay', async () => {
    const api = await startProxyApi();
    const { id } = await create(api);
    const patches: Record<string, unknown>[] = [
      { ip_firewall: true },
      { proxy_protocol: 'v1' },
      { smart_routing: true },
      { traffic_type: 'direct' },
      { origin_direct: ['tcp://127.0.0.1:24'] },
    ];
    const answers = await Promise.all(
      Array.from({ length: 100 }, (_, at) =>
        api.call('PATCH', zoneIds.example, `/apps/${id}`, { body: patches[at % patches.length] }),
      ),
    );
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    const all = Object.assign({}, ...patches) as object;
    expect(shown(await api.call('GET', zoneIds.example, `/apps/${id}`))).toMatchObject(all);
  });

  test('ports move without a gap: the old ones are free, the new ones open', async () => {
    const api = await startProxyApi();
    const { id } = await create(api);
    const moved = shown(await api.call('PATCH', zoneIds.example, `/apps/${id}`, { body: { protocol: 'tcp/2022' } }));
    expect(moved['status']).toEqual(active);
    expect((await create(api))['status']).toEqual(active);
  });
});

test('a hostname keeps its IPv4 when the quota becomes smaller, and gets no other one', async () => {
  const database = await openTestDatabase(':memory:');
  const before = await startProxyApi({ database });
  const [first] = await Promise.all([
    create(before),
    create(before, { dns: { type: 'CNAME', name: 'a.example.com' } }),
  ]);
  await before.proxy.drain(0);
  const smaller = everyRule.zones.map((zone) => ({ ...zone, ipv4Quota: 1 }));
  const api = await startProxyApi({ database, zones: smaller });
  const patch = (body: unknown) => api.call('PATCH', zoneIds.example, `/apps/${first.id}`, { body });
  expect(shown(await patch({ protocol: 'tcp/23' }))).toMatchObject({ protocol: 'tcp/23' });
  expect(codes(await patch({ dns: { name: 'b.example.com' } }))).toEqual([400, [12005]]);
  expect(shown(await patch({ edge_ips: { type: 'dynamic', connectivity: 'ipv6' } })).id).toBe(first.id);
  expect(codes(await patch({ edge_ips: null }))).toEqual([400, [12005]]);
});

test('connectivity all listens on the IPv4 of the hostname and on every IPv6 address, and counts one IPv4', async () => {
  const api = await startProxyApi({ zones: everyRule.zones.map((zone) => ({ ...zone, ipv4Quota: 1 })) });
  const edgeIps = (connectivity: string) => ({ edge_ips: { type: 'dynamic', connectivity } });
  const { id, status } = await create(api, edgeIps('all'));
  const [ipv4 = '', ...others] = (await api.store.get(zoneIds.example, id))?.addresses ?? [];
  expect([status, others]).toEqual([active, ['::']]);
  for (const address of [ipv4, '::1']) {
    const client = connect(api.bound(22), address);
    await once(client, 'connect');
    client.destroy();
  }
  // The port is this application's on every IPv6 address, and the hostname has the only IPv4.
  const body = (connectivity: string) =>
    sshApplication({ dns: { type: 'CNAME', name: 'b.example.com' }, ...edgeIps(connectivity) });
  const post = (connectivity: string) => api.call('POST', zoneIds.example, '/apps', { body: body(connectivity) });
  expect(codes(await post('ipv6'))).toEqual([400, [13002]]);
  expect(codes(await post('all'))).toEqual([400, [12005, 13002]]);
  // It keeps its IPv4 whatever it becomes, and gives the other one back.
  const patch = (connectivity: string) =>
    api.call('PATCH', zoneIds.example, `/apps/${id}`, { body: edgeIps(connectivity) });
  expect(shown(await patch('ipv4'))['status']).toEqual(active);
  expect((await api.store.get(zoneIds.example, id))?.addresses).toEqual([ipv4]);
  expect(shown(await patch('all'))['status']).toEqual(active);
  expect((await api.store.get(zoneIds.example, id))?.addresses).toEqual([ipv4, '::']);
});

describe('lists', () => {
  async function fill(api: ProxyApi): Promise<void> {
    for (const [at, port] of [443, 22, 8080, 1000, 53].entries()) {
      const dns = { type: 'CNAME', name: `${'bdace'[at]}.example.com` };
      await create(api, { protocol: `tcp/${port}`, dns });
    }
  }
  const names = (answer: HttpAnswer): string =>
    (answer.json.result as { dns: { name: string } }[]).map(({ dns }) => dns.name[0]).join('');

  test.each([
    ['', 'abcde'],
    ['?direction=desc', 'edcba'],
    ['?order=protocol', 'debca'],
    ['?order=created_on', 'bdace'],
    ['?order=modified_on&direction=desc', 'ecadb'],
    ['?per_page=2', 'ab'],
    ['?per_page=2&page=3', 'e'],
    ['?per_page=2&page=4', ''],
    ['?page=999999999&per_page=100', ''],
  ])('apps%s', async (query, wanted) => {
    const api = await startProxyApi();
    await fill(api);
    const answer = await api.call('GET', zoneIds.example, `/apps${query}`);
    expect(names(answer)).toBe(wanted);
    const { per_page: perPage = '20', page = '1' } = Object.fromEntries(new URLSearchParams(query));
    expect((answer.json as { result_info?: unknown }).result_info).toEqual({
      page: Number(page),
      per_page: Number(perPage),
      count: wanted.length,
      total_count: 5,
      total_pages: Math.ceil(5 / Number(perPage)),
    });
  });

  test.each([
    ['dns=a.example.com', 'a'],
    ['dns=A.Example.COM', 'a'],
    ['dns=nobody.example.com', ''],
    ['protocol=tcp/22', 'd'],
    ['protocol=tcp%2F22&dns=a.example.com', ''],
    ['protocol=udp/22', ''],
    ['protocol=tcp/21', 'h'],
    ['protocol=ftp', 'g'],
    ['protocol=ftp/21', 'g'],
    ['status=active', 'abcdegh'],
    ['status=failed', 'f'],
    ['status=pending', ''],
    ['status=active&per_page=2&page=2', 'cd'],
    ['status=active&order=protocol&direction=desc&per_page=3', 'acb'],
    ['status=failed&protocol=tcp/60000', 'f'],
    ['status=failed&dns=a.example.com', ''],
  ])('apps?%s', async (query, wanted) => {
    const api = await startProxyApi();
    await fill(api);
    await create(api, { protocol: 'tcp/60000', dns: { type: 'CNAME', name: 'f.example.com' } });
    await create(api, { protocol: 'ftp', dns: { type: 'CNAME', name: 'g.example.com' } });
    await create(api, { protocol: 'tcp/21', dns: { type: 'CNAME', name: 'h.example.com' } });
    const answer = await api.call('GET', zoneIds.example, `/apps?${query}`);
    expect(names(answer)).toBe(wanted);
    const info = (answer.json as { result_info?: { total_count: number } }).result_info;
    const isPaged = query.includes('per_page');
    expect(info?.total_count).toBe(isPaged ? 7 : wanted.length);
  });

  test('an empty list has no pages', async () => {
    const api = await startProxyApi();
    const answer = await api.call('GET', zoneIds.example, '/apps');
    expect(answer.json).toEqual({
      success: true,
      errors: [],
      messages: [],
      result: [],
      result_info: { page: 1, per_page: 20, count: 0, total_count: 0, total_pages: 0 },
    });
  });

  test.each([
    'per_page=0',
    'per_page=101',
    'per_page=-1',
    'page=0',
    'page=1.5',
    'order=id',
    'direction=up',
    'colour=blue',
    'protocol=tcp/0',
    'protocol=22',
    'status=broken',
    `dns=${'a'.repeat(256)}`,
    'page=1&page=2',
  ])('?%s is refused', async (query) => {
    const api = await startProxyApi();
    expect(codes(await api.call('GET', zoneIds.example, `/apps?${query}`))).toEqual([400, [10001]]);
  });
});

describe('who may', () => {
  const calls = [
    ['GET', '/apps'],
    ['GET', '/apps/44440000000000000000000000000001'],
    ['GET', '/apps/44440000000000000000000000000001/traffic'],
    ['GET', '/protocols'],
    ['POST', '/apps'],
    ['PUT', '/apps/44440000000000000000000000000001'],
    ['PATCH', '/apps/44440000000000000000000000000001'],
    ['DELETE', '/apps/44440000000000000000000000000001'],
  ] as const;
  const statuses = async (api: ProxyApi, as: string, zone: string, headers = {}): Promise<(readonly unknown[])[]> => {
    const answers = [];
    for (const [method, path] of calls) {
      const body = method === 'GET' || method === 'DELETE' ? {} : { body: {} };
      answers.push(codes0(await api.call(method, zone, path, { as, headers, ...body })));
    }
    return answers;
  };
  const codes0 = ({ status, json }: HttpAnswer): readonly unknown[] => [status, json.errors[0]?.code ?? 0];
  const reads = (one: readonly unknown[]) => Array.from({ length: 4 }, () => one);
  const done = [200, 0];

  test.each([
    ['nobody', '', [401, 10101], [401, 10101]],
    ['a token that is none', 'nonsense', [401, 10101], [401, 10101]],
    ['a token without a scope of this API', 'dev-mailer', [403, 10102], [403, 10102]],
    ['a token of another account', 'bare-full', [404, 10000], [404, 10000]],
    ['a reader', 'dev-reader', done, [403, 10102]],
  ] as const)('%s', async (_, as, read, write) => {
    const api = await startProxyApi();
    expect(await statuses(api, as, zoneIds.other)).toEqual([...reads(read), ...reads(write)]);
  });

  const invalid = [400, 10001];
  test.each([
    // The stored application has edge IPs, which an editor without that scope may not keep either.
    ['an editor', 'dev-editor', [400, 11019]],
    ['an editor who may read prefixes', 'dev-full', done],
    ['an administrator of another account', 'bare-boss', done],
  ])('%s', async (_, as, patched) => {
    const api = await startProxyApi();
    expect(await statuses(api, as, zoneIds.other)).toEqual([...reads(done), invalid, invalid, patched, done]);
  });

  test('a token that only writes reads nothing', async () => {
    const api = await startProxyApi();
    expect((await statuses(api, 'dev-writer', zoneIds.other)).slice(0, 5)).toEqual([...reads([403, 10102]), invalid]);
  });

  test('the global key of the account, and of no other one', async () => {
    const api = await startProxyApi();
    const key = (name: string) => ({ 'X-Auth-Email': `${name}@example.com`, 'X-Auth-Key': `global-key-of-${name}` });
    expect(await statuses(api, '', zoneIds.other, key('bare'))).toEqual([
      ...reads([404, 10000]),
      ...reads([404, 10000]),
    ]);
    expect((await statuses(api, '', zoneIds.other, key('dev'))).at(-1)).toEqual(done);
  });

  test('a zone that is none', async () => {
    const api = await startProxyApi();
    for (const zone of [unknownId, 'x', 'example.com'])
      expect(await statuses(api, 'dev-boss', zone)).toEqual([...reads([404, 10000]), ...reads([404, 10000])]);
  });

  test('plan free has no proxy applications, whoever asks, before a body is read', async () => {
    const api = await startProxyApi();
    for (const as of ['free-full', 'dev-boss'])
      expect(await statuses(api, as, zoneIds.free)).toEqual([...reads([403, 10102]), ...reads([403, 10102])]);
    expect(codes(await api.call('POST', zoneIds.free, '/apps', { as: 'free-full', body: '{' }))).toEqual([
      403,
      [10102],
    ]);
  });

  test('edge IPs need the scope for prefixes, or a global key; the plan is the zone’s account’s', async () => {
    const api = await startProxyApi();
    const body = sshApplication({ dns: { type: 'ADDRESS', name: 'ssh.example.com' }, edge_ips: ['127.9.0.7'] });
    const refused = await api.call('POST', zoneIds.example, '/apps', { as: 'dev-editor', body });
    expect(codes(refused)).toEqual([400, [11019]]);
    const headers = { 'X-Auth-Email': 'dev@example.com', 'X-Auth-Key': 'global-key-of-dev' };
    expect((await api.call('POST', zoneIds.example, '/apps', { as: '', headers, body })).status).toBe(200);
    const payg = await api.call('POST', zoneIds.payg, '/apps', {
      as: 'dev-boss',
      body: { ...sshApplication({ dns: { type: 'CNAME', name: 'x.payg.example' } }), tls: 'off' },
    });
    expect(codes(payg)).toEqual([400, [10012]]);
  });
});

describe('requests that are none', () => {
  test.each([
    ['no JSON', '{', 400, 10001],
    ['no object', '[]', 400, 10001],
    ['null', 'null', 400, 10001],
    ['a text', '"x"', 400, 10001],
    ['a repeated name', '{"protocol":"tcp/22","protocol":"tcp/23"}', 400, 10001],
    ['64 KiB and an octet', `"${'x'.repeat(65_535)}"`, 413, 10200],
  ])('%s', async (_, body, status, code) => {
    const api = await startProxyApi();
    const answer = await api.call('POST', zoneIds.example, '/apps', { body });
    expect(codes(answer)).toEqual([status, [code]]);
  });

  test('64 KiB are read', async () => {
    const api = await startProxyApi();
    const answer = await api.call('POST', zoneIds.example, '/apps', { body: `"${'x'.repeat(65_534)}"` });
    expect(codes(answer)).toEqual([400, [10001]]);
  });

  test('no body, another type, another method', async () => {
    const api = await startProxyApi();
    expect(codes(await api.call('POST', zoneIds.example, '/apps'))).toEqual([400, [10001]]);
    const headers = { 'Content-Type': 'text/plain' };
    expect((await api.call('POST', zoneIds.example, '/apps', { body: '{}', headers })).status).toBe(415);
    const patchType = { 'Content-Type': 'application/merge-patch+json' };
    const { id } = await create(api);
    const send = (method: string, path: string) =>
      api.call(method, zoneIds.example, path, { body: JSON.stringify({ ip_firewall: false }), headers: patchType });
    expect((await send('POST', '/apps')).status).toBe(415);
    expect((await send('PUT', `/apps/${id}`)).status).toBe(415);
    expect((await send('PATCH', `/apps/${id}`)).status).toBe(200);
    const put = await api.call('PUT', zoneIds.example, '/apps', { body: {} });
    expect([put.status, put.headers.get('allow')]).toEqual([405, 'GET, HEAD, POST']);
  });

  test('every fault has its number, text and place, the status is the first one’s', async () => {
    const api = await startProxyApi();
    const body = {
      protocol: 'tcp/22',
      dns: { type: 'ADDRESS', name: 'ssh.bare.example' },
      origin_direct: [],
      edge_ips: ['127.9.1.1'],
      smart_routing: true,
    };
    const answer = await api.call('POST', zoneIds.bare, '/apps', { as: 'bare-full', body });
    expect(codes(answer)).toEqual([400, [11000, 11018, 11026]]);
    const later = await api.call('POST', zoneIds.bare, '/apps', {
      as: 'bare-full',
      body: { ...body, origin_direct: ['tcp://127.0.0.1:1'] },
    });
    expect(codes(later)).toEqual([403, [11018, 11026]]);
    for (const { message } of answer.json.errors) expect(message).not.toBe('');
  });
});

describe('drills', () => {
  test.each([
    [zoneIds.dnsDown, 503],
    [zoneIds.ipamDown, 503],
    [zoneIds.fault, 500],
  ])('zone %s answers 10002 with %i, before the application is looked up', async (zone, status) => {
    const api = await startProxyApi();
    const name = zone === zoneIds.dnsDown ? 'dnsdown' : zone === zoneIds.ipamDown ? 'ipamdown' : 'fault';
    const body = sshApplication({ dns: { type: 'CNAME', name: `a.${name}.example` } });
    for (const [method, path] of [
      ['POST', '/apps'],
      ['PUT', `/apps/${unknownId}`],
      ['PATCH', '/apps/none'],
    ] as const) {
      const answer = await api.call(method, zone, path, { body });
      expect(codes(answer)).toEqual([status, [10002]]);
      expect(answer.json.errors[0]?.message).toContain(answer.headers.get('ray-id') ?? 'no Ray ID');
    }
    expect(await api.store.list(zone, { page: 1, perPage: 1, order: 'dns', direction: 'asc' })).toMatchObject({
      total: 0,
    });
  });
});

describe('protocols', () => {
  const list = async (api: ProxyApi, zone: string, as: string) =>
    (await api.call('GET', zone, '/protocols', { as })).json.result as readonly Record<string, string>[];

  test('are those of the zone without the unavailable ones, and FTP where the account may', async () => {
    const api = await startProxyApi({ ownEdgePorts: [25, 53, -22] });
    expect((await list(api, zoneIds.example, 'dev-reader')).map(({ name }) => name)).toEqual([
      'tcp/1-24',
      'tcp/26-52',
      'tcp/54-5999',
      'tcp/6064-65535',
      'udp/1-1899',
      'udp/1901-65535',
      'ftp',
    ]);
  });

  test('no FTP where the account may not, though the zone has its port', async () => {
    const api = await startProxyApi();
    const names = (await list(api, zoneIds.bare, 'bare-reader')).map(({ name }) => name);
    expect(names[0]).toMatch(/^tcp\/1-/);
    expect(names).not.toContain('ftp');
  });

  test('of a small zone', async () => {
    const api = await startProxyApi();
    expect(await list(api, zoneIds.payg, 'payg-reader')).toEqual([
      { name: 'tcp/22', transport: 'tcp', ports: '22', description: 'TCP port 22' },
      { name: 'tcp/3389', transport: 'tcp', ports: '3389', description: 'TCP port 3389' },
      { name: 'tcp/25565', transport: 'tcp', ports: '25565', description: 'TCP port 25565' },
    ]);
  });
});

describe('traffic', () => {
  test('of an application that has carried nothing, and of one that has', async () => {
    const api = await startProxyApi();
    const { id } = await create(api, { origin_direct: ['tcp://127.0.0.1:1'] });
    const stored = await api.store.get(zoneIds.example, id);
    const before = shown(await api.call('GET', zoneIds.example, `/apps/${id}/traffic`));
    expect(before).toEqual({
      listening: [`${stored?.addresses[0]}:${api.bound(22)}`],
      counters: { open: 0, connections: 0, refused: 0, failed: 0, bytes_from_clients: 0, bytes_from_origins: 0 },
      origins: [{ address: '127.0.0.1', port: 1, healthy: true, failures: 0 }],
      events: [],
    });
    const socket = connect(api.bound(22), stored?.addresses[0]);
    await new Promise((resolve) => socket.once('close', resolve).once('error', () => undefined));
    const after = shown(await api.call('GET', zoneIds.example, `/apps/${id}/traffic`));
    expect(after).toMatchObject({
      counters: { connections: 1, failed: 1 },
      origins: [{ address: '127.0.0.1', port: 1, healthy: false }],
      events: expect.arrayContaining([expect.objectContaining({ kind: 'error', port: 22, at: isoTime })]),
    });
    expect(await api.metric('postern_proxy_connections_total{')).toContain(
      `postern_proxy_connections_total{application="${id}"} 1`,
    );
    await api.call('DELETE', zoneIds.example, `/apps/${id}`);
    expect((await api.metric('postern_proxy_')).filter((line) => line.includes(id))).toEqual([]);
  });
});

describe('virtual networks', () => {
  const lab = '7d6f0c1e-0000-4000-8000-00000000a001';

  test('are listed with their routes', async () => {
    const api = await startProxyApi();
    const networks = await api.callPath('GET', '/accounts/dev/networks/virtual_networks', { as: 'dev-reader' });
    expect(networks.json).toMatchObject({
      result: [{ id: lab, name: 'lab' }],
      result_info: { page: 1, per_page: 20, count: 1, total_count: 1, total_pages: 1 },
    });
    const routes = await api.callPath('GET', '/accounts/dev/networks/routes', { as: 'dev-reader' });
    expect(routes.json.result).toEqual([
      {
        id: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/),
        network: '10.0.0.0/24',
        virtual_network_id: lab,
        virtual_network_name: 'lab',
      },
    ]);
    expect((await api.callPath('GET', '/accounts/dev/networks/routes')).json.result).toEqual(routes.json.result);
  });

  test.each([
    ['routes?network_subset=10.0.0.0/8', 1],
    ['routes?network_subset=10.0.0.0/24', 1],
    ['routes?network_subset=10.0.0.0/25', 0],
    ['routes?network_subset=::/0', 0],
    ['routes?network_superset=10.0.0.255', 1],
    ['routes?network_superset=10.0.0.0/24', 1],
    ['routes?network_superset=10.0.0.0/23', 0],
    ['routes?network_superset=10.0.1.0', 0],
    [`routes?virtual_network_id=${lab.toUpperCase()}`, 1],
    ['routes?virtual_network_id=other', 0],
    ['virtual_networks?name=lab', 1],
    ['virtual_networks?name=la', 0],
    ['virtual_networks?page=2', 0],
  ])('%s has %i', async (query, count) => {
    const api = await startProxyApi();
    const answer = await api.callPath('GET', `/accounts/dev/networks/${query}`);
    expect(answer.json.errors).toEqual([]);
    expect(answer.json.result).toHaveLength(count);
  });

  test('a network that is none, another account, a missing scope', async () => {
    const api = await startProxyApi();
    for (const text of ['10.0.0.0/33', '10.0.0', 'x', '10.0.0.0/8/8']) {
      const answer = await api.callPath('GET', `/accounts/dev/networks/routes?network_subset=${text}`);
      expect(codes(answer)).toEqual([400, [10001]]);
    }
    const path = '/accounts/dev/networks/routes';
    expect(codes(await api.callPath('GET', path, { as: 'bare-reader' }))).toEqual([404, [10000]]);
    expect(codes(await api.callPath('GET', path, { as: 'dev-mailer' }))).toEqual([403, [10102]]);
    expect((await api.callPath('GET', path, { as: 'bare-boss' })).json.result).toHaveLength(1);
  });
});
