// Block and allow lists: boundaries of networks, both families, and another implementation to compare with.

import { BlockList } from 'node:net';
import { expect, test } from 'vitest';
import { addressTest } from '../../../src/base/net/socket-address.ts';
import { readFirewall } from '../../../src/proxy/traffic/listener.ts';
import fc from '../../support/properties.ts';

test('a network holds its first and its last address, and neither neighbour', () => {
  const isIn = addressTest(['192.0.2.64/26', '2001:db8:0:8000::/49', '203.0.113.9']);
  expect(['192.0.2.63', '192.0.2.64', '192.0.2.127', '192.0.2.128'].map(isIn)).toEqual([false, true, true, false]);
  expect(
    ['2001:db8:0:7fff:ffff::', '2001:db8:0:8000::', '2001:db8:0:ffff:ffff:ffff:ffff:ffff', '2001:db8:1::'].map(isIn),
  ).toEqual([false, true, true, false]);
  expect(['203.0.113.8', '203.0.113.9', '203.0.113.10'].map(isIn)).toEqual([false, true, false]);
});

test('an IPv4 address inside IPv6 is that IPv4 address, in the list and when asked', () => {
  expect(addressTest(['192.0.2.0/24'])('::ffff:192.0.2.9')).toBe(true);
  expect(addressTest(['::ffff:192.0.2.0/120'])('192.0.2.9')).toBe(true);
  expect(addressTest(['::ffff:192.0.2.0/90'])('192.0.2.9')).toBe(false);
  expect(addressTest(['192.0.2.0/24'])('::192.0.2.9')).toBe(false);
  expect(addressTest(['::/0'])('192.0.2.9')).toBe(false);
  expect(addressTest(['0.0.0.0/0'])('2001:db8::1')).toBe(false);
});

test('block wins over allow; an empty allow list allows everybody', () => {
  const refuses = readFirewall({ block: ['192.0.2.7'], allow: ['192.0.2.0/24', 'fe80::/10'] });
  expect(refuses('192.0.2.7')).toBe('blocked by the zone');
  expect(refuses('192.0.2.8')).toBeUndefined();
  expect(refuses('fe80::1%eth0')).toBeUndefined();
  expect(refuses('198.51.100.1')).toBe("not on the zone's allow list");
  expect(refuses('no address')).toBe("not on the zone's allow list");
  expect(readFirewall({ block: [], allow: [] })('198.51.100.1')).toBeUndefined();
});

test('what is no network is refused by name', () => {
  for (const wrong of [
    '',
    '192.0.2',
    '192.0.2.0/33',
    '2001:db8::/129',
    '::ffff:192.0.2.0/129',
    '192.0.2.0/',
    '010.0.0.1',
    'example.com',
  ]) {
    expect(() => addressTest([wrong])).toThrow(`Not an address range: "${wrong}"`);
  }
});

test("the answers are those of the platform's own list", () => {
  const network = fc.oneof(
    fc.tuple(fc.ipV4(), fc.integer({ min: 0, max: 32 }), fc.constant('ipv4' as const)),
    fc.tuple(fc.ipV6(), fc.integer({ min: 0, max: 128 }), fc.constant('ipv6' as const)),
  );
  fc.assert(
    fc.property(fc.array(network, { maxLength: 20 }), fc.array(network, { maxLength: 20 }), (networks, asked) => {
      // One for each family: the platform's takes every IPv4 address for one of IPv6 as well, ours on purpose does not.
      const others = { ipv4: new BlockList(), ipv6: new BlockList() };
      for (const [address, bits, family] of networks) others[family].addSubnet(address, bits, family);
      const isIn = addressTest(networks.map(([address, bits]) => `${address}/${bits}`));
      for (const [address, , family] of [...networks, ...asked]) {
        expect(isIn(address)).toBe(others[family].check(address, family));
      }
    }),
  );
});
