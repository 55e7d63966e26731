import { expect, test } from 'vitest';
import { readPath } from '../../../src/mail/address/path.ts';

test.each([
  ['<a@example.com>', 'a@example.com', 'example.com'],
  ['a@Example.COM', 'a@example.com', 'example.com'],
  ['<A.b+c@example.com>', 'A.b+c@example.com', 'example.com'],
  ['<>', '', undefined],
  ['<postmaster>', 'postmaster', undefined],
  ['root', 'root', undefined],
  ['<"a b"@example.com>', '"a b"@example.com', 'example.com'],
  ['<"a\\"@b"@example.com>', '"a\\"@b"@example.com', 'example.com'],
  ['"a b"@example.com', '"a b"@example.com', 'example.com'],
  ['<""@example.com>', '""@example.com', 'example.com'],
  ['<@one.example:a@example.com>', 'a@example.com', 'example.com'],
  ['<@one.example,@two.example:a@example.com>', 'a@example.com', 'example.com'],
  ['<a@[192.0.2.1]>', 'a@[192.0.2.1]', '[192.0.2.1]'],
  ['<a@[IPV6:2001:DB8:0:0::1]>', 'a@[IPv6:2001:db8::1]', '[IPv6:2001:db8::1]'],
  ['<ä@bücher.example>', 'ä@xn--bcher-kva.example', 'xn--bcher-kva.example'],
  ['<漢@example.com>', '漢@example.com', 'example.com'],
  ['<..a..@example.com>', '..a..@example.com', 'example.com'],
])('%s', (text, mailbox, domain) => {
  expect(readPath(text, 0)).toEqual({ mailbox, domain, end: text.length });
});

test('a path ends before a blank, and what follows is left', () => {
  expect(readPath('MAIL FROM:<a@example.com> SIZE=1', 10)?.end).toBe(25);
  expect(readPath('a@example.com SIZE=1', 0)?.end).toBe(13);
  expect(readPath('<> SIZE=1', 0)?.end).toBe(2);
});

test.each([
  '',
  '<',
  '<a',
  '<a@example.com',
  'a@example.com>',
  '<a@example.com>x',
  '<>x',
  '< >',
  '<@example.com>',
  '<a@>',
  '<a@b c>',
  '<a b@example.com>',
  '<a@b@example.com>',
  '<"a@example.com>',
  '<"a\\',
  '<"a\u0001"@example.com>',
  '<"a\\\u0001"@example.com>',
  '<a\u0001@example.com>',
  '<a\u0085@example.com>',
  '<a@192.0.2.1>',
  '<a@[192.0.2.256]>',
  '<a@[IPv6:::g]>',
  '<a@[IPv6:fe80::1%eth0]>',
  '<a@[192.0.2.1>',
  '<a@[tag:x]>',
  '<@one.example a@example.com>',
  '<@one.example>',
  '<@:a@example.com>',
  '<a@example.com.>',
])('%j is no path', (text) => {
  expect(readPath(text, 0)).toBeUndefined();
});

function pathOf(length: number): string {
  return `<${'a'.repeat(length - 14)}@example.com>`;
}

test('a path has at most 256 octets with its brackets', () => {
  expect(pathOf(256)).toHaveLength(256);
  expect(readPath(pathOf(255), 0)).toBeDefined();
  expect(readPath(pathOf(256), 0)).toBeDefined();
  expect(readPath(pathOf(257), 0)).toBeUndefined();
  // Octets count, not characters.
  expect(readPath(`<${'ä'.repeat(121)}@example.com>`, 0)).toBeDefined();
  expect(readPath(`<${'ä'.repeat(122)}@example.com>`, 0)).toBeUndefined();
});
