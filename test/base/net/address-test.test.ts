import { expect, test } from 'vitest';
import { ConfigurationError } from '../../../src/base/errors.ts';
import { addressTest, normalAddress } from '../../../src/base/net/socket-address.ts';

test.each([
  ['192.0.2.1', '192.0.2.1'],
  ['::ffff:192.0.2.1', '192.0.2.1'],
  ['2001:DB8:0:0::1', '2001:db8::1'],
  ['fe80::1%eth0', 'fe80::1'],
  // The library would take it for 192.0.2.1.
  ['::192.0.2.1', '::c000:201'],
  ['0:0::192.0.2.1', '::c000:201'],
  ['', undefined],
  ['example.com', undefined],
])('%s is %s', (address, normal) => {
  expect(normalAddress(address)).toBe(normal);
});

test.each([
  ['10.0.0.0/8', '10.255.0.1', true],
  ['10.0.0.0/8', '11.0.0.1', false],
  ['192.0.2.1', '192.0.2.1', true],
  ['192.0.2.1', '192.0.2.2', false],
  ['192.0.2.1/32', '192.0.2.2', false],
  ['2001:db8::/32', '2001:db8:1::1', true],
  ['2001:db8::/32', '2001:db9::1', false],
  ['0.0.0.0/0', '2001:db8::1', false],
  ['::/0', '192.0.2.1', false],
  ['::ffff:10.0.0.0/104', '10.1.2.3', true],
  ['10.0.0.0/8', 'nonsense', false],
])('%s holds %s: %s', (range, address, held) => {
  expect(addressTest([range])(address)).toBe(held);
  expect(addressTest(['203.0.113.9', range])(address)).toBe(held);
});

test('no ranges hold nothing', () => {
  expect(addressTest([])('127.0.0.1')).toBe(false);
});

test.each(['', '10.0.0.0/33', 'localhost', '10.0.0/8x', '10.0.0.0/'])('%j is refused as a range', (range) => {
  expect(() => addressTest([range])).toThrow(ConfigurationError);
});
