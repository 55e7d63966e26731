// The headers that tell an origin the client's address: golden octets, and a strict reader of the test's own.

import { isIPv4, isIPv6 } from 'node:net';
import { expect, test } from 'vitest';
import {
  type ProxiedConnection,
  proxyHeaderV1,
  proxyHeaderV2,
  simpleHeader,
} from '../../../src/proxy/traffic/proxy-header.ts';
import fc from '../../support/properties.ts';
import { readSimpleHeader } from '../../support/simple-header.ts';

const v4: ProxiedConnection = {
  transport: 'tcp',
  client: { address: '192.0.2.10', port: 56_324 },
  edge: { address: '198.51.100.1', port: 443 },
};
const v6: ProxiedConnection = {
  transport: 'tcp',
  client: { address: '2001:db8::1', port: 1 },
  edge: { address: '2001:db8:0:0:1::2', port: 65_535 },
};
const mixed: ProxiedConnection = { ...v4, edge: v6.edge };
const signature = '0d0a0d0a000d0a515549540a';

test('version 1, golden', () => {
  expect(proxyHeaderV1(v4).toString('latin1')).toBe('PROXY TCP4 192.0.2.10 198.51.100.1 56324 443\r\n');
  expect(proxyHeaderV1(v6).toString('latin1')).toBe('PROXY TCP6 2001:db8::1 2001:db8::1:0:0:2 1 65535\r\n');
  expect(proxyHeaderV1(mixed).toString('latin1')).toBe(
    'PROXY TCP6 ::ffff:192.0.2.10 2001:db8::1:0:0:2 56324 65535\r\n',
  );
  expect(proxyHeaderV1({ ...v4, transport: 'udp' }).toString('latin1')).toBe('PROXY UNKNOWN\r\n');
  expect(proxyHeaderV1({ ...v4, client: { address: '', port: 0 } }).toString('latin1')).toBe('PROXY UNKNOWN\r\n');
});

test('version 1 takes a mapped address for IPv4, and leaves a zone out', () => {
  const mapped = { ...v4, client: { ...v4.client, address: '::ffff:192.0.2.10' } };
  expect(proxyHeaderV1(mapped)).toEqual(proxyHeaderV1(v4));
  const scoped = { ...v6, client: { address: 'fe80::1%eth0', port: 9 } };
  expect(proxyHeaderV1(scoped).toString('latin1')).toBe('PROXY TCP6 fe80::1 2001:db8::1:0:0:2 9 65535\r\n');
});

test('the longest line of version 1 is within the 107 octets of the specification', () => {
  const address = 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff';
  const header = proxyHeaderV1({
    transport: 'tcp',
    client: { address, port: 65_535 },
    edge: { address, port: 65_535 },
  });
  expect(header.length).toBe(104);
});

test('version 2, golden', () => {
  expect(proxyHeaderV2(v4).toString('hex')).toBe(`${signature}2111000cc000020ac6336401dc0401bb`);
  expect(proxyHeaderV2({ ...v4, transport: 'udp' }).toString('hex')).toBe(
    `${signature}2112000cc000020ac6336401dc0401bb`,
  );
  const addresses = '20010db800000000000000000000000120010db8000000000001000000000002';
  expect(proxyHeaderV2(v6).toString('hex')).toBe(`${signature}21210024${addresses}0001ffff`);
  expect(proxyHeaderV2({ ...v6, transport: 'udp' }).toString('hex')).toBe(`${signature}21220024${addresses}0001ffff`);
  expect(proxyHeaderV2(mixed).toString('hex')).toBe(
    [`${signature}21210024`, '00000000000000000000ffffc000020a', '20010db8000000000001000000000002', 'dc04ffff'].join(
      '',
    ),
  );
  expect(proxyHeaderV2({ ...v4, client: { address: 'x', port: 0 } }).toString('hex')).toBe(`${signature}21000000`);
});

test('simple, golden', () => {
  expect(simpleHeader(v4).toString('hex')).toBe(
    ['56ec', '00000000000000000000ffffc000020a', '00000000000000000000ffffc6336401', 'dc04', '01bb'].join(''),
  );
  expect(simpleHeader(mixed).toString('hex')).toBe(
    ['56ec', '00000000000000000000ffffc000020a', '20010db8000000000001000000000002', 'dc04', 'ffff'].join(''),
  );
});

test('a datagram shorter than the simple header, or with another beginning, has none', () => {
  const header = simpleHeader(v4);
  expect(readSimpleHeader(header.subarray(0, 37))).toBeUndefined();
  expect(readSimpleHeader(header)?.payload.length).toBe(0);
  expect(readSimpleHeader(Buffer.concat([header, Buffer.from('x')]))?.payload.toString()).toBe('x');
  expect(readSimpleHeader(Buffer.concat([Buffer.of(0x56, 0xed), header.subarray(2)]))).toBeUndefined();
});

const port = fc.integer({ min: 0, max: 65_535 });
const endpoint = fc.record({ address: fc.oneof(fc.ipV4(), fc.ipV6()), port });
const connection: fc.Arbitrary<ProxiedConnection> = fc.record({
  transport: fc.constantFrom('tcp', 'udp'),
  client: endpoint,
  edge: endpoint,
});

/** 16 octets by a way of the test's own: the platform's URL parser expands the address. */
function octets(address: string): string {
  if (isIPv4(address)) {
    const bytes = address.split('.').map((part) => Number(part).toString(16).padStart(2, '0'));
    return `00000000000000000000ffff${bytes.join('')}`;
  }
  const [head = '', tail] = new URL(`http://[${address}]/`).hostname.slice(1, -1).split('::');
  const groups = (text: string) => (text === '' ? [] : text.split(':')).map((group) => group.padStart(4, '0'));
  const [left, right] = [groups(head), groups(tail ?? '')];
  const zeros = Array.from({ length: tail === undefined ? 0 : 8 - left.length - right.length }, () => '0000');
  return [...left, ...zeros, ...right].join('');
}

/** Reads version 1 as the specification words it. */
function readV1(header: Buffer): { family: string; client: string; edge: string; ports: number[] } | 'unknown' {
  const line = header.toString('latin1');
  expect(line).toMatch(/^PROXY [^\r\n]+\r\n$/);
  expect(line.length).toBeLessThanOrEqual(107);
  const [, family = '', client = '', edge = '', ...ports] = line.slice(0, -2).split(' ');
  if (family === 'UNKNOWN') return 'unknown';
  const check = family === 'TCP4' ? isIPv4 : isIPv6;
  expect([check(client), check(edge), ports.length]).toEqual([true, true, 2]);
  for (const text of ports) expect(text).toMatch(/^(0|[1-9]\d{0,4})$/);
  return { family, client: octets(client), edge: octets(edge), ports: ports.map(Number) };
}

/** Reads version 2 as the specification words it. */
function readV2(header: Buffer) {
  expect(header.subarray(0, 12).toString('hex')).toBe(signature);
  expect(header[12]).toBe(0x21);
  const family = (header[13] ?? 0) >> 4;
  const size = family === 1 ? 4 : 16;
  expect(header.readUInt16BE(14)).toBe(size * 2 + 4);
  expect(header.length).toBe(16 + size * 2 + 4);
  const address = (start: number) =>
    (family === 1 ? '00000000000000000000ffff' : '') + header.subarray(start, start + size).toString('hex');
  return {
    transport: ((header[13] ?? 0) & 15) === 1 ? 'tcp' : 'udp',
    client: address(16),
    edge: address(16 + size),
    ports: [header.readUInt16BE(16 + 2 * size), header.readUInt16BE(18 + 2 * size)],
  };
}

test('a strict reader finds in each header what went in', () => {
  fc.assert(
    fc.property(connection, fc.uint8Array({ maxLength: 64 }), (given, payload) => {
      const client = octets(given.client.address);
      const edge = octets(given.edge.address);
      const ports = [given.client.port, given.edge.port];
      expect(readV2(proxyHeaderV2(given))).toEqual({ transport: given.transport, client, edge, ports });
      const first = readV1(proxyHeaderV1(given));
      if (given.transport === 'udp') expect(first).toBe('unknown');
      else expect(first).toMatchObject({ client, edge, ports });
      const datagram = readSimpleHeader(Buffer.concat([simpleHeader(given), payload]));
      expect([...(datagram?.payload ?? [])]).toEqual([...payload]);
      expect(octets(datagram?.client.address ?? '')).toBe(client);
      expect(octets(datagram?.edge.address ?? '')).toBe(edge);
      expect([datagram?.client.port, datagram?.edge.port]).toEqual(ports);
    }),
  );
});
