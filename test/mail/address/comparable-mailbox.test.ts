// All spellings of a mailbox come to one (D51).

import { expect, test } from 'vitest';
import { comparableMailbox, readComparable } from '../../../src/mail/address/path.ts';
import fc from '../../support/properties.ts';

test.each([
  ['a@example.net', 'a@example.net'],
  ['A.B+c@Example.NET', 'a.b+c@example.net'],
  ['a@bücher.example', 'a@xn--bcher-kva.example'],
  ['a@BÜCHER.example', 'a@xn--bcher-kva.example'],
  ['a@XN--BCHER-KVA.example', 'a@xn--bcher-kva.example'],
  ['Jürgen@example.net', 'jürgen@example.net'],
  ['JU\u0308RGEN@example.net', 'jürgen@example.net'],
  ['"a"@example.net', 'a@example.net'],
  ['"\\a"@example.net', 'a@example.net'],
  ['"A b"@example.net', '"a b"@example.net'],
  ['"a@b"@example.net', '"a@b"@example.net'],
  ['"a\\"b\\\\"@example.net', '"a\\"b\\\\"@example.net'],
  ['""@example.net', '""@example.net'],
  ['"@example.net', '"@example.net'],
  ['a@[192.0.2.1]', 'a@[192.0.2.1]'],
  ['a@[IPv6:2001:DB8::1]', 'a@[ipv6:2001:db8::1]'],
  ['Postmaster', 'postmaster'],
  ['', ''],
])('%j is kept as %j', (mailbox, wanted) => {
  expect(comparableMailbox(mailbox)).toBe(wanted);
  expect(comparableMailbox(wanted)).toBe(wanted);
});

test('a quoted local part and a plain one are the same, whatever the case', () => {
  const character = fc.constantFrom(...'abcXYZ019!#$%&*+-/=?^_`{|}~.é'.split(''));
  fc.assert(
    fc.property(fc.array(character, { minLength: 1, maxLength: 20 }), (characters) => {
      const local = characters.join('');
      const plain = comparableMailbox(`${local}@example.net`);
      const escaped = characters.map((one) => `\\${one}`).join('');
      for (const spelling of [local.toUpperCase(), `"${local}"`, `"${escaped}"`]) {
        expect(comparableMailbox(`${spelling}@EXAMPLE.net`)).toBe(plain);
      }
    }),
  );
});

test.each([
  ['A@Bücher.example', 'a@xn--bcher-kva.example'],
  ['"a b"@example.net', '"a b"@example.net'],
  ['a@[192.0.2.1]', 'a@[192.0.2.1]'],
  [`${'l'.repeat(242)}@example.net`, `${'l'.repeat(242)}@example.net`],
  [`${'l'.repeat(243)}@example.net`, undefined],
  ['a', undefined],
  ['', undefined],
  ['@example.net', undefined],
  ['a@', undefined],
  ['a@b..c', undefined],
  ['a@-b.example', undefined],
  ['<a@example.net>', undefined],
  ['@relay.example:a@example.net', undefined],
  ['A <a@example.net>', undefined],
  ['a@example.net ', undefined],
  ['a@example.net SIZE=1', undefined],
  [' a@example.net', undefined],
  ['a@example.net,b@example.net', undefined],
  ['a\r\n@example.net', undefined],
  ['a\ud800@example.net', undefined],
])('%j is the address %j', (text, wanted) => {
  expect(readComparable(text)).toBe(wanted);
});
