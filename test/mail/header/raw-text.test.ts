// Octets of a header field read as text (D13): what 8-bit octets inside an encoded-word mean.

import { expect, test } from 'vitest';
import { decodeRaw } from '../../../src/mail/header/charset.ts';
import { decodeWords, unfold } from '../../../src/mail/header/header-text.ts';
import { readRawText } from '../../../src/mail/header/raw-text.ts';
import fc from '../../support/properties.ts';

const options = { legacyCharset: 'windows-1252', folded: true, structured: false };

function read(octets: string, structured = false): string {
  return decodeWords(readRawText(Buffer.from(octets, 'latin1'), { ...options, structured }));
}

test.each([
  ['=?iso-8859-5?Q?\xbf=E0?=', '\u041f\u0440'],
  ['a =?utf-8?Q?\xc3\xa9?= \xe9', 'a \u00e9 \u00e9'],
  ['=?utf-8?Q?\xc3?=\r\n =?UTF-8?Q?\xa9?=', '\u00e9'],
  ['=?utf-8?Q?=C3?= =?utf-8?Q?\xa9?= =?utf-8?Q?x?=', '\u00e9x'],
  ['=?iso-8859-1?Q?\xfc <x>?=', '\u00fc <x>'],
  ['=?iso-8859-1?Q?\xfc\r\n x?=', '\u00fc x'],
  ['=?iso-8859-1?B?/\xfcA==?=', '\u00fc'],
  ['=?utf-8?q?\xff?=', '\u00ff'],
  ['=?us-ascii?q?\xc3\xa9?=', '\u00e9'],
  ['=?x-nobody?q?\xfc?=', '=?x-nobody?q?\u00fc?='],
  ['=?iso-8859-1?Q?\xfc', '=?iso-8859-1?Q?\u00fc'],
])('%j is %j', (octets, text) => {
  expect(read(octets)).toBe(text);
});

test('a word with a line break that is no fold stays for the policy to see (D11)', () => {
  expect(readRawText(Buffer.from('=?utf-8?Q?\xe9\n?=', 'latin1'), options)).toContain('\n');
});

test('among addresses no word reaches over a bracket or a quotation mark', () => {
  for (const octets of ['=?utf-8?Q?\xe9 <a@b>?=', '=?utf-8?Q?\xe9" <a@b>, "?=']) {
    expect(read(octets, true)).toBe(octets);
  }
});

test('without 8-bit octets in a word the given text stays, whatever it is', () => {
  const piece = fc.constantFrom(
    '=?',
    '?=',
    '?',
    'utf-8?q?',
    'a',
    ' ',
    '\r\n ',
    '\xe9',
    '=?utf-8?q?a?=',
    '=?koi8-r?b?8A==?=',
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 12 }), fc.boolean(), (pieces, structured) => {
      const bytes = Buffer.from(pieces.join(''), 'latin1');
      const plain = unfold(decodeRaw(bytes, 'windows-1252'));
      fc.pre(!/=\?[^?]*\?[bq]\?[^?]*[\x80-\xff]/i.test(bytes.toString('latin1').replaceAll('\r\n ', ' ')));
      expect(readRawText(bytes, { ...options, structured })).toBe(plain);
    }),
    { numRuns: 2000 },
  );
});

test.each(['=?utf-8?q?\xe9?= ', '=?utf-8?q?\xe9', '=?', '\xe9=?', '=?a?q?\xe9?=', '=?koi8-r?q?\xe9?=\r\n '])(
  'a mebibyte of %j is read in linear time',
  (unit) => {
    expect(typeof read(unit.repeat(Math.floor(1_048_576 / unit.length)))).toBe('string');
  },
);
