// Who the client is, and sets of addresses.

import { describe, expect, test } from 'vitest';
import { addressTest } from '../../../src/base/net/socket-address.ts';
import { clientOf, type FieldLines } from '../../../src/edge/zone/judge-request.ts';
import { heapOctetsOfEach } from '../../support/heap-octets.ts';
import fc from '../../support/properties.ts';

describe('a set of networks', () => {
  const isIn = addressTest(['192.0.2.0/24', '198.51.100.7', '2001:db8::/32', '::ffff:203.0.113.0/120', '10.1.2.3/31']);

  test.each([
    ['192.0.1.255', false],
    ['192.0.2.0', true],
    ['192.0.2.255', true],
    ['192.0.3.0', false],
    ['198.51.100.6', false],
    ['198.51.100.7', true],
    ['198.51.100.8', false],
    ['::ffff:192.0.2.1', true],
    ['::FFFF:192.0.2.1', true],
    ['2001:db7:ffff::', false],
    ['2001:DB8::1', true],
    ['2001:db8:ffff:ffff:ffff:ffff:ffff:ffff', true],
    ['2001:db9::', false],
    ['203.0.113.9', true],
    ['203.0.114.0', false],
    ['10.1.2.1', false],
    ['10.1.2.2', true],
    ['10.1.2.3', true],
    ['10.1.2.4', false],
    ['', false],
    ['unknown', false],
  ])('%s: %s', (address, wanted) => {
    expect(isIn(address)).toBe(wanted);
  });

  test('all of IPv4 or of IPv6', () => {
    expect(addressTest(['0.0.0.0/0'])('255.1.2.3')).toBe(true);
    expect(addressTest(['0.0.0.0/0'])('::1')).toBe(false);
    expect(addressTest(['::/0'])('2001:db8::1')).toBe(true);
    expect(addressTest([])('192.0.2.1')).toBe(false);
  });
});

const forwardedLines =
  (lines: readonly string[]): FieldLines =>
  (name) =>
    name === 'x-forwarded-for' ? lines : [];

describe('the client', () => {
  const isTrusted = addressTest(['10.0.0.0/8', '127.0.0.1', 'fd00::/8']);

  test.each<readonly [string, readonly string[], string, readonly string[]]>([
    ['192.0.2.1', [], '192.0.2.1', []],
    ['::ffff:192.0.2.1', [], '192.0.2.1', []],
    // What the peer says counts only where it is trusted.
    ['192.0.2.1', ['198.51.100.1'], '192.0.2.1', []],
    ['10.0.0.1', [], '10.0.0.1', []],
    ['10.0.0.1', [''], '10.0.0.1', []],
    ['10.0.0.1', ['198.51.100.1'], '198.51.100.1', ['198.51.100.1']],
    ['::ffff:10.0.0.1', ['::ffff:198.51.100.1'], '198.51.100.1', ['198.51.100.1']],
    ['fd00::1', ['2001:DB8::1'], '2001:db8::1', ['2001:db8::1']],
    // What stands left of the client it may have written itself.
    ['10.0.0.1', ['203.0.113.9, 198.51.100.1'], '198.51.100.1', ['198.51.100.1']],
    ['10.0.0.1', ['203.0.113.9', '198.51.100.1'], '198.51.100.1', ['198.51.100.1']],
    ['10.0.0.1', ['198.51.100.1 ,10.0.0.2,\t10.0.0.3'], '198.51.100.1', ['198.51.100.1', '10.0.0.2', '10.0.0.3']],
    ['10.0.0.1', ['10.0.0.2'], '10.0.0.2', ['10.0.0.2']],
    // An entry that is none ends the chain: the proxy that wrote it is all that is known.
    ['10.0.0.1', ['198.51.100.1, unknown'], '10.0.0.1', []],
    ['10.0.0.1', ['unknown, 10.0.0.2'], '10.0.0.2', ['10.0.0.2']],
    ['10.0.0.1', ['198.51.100.1,'], '10.0.0.1', []],
    ['10.0.0.1', ['fe80::1%eth0'], '10.0.0.1', []],
    ['10.0.0.1', ['198.51.100.1:4711'], '198.51.100.1', ['198.51.100.1']],
    ['10.0.0.1', ['[2001:db8::1]:4711'], '2001:db8::1', ['2001:db8::1']],
    ['10.0.0.1', ['[2001:db8::1]'], '2001:db8::1', ['2001:db8::1']],
    // One spelling for one client, whatever the proxy writes.
    ['10.0.0.1', ['2001:0DB8:0:0::0001'], '2001:db8::1', ['2001:db8::1']],
    ['10.0.0.1', ['::ffff:c633:6401'], '198.51.100.1', ['198.51.100.1']],
    ['10.0.0.1', ['0:0:0:0:0:ffff:198.51.100.1'], '198.51.100.1', ['198.51.100.1']],
    ['', ['198.51.100.1'], '', []],
  ])('peer %j, %j: %s', (peer, lines, address, forwardedFor) => {
    expect(clientOf(peer, forwardedLines(lines), isTrusted)).toEqual({ address, forwardedFor });
  });

  test('nobody can make himself another than the proxy saw', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ maxLength: 20 }), { maxLength: 5 }), (claims) => {
        expect(clientOf('10.0.0.1', forwardedLines([...claims, '198.51.100.1']), isTrusted).address).toBe(
          '198.51.100.1',
        );
      }),
    );
  });
});

describe('what a trusted proxy says of how the client came', () => {
  const isTrusted = addressTest(['10.0.0.0/8']);
  const said = (peer: string, fields: Readonly<Record<string, readonly string[]>>) => {
    const { forwardedProto, forwardedHost } = clientOf(peer, (name) => fields[name] ?? [], isTrusted);
    return [forwardedProto, forwardedHost];
  };

  test.each<readonly [string, string, Readonly<Record<string, readonly string[]>>, readonly unknown[]]>([
    ['nobody else', '192.0.2.1', { 'x-forwarded-proto': ['https'], 'x-forwarded-host': ['a.example'] }, []],
    [
      'a trusted one',
      '10.0.0.1',
      { 'x-forwarded-proto': ['HTTPS'], 'x-forwarded-host': ['a.example:8443'] },
      ['https', 'a.example:8443'],
    ],
    ['nothing', '10.0.0.1', {}, []],
    [
      'what cannot be',
      '10.0.0.1',
      { 'x-forwarded-proto': ['gopher'], 'x-forwarded-host': ['a b', 'user@a.example'] },
      [],
    ],
    // The client wrote the first of each itself: of a list the last is the peer's own.
    [
      'a list',
      '10.0.0.1',
      { 'x-forwarded-proto': ['http, https'], 'x-forwarded-host': ['evil.example', 'a.example'] },
      ['https', 'a.example'],
    ],
    // 198.51.100.1 came to 10.0.0.2 by https, and that to 10.0.0.1 by http.
    [
      'two hops that each add theirs',
      '10.0.0.1',
      { 'x-forwarded-for': ['198.51.100.1, 10.0.0.2'], 'x-forwarded-proto': ['http, https, http'] },
      ['https', undefined],
    ],
    [
      'two hops of which the first sets it',
      '10.0.0.1',
      { 'x-forwarded-for': ['198.51.100.1, 10.0.0.2'], 'x-forwarded-proto': ['https'] },
      ['https', undefined],
    ],
  ])('%s', (_, peer, fields, [proto, host]) => {
    expect(said(peer, fields)).toEqual([proto, host]);
  });
});

test('an address does not keep the field that it stood in', () => {
  const octets = heapOctetsOfEach(500, (index) => {
    const field = Buffer.from(`${'x'.repeat(30_000)}, 203.0.113.${100 + (index % 100)}`).toString('latin1');
    return clientOf('127.0.0.1', (name) => (name === 'x-forwarded-for' ? [field] : []), addressTest(['127.0.0.1']))
      .address;
  });
  expect(octets).toBeLessThan(4000);
});
