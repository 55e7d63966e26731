// Who the client is, and sets of addresses.

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { addressTest } from '../../src/base/address-test.ts';
import { clientOf } from '../../src/edge/client-address.ts';

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
    expect(clientOf(peer, lines, isTrusted)).toEqual({ address, forwardedFor });
  });

  test('nobody can make himself another than the proxy saw', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ maxLength: 20 }), { maxLength: 5 }), (claims) => {
        expect(clientOf('10.0.0.1', [...claims, '198.51.100.1'], isTrusted).address).toBe('198.51.100.1');
      }),
    );
  });
});
