import { describe, expect, test } from 'vitest';
import { isPortRange, parseListen, parseNetwork, parsePort } from '../../../src/app/config/addresses.ts';
import { hostPort } from '../../../src/base/net/socket-address.ts';
import { parseRelayUrl } from '../../../src/delivery/smtp/relay-url.ts';

test.each([
  ['0', 0],
  ['65534', 65_534],
  ['65535', 65_535],
  ['65536', undefined],
  ['', undefined],
  ['-1', undefined],
  ['1.0', undefined],
  ['0x10', undefined],
  [' 1', undefined],
])('port %j', (text, wanted) => {
  expect(parsePort(text)).toBe(wanted);
});

test.each([
  ['127.0.0.1:25', { host: '127.0.0.1', port: 25 }],
  ['[::1]:25', { host: '::1', port: 25 }],
  ['0.0.0.0:0', { host: '0.0.0.0', port: 0 }],
  ['::1:25', undefined],
  ['[127.0.0.1]:25', undefined],
  ['127.0.0.1:', undefined],
  [':25', undefined],
  ['127.0.0.1', undefined],
  ['127.1:25', undefined],
  ['mail.example:25', undefined],
])('listen address %j', (text, wanted) => {
  const parsed = parseListen(text);
  expect(parsed).toEqual(wanted);
  if (parsed) expect(hostPort(parsed.host, parsed.port)).toBe(text);
});

test.each([
  ['192.0.2.0/24', '192.0.2.0/24'],
  ['192.0.2.1', '192.0.2.1/32'],
  ['::1', '::1/128'],
  ['0.0.0.0/0', '0.0.0.0/0'],
  ['192.0.2.0/32', '192.0.2.0/32'],
  ['192.0.2.0/33', undefined],
  ['fe80::/128', 'fe80::/128'],
  ['fe80::/129', undefined],
  ['fe80::1%eth0', undefined],
  ['192.0.2/24', undefined],
  ['192.0.2.0/', undefined],
  ['192.0.2.0/2 ', undefined],
])('network %j', (text, wanted) => {
  expect(parseNetwork(text)).toBe(wanted);
});

test.each([
  ['1', true],
  ['0', false],
  ['1-65535', true],
  ['1-65536', false],
  ['22-22', true],
  ['23-22', false],
  ['1-2-3', false],
  ['', false],
])('range of ports %j', (text, wanted) => {
  expect(isPortRange(text)).toBe(wanted);
});

describe('URL of a next hop', () => {
  test.each([
    'smtp://',
    'smtp://:25',
    'smtp://h:0',
    'smtp://h:65536',
    'smtp://h/x',
    'smtp://h?x',
    'smtp://h#x',
    'smtp://u@h',
    'smtp://:p@h',
    'smtp://u%zz:p@h',
    'smtp://a b',
    'smtp:h',
    'http://h:25',
    'h:25',
    '',
  ])('%j is none', (text) => {
    expect(parseRelayUrl(text)).toBeUndefined();
  });

  test.each([
    ['smtp://h', { host: 'h', port: 25, implicitTls: false }],
    ['smtp://h_1.internal:1025/', { host: 'h_1.internal', port: 1025, implicitTls: false }],
    ['smtps://[2001:db8::1]', { host: '2001:db8::1', port: 465, implicitTls: true }],
    ['smtp://u:p@h:65535', { host: 'h', port: 65_535, implicitTls: false, auth: { user: 'u', password: 'p' } }],
  ])('%j', (text, wanted) => {
    expect(parseRelayUrl(text)).toEqual(wanted);
  });
});
