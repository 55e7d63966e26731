import { expect, test } from 'vitest';
import { addressLiteral, asciiDomain, splitMailbox } from '../../../src/mail/address/domain.ts';

test.each([
  ['Example.COM', 'example.com'],
  ['bücher.example', 'xn--bcher-kva.example'],
  ['_dmarc.example.com', '_dmarc.example.com'],
  [`${'a'.repeat(63)}.example`, `${'a'.repeat(63)}.example`],
])('%s is the domain %s', (given, wanted) => {
  expect(asciiDomain(given)).toBe(wanted);
});

test.each([
  '',
  '.',
  'a..b',
  'example.com.',
  '-a.example',
  'a-.example',
  `${'a'.repeat(64)}.example`,
  '192.0.2.1',
  'a b.example',
  'a_b.example',
  'K‮.example',
  `${'a.'.repeat(127)}ab`,
])('%j is no domain', (given) => {
  expect(asciiDomain(given)).toBeUndefined();
});

test.each(['/x', '\\x', '?x.test', '#x', '%2Ex', '\tx', ':80', '@x'])('bücher.example%s is no domain', (rest) => {
  expect(asciiDomain(`bücher.example${rest}`)).toBeUndefined();
});

test('a mailbox splits at its last @ outside quotation marks', () => {
  expect(splitMailbox('"a@b"')).toEqual({ localPart: '"a@b"', domain: undefined });
  expect(splitMailbox('"a\\"@b"')).toEqual({ localPart: '"a\\"@b"', domain: undefined });
  expect(splitMailbox('"a@b')).toEqual({ localPart: '"a', domain: 'b' });
  expect(splitMailbox('"a@b"@example.com')).toEqual({ localPart: '"a@b"', domain: 'example.com' });
  expect(splitMailbox('root')).toEqual({ localPart: 'root', domain: undefined });
});

test.each([
  ['[192.0.2.1]', '[192.0.2.1]'],
  ['[ipv6:2001:DB8:0::1]', '[IPv6:2001:db8::1]'],
  ['[999.0.2.1]', undefined],
  ['[127.1]', undefined],
  ['[IPv6:fe80::1%eth0]', undefined],
  ['[2001:db8::1]', undefined],
  ['[192.0.2.1', undefined],
  ['192.0.2.1', undefined],
])('%s read as an address literal is %s', (given, wanted) => {
  expect(addressLiteral(given)).toBe(wanted);
});
