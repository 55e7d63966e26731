// Boundaries of the texts in an application: protocols, ports, origins, addresses, domain names.

import { isIP } from 'node:net';
import { describe, expect, test } from 'vitest';
import {
  configuredPorts,
  formatPorts,
  joinRanges,
  parsePorts,
  within,
  without,
} from '../../../src/proxy/application/port-ranges.ts';
import {
  canonicalAddress,
  got,
  isInNetworks,
  joinReasons,
  parseDomainName,
  parseOrigin,
  parseProtocol,
  quote,
} from '../../../src/proxy/application/texts.ts';
import fc from '../../support/properties.ts';

const range = fc.tuple(fc.integer({ min: 1, max: 300 }), fc.integer({ min: 0, max: 40 })).map(([first, more]) => ({
  first,
  last: first + more,
}));

describe('ports', () => {
  test.each([
    ['1', 1, 1],
    ['65535', 65_535, 65_535],
    ['1-2', 1, 2],
    ['1-65535', 1, 65_535],
    ['65534-65535', 65_534, 65_535],
  ])('%s', (text, first, last) => {
    expect(parsePorts(text)).toEqual({ first, last });
    expect(formatPorts({ first, last })).toBe(text);
  });

  test.each([
    '',
    '0',
    '00',
    '01',
    '65536',
    '99999',
    '100000',
    '-1',
    '1-',
    '1-1',
    '2-1',
    '0-1',
    '1-65536',
    '1-2-3',
    ' 1',
    '1 ',
    '1e3',
    '+1',
    '1.0',
    '１',
  ])('%j is none', (text) => {
    expect(parsePorts(text)).toBeUndefined();
  });

  test('what a configuration may write', () => {
    expect([22, '22', '22-22', '1-65535'].map(configuredPorts)).toEqual([
      { first: 22, last: 22 },
      { first: 22, last: 22 },
      { first: 22, last: 22 },
      { first: 1, last: 65_535 },
    ]);
  });

  test('within and without part a range in two, and say the same as port by port', () => {
    fc.assert(
      fc.property(range, fc.array(range, { maxLength: 8 }), (one, others) => {
        const inside: number[] = [];
        const outside: number[] = [];
        for (let port = one.first; port <= one.last; port += 1) {
          const isIn = others.some(({ first, last }) => first <= port && port <= last);
          (isIn ? inside : outside).push(port);
        }
        const ports = (ranges: readonly { first: number; last: number }[]): number[] =>
          ranges.flatMap(({ first, last }) => Array.from({ length: last - first + 1 }, (_, index) => first + index));
        expect(ports(within(one, others))).toEqual(inside);
        expect(ports(without(one, others))).toEqual(outside);
        expect(joinRanges(without(one, others))).toEqual(without(one, others));
      }),
    );
  });
});

describe('protocols', () => {
  test.each([
    ['tcp/1', 'tcp/1', 'tcp', 1, 1, false],
    ['tcp/65535', 'tcp/65535', 'tcp', 65_535, 65_535, false],
    ['udp/53', 'udp/53', 'udp', 53, 53, false],
    ['tcp/1000-2000', 'tcp/1000-2000', 'tcp', 1000, 2000, false],
    ['tcp/21', 'tcp/21', 'tcp', 21, 21, false],
    ['ftp', 'ftp', 'tcp', 21, 21, true],
    ['ftp/21', 'ftp', 'tcp', 21, 21, true],
  ])('%s', (text, canonical, transport, first, last, isFtp) => {
    expect(parseProtocol(text)).toEqual({ canonical, transport, ports: { first, last }, isFtp });
  });

  test.each([
    '',
    'tcp',
    'tcp/',
    'tcp/0',
    'tcp/65536',
    'tcp/022',
    'tcp/2-1',
    'tcp/2-2',
    'TCP/22',
    'tcp/22/',
    ' tcp/22',
    'tcp:22',
    'ftp/22',
    'ftp/20-21',
    'FTP',
    'http',
    'icmp/1',
  ])('%j is none', (text) => {
    expect(parseProtocol(text)).toBeUndefined();
  });
});

describe('origins', () => {
  test.each([
    ['tcp://192.0.2.1:22', 'tcp', '192.0.2.1', 22, 22],
    ['udp://[::1]:53', 'udp', '::1', 53, 53],
    ['tcp://[2001:0DB8::0001]:1-65535', 'tcp', '2001:db8::1', 1, 65_535],
    ['tcp://[::ffff:192.0.2.1]:22', 'tcp', '192.0.2.1', 22, 22],
    ['tcp://[::ffff:c000:201]:22', 'tcp', '192.0.2.1', 22, 22],
    ['tcp://0.0.0.0:65535', 'tcp', '0.0.0.0', 65_535, 65_535],
  ])('%s', (text, transport, address, first, last) => {
    expect(parseOrigin(text)).toEqual({ transport, address, ports: { first, last } });
  });

  test.each([
    ['', 'scheme'],
    ['192.0.2.1:22', 'scheme'],
    ['TCP://192.0.2.1:22', 'scheme'],
    ['tcp:/192.0.2.1:22', 'scheme'],
    ['tcp://', 'address'],
    ['tcp://:22', 'address'],
    ['tcp://[]:22', 'address'],
    ['tcp://[192.0.2.1:22', 'address'],
    ['tcp://192.0.2.1]:22', 'address'],
    ['tcp://origin.example.com:22', 'address'],
    ['tcp://user@192.0.2.1:22', 'address'],
    ['tcp://192.0.2.01:22', 'address'],
    ['tcp://192.0.2:22', 'address'],
    ['tcp://3221225985:22', 'address'],
    ['tcp://0xc0.0.2.1:22', 'address'],
    ['tcp://192.0.2.256:22', 'address'],
    ['tcp://[fe80::1%eth0]:22', 'address'],
    ['tcp://[fe80::1%25eth0]:22', 'address'],
    ['tcp://[[::1]]:22', 'address'],
    ['tcp://::1:22', 'brackets'],
    ['tcp://::1', 'brackets'],
    ['tcp://1:2:3:4:5:6:7:8', 'brackets'],
    ['tcp://1:2:3:4:5:6:7:8:22', 'brackets'],
    ['tcp://2001:db8::1:99999', 'brackets'],
    ['tcp://[192.0.2.1]:22', 'bracketed-ipv4'],
    ['tcp://[::1]', 'port'],
    ['tcp://[::1]:', 'port'],
    ['tcp://[::1]:0', 'port'],
    ['tcp://[::1]:65536', 'port'],
    ['tcp://192.0.2.1', 'port'],
    ['tcp://192.0.2.1:', 'port'],
    ['tcp://192.0.2.1:022', 'port'],
    ['tcp://192.0.2.1:2-1', 'port'],
    ['tcp://192.0.2.1:2-2', 'port'],
    ['tcp://192.0.2.1:22/', 'port'],
    ['tcp://192.0.2.1:22?', 'port'],
  ])('%j has a flaw: %s', (text, flaw) => {
    expect(parseOrigin(text)).toBe(flaw);
  });

  test('every address and port is read as it is', () => {
    const address = fc.oneof(fc.ipV4(), fc.ipV6());
    fc.assert(
      fc.property(address, fc.integer({ min: 1, max: 65_535 }), (address, port) => {
        const host = isIP(address) === 6 ? `[${address}]` : address;
        const wanted = { transport: 'tcp', address: canonicalAddress(address), ports: { first: port, last: port } };
        expect(parseOrigin(`tcp://${host}:${port}`)).toEqual(wanted);
        if (isIP(address) === 6) expect(typeof parseOrigin(`tcp://${address}:${port}`)).toBe('string');
      }),
    );
  });
});

describe('addresses', () => {
  test('one spelling each, which is its own spelling', () => {
    fc.assert(
      fc.property(fc.oneof(fc.ipV4(), fc.ipV6()), (text) => {
        const canonical = canonicalAddress(text);
        expect(canonical).toBeDefined();
        expect(canonicalAddress(canonical ?? '')).toBe(canonical);
        expect(canonicalAddress(text.toUpperCase())).toBe(canonical);
        expect(isInNetworks(text, [canonical ?? ''])).toBe(true);
      }),
    );
  });

  test.each([
    ['::192.0.2.1', '::c000:201'],
    ['0:0:0:0:0:0:192.0.2.1', '::c000:201'],
    ['::0.0.0.0', '::'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['2001:DB8:0:0:1:0:0:1', '2001:db8::1:0:0:1'],
  ])('%s is %s', (text, canonical) => {
    expect(canonicalAddress(text)).toBe(canonical);
  });

  test.each([
    ['::192.0.2.1', ['192.0.2.0/24'], false],
    ['10.0.0.0', ['10.0.0.0/24'], true],
    ['10.0.0.255', ['10.0.0.0/24'], true],
    ['10.0.1.0', ['10.0.0.0/24'], false],
    ['9.255.255.255', ['10.0.0.0/24'], false],
    ['::ffff:10.0.0.1', ['10.0.0.0/24'], true],
    ['10.0.0.1', ['::ffff:10.0.0.0/120'], true],
    ['10.0.1.1', ['::ffff:10.0.0.0/120'], false],
    ['10.0.0.1', ['::/0'], false],
    ['2001:db8::1', ['0.0.0.0/0'], false],
    ['2001:db8::1', ['2001:DB8::/32'], true],
    ['2001:db9::1', ['2001:db8::/32'], false],
    ['192.0.2.1', ['192.0.2.1'], true],
    ['192.0.2.2', ['192.0.2.1'], false],
    ['::1', ['::1'], true],
    ['192.0.2.1', [], false],
    ['192.0.2.1', ['10.0.0.0/8', '192.0.2.0/31'], true],
    ['origin', ['0.0.0.0/0', '::/0'], false],
    ['fe80::1%eth0', ['fe80::/10'], false],
  ])('%s in %j: %s', (address, networks, isIn) => {
    expect(isInNetworks(address, networks)).toBe(isIn);
  });
});

describe('domain names', () => {
  const of253 = `${`${'a'.repeat(49)}.`.repeat(5)}abc`;

  test.each([
    ['example.com', 'example.com'],
    ['EXAMPLE.Com', 'example.com'],
    ['a', 'a'],
    ['localhost', 'localhost'],
    ['_ssh._tcp.example.com', '_ssh._tcp.example.com'],
    ['1.example.com', '1.example.com'],
    ['a--b.example.com', 'a--b.example.com'],
    ['xn--bcher-kva.example', 'xn--bcher-kva.example'],
    ['1a', '1a'],
    ['127.0.0.1.example.com', '127.0.0.1.example.com'],
    [`${'a'.repeat(63)}.b`, `${'a'.repeat(63)}.b`],
    [`_${'a'.repeat(62)}.b`, `_${'a'.repeat(62)}.b`],
    [of253, of253],
  ])('%s', (text, name) => {
    expect(parseDomainName(text)).toBe(name);
  });

  test.each([
    '',
    '.',
    'a.',
    '.a',
    'a..b',
    '-a',
    'a-',
    'a.-b.c',
    'a.b-.c',
    '_',
    '_-a',
    '__a',
    'a_b',
    'a b',
    'a/b',
    '*.example.com',
    'bücher.example',
    '\u212Aexample.com',
    'example。com',
    '127.0.0.1',
    '127.1',
    '2130706433',
    '0x7f.1',
    'a.0x7f',
    'a.0x',
    '1.2.3.4.5',
    '::1',
    '[::1]',
    'a\u0000.b',
    `${'a'.repeat(64)}.b`,
    `_${'a'.repeat(63)}.b`,
    `${of253}d`,
    'a'.repeat(100_000),
  ])('%j is none', (text) => {
    expect(parseDomainName(text)).toBeUndefined();
  });

  test('the lengths are at their bounds', () => {
    expect(of253).toHaveLength(253);
  });
});

describe('quoting', () => {
  test('80 characters are shown, of 81 the first 80', () => {
    expect(quote('a'.repeat(80))).toBe(`"${'a'.repeat(80)}"`);
    expect(quote('a'.repeat(81))).toBe(`"${'a'.repeat(80)}..."`);
    expect(quote('"\n')).toBe(String.raw`"\"\n"`);
  });

  test('what is no text is shown by its kind', () => {
    expect([5, true, null, undefined, [], [1], {}].map(got)).toEqual([
      '5',
      'true',
      'null',
      'nothing',
      'an empty array',
      'an array',
      'an object',
    ]);
  });

  test('reasons beyond the most are counted', () => {
    expect(joinReasons(['a', 'b'], 2)).toBe('a; b');
    expect(joinReasons(['a', 'b', 'c'], 2, ', ')).toBe('a, b, and 1 more');
  });
});
