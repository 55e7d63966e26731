import { expect, test } from 'vitest';
import { readProxyHeader } from '../../../src/doors/smtp/smtp-listener.ts';
import fc from '../../support/properties.ts';
import { proxyV2 } from '../../support/proxy-header.ts';

function v1(line: string): ReturnType<typeof readProxyHeader> {
  return readProxyHeader(Buffer.from(line, 'latin1'));
}

test.each([
  ['PROXY TCP4 192.0.2.1 198.51.100.1 56324 25\r\n', '192.0.2.1'],
  ['PROXY TCP4 255.255.255.255 0.0.0.0 0 65535\r\n', '255.255.255.255'],
  ['PROXY TCP6 2001:DB8:0::1 2001:db8::2 1 2\r\n', '2001:db8::1'],
  ['PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2\r\n', '192.0.2.1'],
  ['PROXY UNKNOWN\r\n', undefined],
  ['PROXY UNKNOWN ffff:f... anything 65535\r\n', undefined],
])('version 1: %j', (line, source) => {
  expect(v1(`${line}EHLO`)).toEqual({ kind: 'header', length: line.length, source });
});

test.each([
  'EHLO client\r\n',
  'proxy TCP4 192.0.2.1 198.51.100.1 1 2\r\n',
  'PROXY\r\n',
  'PROXY TCP5 192.0.2.1 198.51.100.1 1 2\r\n',
  'PROXY TCP4 192.0.2.256 198.51.100.1 1 2\r\n',
  'PROXY TCP4 192.0.2.1 198.51.100 1 2\r\n',
  'PROXY TCP4 2001:db8::1 198.51.100.1 1 2\r\n',
  'PROXY TCP6 192.0.2.1 2001:db8::1 1 2\r\n',
  'PROXY TCP4 0x7f.0.0.1 198.51.100.1 1 2\r\n',
  'PROXY TCP4 192.0.2.1 198.51.100.1 1 -2\r\n',
  'PROXY TCP4 192.0.2.1 198.51.100.1 1\r\n',
  'PROXY TCP4 192.0.2.1 198.51.100.1 1 2 3\r\n',
  'PROXY  TCP4 192.0.2.1 198.51.100.1 1 2\r\n',
  `PROXY UNKNOWN ${'a'.repeat(92)}\r\n`,
  `PROXY UNKNOWN ${'a'.repeat(200)}`,
])('version 1: %j is invalid', (line) => {
  expect(v1(line).kind).toBe('invalid');
});

test('version 1: a line has at most 107 octets with its end', () => {
  const line = `PROXY UNKNOWN ${'a'.repeat(91)}\r\n`;
  expect(line).toHaveLength(107);
  expect(v1(line).kind).toBe('header');
});

test('version 2: IPv4, IPv6, LOCAL, UNSPEC and UNIX', () => {
  const four = proxyV2({ address: '192.0.2.1', port: 4711 });
  expect(readProxyHeader(Buffer.concat([four, Buffer.from('EHLO')]))).toEqual({
    kind: 'header',
    length: 28,
    source: '192.0.2.1',
  });
  expect(readProxyHeader(proxyV2({ address: '2001:db8::1', port: 1 }))).toEqual({
    kind: 'header',
    length: 52,
    source: '2001:db8::1',
  });
  expect(readProxyHeader(proxyV2({ address: '::ffff:192.0.2.1', port: 1 }))).toMatchObject({
    source: '192.0.2.1',
  });
  const local = proxyV2({ address: '192.0.2.1', port: 1, command: 0 });
  expect(readProxyHeader(local)).toEqual({ kind: 'header', length: 28, source: undefined });
  const unspecified = proxyV2({ body: Buffer.alloc(0), family: 0x00 });
  expect(readProxyHeader(unspecified)).toEqual({ kind: 'header', length: 16, source: undefined });
  const unix = proxyV2({ body: Buffer.alloc(216), family: 0x31 });
  expect(readProxyHeader(unix)).toEqual({ kind: 'header', length: 232, source: undefined });
});

test('version 2: TLVs are left out', () => {
  const tlv = Buffer.from([0x04, 0x00, 0x02, 0xaa, 0xbb, 0x20, 0x00, 0x00]);
  expect(readProxyHeader(proxyV2({ address: '192.0.2.1', port: 1, tlv }))).toMatchObject({
    kind: 'header',
    length: 36,
    source: '192.0.2.1',
  });
});

test.each([
  ['version 1 in it', { version: 1 }],
  ['command 2', { command: 2 }],
  ['family 4', { family: 0x41 }],
  ['addresses cut short', { body: Buffer.alloc(11) }],
  ['a length over 4096', { declaredLength: 4097 }],
])('version 2: %s is invalid', (_what, parts) => {
  expect(readProxyHeader(proxyV2({ address: '192.0.2.1', port: 1, ...parts })).kind).toBe('invalid');
});

test('every proper start of a header is incomplete', () => {
  const headers = [
    Buffer.from('PROXY TCP4 192.0.2.1 198.51.100.1 56324 25\r\n'),
    proxyV2({ address: '2001:db8::1', port: 1, tlv: Buffer.from([4, 0, 1, 0]) }),
  ];
  for (const header of headers) {
    for (let length = 0; length < header.length; length += 1) {
      expect(readProxyHeader(header.subarray(0, length))).toEqual({ kind: 'incomplete' });
    }
    expect(readProxyHeader(header).kind).toBe('header');
  }
});

test('no octets make it throw', () => {
  const beginnings = fc.constantFrom(Buffer.from('PROXY '), proxyV2({ address: '192.0.2.1', port: 1 }).subarray(0, 12));
  fc.assert(
    fc.property(beginnings, fc.uint8Array({ maxLength: 120 }), (beginning, octets) => {
      const header = readProxyHeader(Buffer.concat([beginning, octets]));
      expect(['incomplete', 'invalid', 'header']).toContain(header.kind);
    }),
    { numRuns: 2000 },
  );
});
