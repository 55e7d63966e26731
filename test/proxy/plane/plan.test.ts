// The plan of the data plane, from fields that were judged (D81, D84).

import { describe, expect, test } from 'vitest';
import type { ApplicationFields, StoredApplication } from '../../../src/proxy/application/application.ts';
import { planOf } from '../../../src/proxy/plane/stored-plans.ts';
import { accountOf, zoneNamed } from '../../support/judge-fixtures.ts';

const zone = { ...zoneNamed('example.com'), block: ['192.0.2.0/24'], allow: ['127.0.0.0/8'] };
const account = accountOf(zone);
const base: ApplicationFields = {
  protocol: 'tcp/22',
  dns: { type: 'CNAME', name: 'ssh.example.com' },
  origin_direct: ['tcp://127.0.0.1:2222'],
};

function stored(fields: ApplicationFields, addresses: readonly string[] = ['127.64.0.1']): StoredApplication {
  return { id: '1'.repeat(32), zone: zone.id, account: account.id, fields, addresses, createdAt: 0, modifiedAt: 0 };
}

function plan(more: Partial<ApplicationFields>) {
  return planOf(stored({ ...base, ...more }), { zone, account });
}

function withDns(origin_dns: NonNullable<ApplicationFields['origin_dns']>, origin_port?: number | string) {
  const { origin_direct: _, ...rest } = base;
  const fields = { ...rest, origin_dns, ...(origin_port === undefined ? {} : { origin_port }) };
  return planOf(stored(fields), { zone, account }).origin;
}

test('every default is filled in', () => {
  expect(plan({})).toEqual({
    id: '1'.repeat(32),
    zone: zone.id,
    account: account.id,
    name: 'ssh.example.com',
    transport: 'tcp',
    ports: { first: 22, last: 22 },
    addresses: ['127.64.0.1'],
    origin: { kind: 'direct', origins: [{ address: '127.0.0.1', ports: { first: 2222, last: 2222 } }] },
    proxyProtocol: 'off',
    tls: 'off',
    firewall: { block: [], allow: [] },
  });
});

test('what is given is taken', () => {
  const given = plan({
    protocol: 'udp/1000-1001',
    origin_direct: ['udp://[2001:DB8::1]:53-54', 'udp://192.0.2.1:63-64'],
    ip_firewall: true,
    proxy_protocol: 'simple',
  });
  expect(given).toMatchObject({
    transport: 'udp',
    ports: { first: 1000, last: 1001 },
    origin: {
      kind: 'direct',
      origins: [
        { address: '2001:db8::1', ports: { first: 53, last: 54 } },
        { address: '192.0.2.1', ports: { first: 63, last: 64 } },
      ],
    },
    proxyProtocol: 'simple',
    firewall: { block: ['192.0.2.0/24'], allow: ['127.0.0.0/8'] },
  });
  expect(plan({ tls: 'strict' }).tls).toBe('strict');
  expect(plan({ ip_firewall: false }).firewall).toEqual({ block: [], allow: [] });
});

test.each(['ftp', 'ftp/21'])('%s is port 21 over TCP', (protocol) => {
  const given = plan({ protocol, origin_direct: ['tcp://127.0.0.1:2121'] });
  expect(given).toMatchObject({ transport: 'tcp', ports: { first: 21, last: 21 } });
});

describe('origins by name', () => {
  test('defaults', () => {
    const wanted = { kind: 'dns', name: 'o.example.com', type: '', ttlSeconds: 1200, ports: { first: 22, last: 22 } };
    expect(withDns({ name: 'o.example.com' }, 22)).toEqual(wanted);
  });

  test('given', () => {
    const wanted = { kind: 'dns', name: 'o.example.com', type: 'AAAA', ttlSeconds: 600, ports: { first: 1, last: 9 } };
    expect(withDns({ name: 'o.example.com', type: 'AAAA', ttl: 600 }, '1-9')).toEqual(wanted);
  });

  test('SRV names its port itself', () => {
    const wanted = { kind: 'dns', name: '_ssh._tcp.example.com', type: 'SRV', ttlSeconds: 1200 };
    expect(withDns({ name: '_ssh._tcp.example.com', type: 'SRV' })).toEqual(wanted);
    expect(withDns({ name: '_ssh._tcp.example.com', type: 'SRV' }, 22)).toEqual(wanted);
  });
});

test('a virtual network gives the address to connect from, whatever the case of its id', () => {
  const id = '7D6F0C1E-0000-4000-8000-00000000A001';
  const given = plan({ virtual_network_id: id, origin_direct: ['tcp://10.0.0.5:22'] });
  expect(given.sourceAddress).toBe('127.0.0.9');
  const virtualNetworks = account.virtualNetworks.map(({ id, name, routes }) => ({ id, name, routes }));
  const without = planOf(stored({ ...base, virtual_network_id: id }), {
    zone,
    account: { ...account, virtualNetworks },
  });
  expect('sourceAddress' in without).toBe(false);
});

test('of several virtual networks it is the one that is named', () => {
  const [first] = account.virtualNetworks;
  if (!first) throw new Error('no network');
  const second = { ...first, id: '7d6f0c1e-0000-4000-8000-00000000a002', sourceAddress: '127.0.0.10' };
  const from = { zone, account: { ...account, virtualNetworks: [first, second] } };
  for (const { id, sourceAddress } of [second, first])
    expect(planOf(stored({ ...base, virtual_network_id: id }), from)).toMatchObject({ sourceAddress });
});

test('a virtual network that left the configuration is an obstacle: nothing connects to its addresses directly', () => {
  const id = '7d6f0c1e-0000-4000-8000-00000000a001';
  const application = stored({ ...base, virtual_network_id: id });
  expect(planOf(application, { zone, account })).not.toHaveProperty('obstacle');
  const lost = planOf(application, { zone, account: { ...account, virtualNetworks: [] } });
  expect(lost.obstacle).toBe(`virtual network "${id}" is not in the configuration`);
});

test('fields that nobody judged are an error', () => {
  expect(() => plan({ protocol: 'x' })).toThrow('cannot be read');
  expect(() => plan({ origin_direct: [] })).toThrow('cannot be read');
  expect(() => withDns({ name: 'o.example.com' })).toThrow('cannot be read');
});
