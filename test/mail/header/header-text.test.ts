import iconv from 'iconv-lite';
import { expect, test } from 'vitest';
import { charsetDecoder, decodeRaw } from '../../../src/mail/header/charset.ts';
import { decodeWords, trimBlanks, unfold } from '../../../src/mail/header/header-text.ts';
import fc from '../../support/properties.ts';

test.each([
  ['a\r\n b', 'a b'],
  ['a\r\n\t b\r\n c', 'a\t b c'],
  ['a\r\nb', 'a\r\nb'],
  ['a\r\n', 'a\r\n'],
  ['a\r\r\n b', 'a\r b'],
  ['a\n b', 'a\n b'],
])('%j unfolds to %j', (folded, text) => {
  expect(unfold(folded)).toBe(text);
});

test.each([
  [' \ta b\t ', 'a b'],
  ['\u00a0a\u00a0', '\u00a0a\u00a0'],
  ['\u2003a\ufeff', '\u2003a\ufeff'],
  [' \t ', ''],
  ['', ''],
])('%j is trimmed of SP and TAB to %j', (text, trimmed) => {
  expect(trimBlanks(text)).toBe(trimmed);
});

// RFC 2047 §8's own examples.
test.each([
  ['=?ISO-8859-1?Q?a?=', 'a'],
  ['=?ISO-8859-1?Q?a?= b', 'a b'],
  ['=?ISO-8859-1?Q?a?= =?ISO-8859-1?Q?b?=', 'ab'],
  ['=?ISO-8859-1?Q?a?=  =?ISO-8859-1?Q?b?=', 'ab'],
  ['=?ISO-8859-1?Q?a_b?=', 'a b'],
  ['=?ISO-8859-1?Q?a?= =?ISO-8859-2?Q?_b?=', 'a b'],
  ['=?US-ASCII?Q?Keith_Moore?= <moore@cs.utk.edu>', 'Keith Moore <moore@cs.utk.edu>'],
  ['=?ISO-8859-1?Q?Keld_J=F8rn_Simonsen?=', 'Keld J\u00f8rn Simonsen'],
  ['=?ISO-8859-1?B?SWYgeW91IGNhbiByZWFkIHRoaXMgeW8=?=', 'If you can read this yo'],
  ['=?ISO-8859-8?b?7eXs+SDv4SDp7Oj08A==?=', '\u05dd\u05d5\u05dc\u05e9 \u05df\u05d1 \u05d9\u05dc\u05d8\u05e4\u05e0'],
])('RFC 2047: %s', (text, decoded) => {
  expect(decodeWords(text)).toBe(decoded);
});

test.each([
  ['a multibyte character split between words', '=?utf-8?Q?caf=C3?= =?UTF-8?Q?=A9?=', 'caf\u00e9'],
  ['split between B and Q', '=?utf-8?B?Y2Fmww==?= =?utf-8?Q?=A9?=', 'caf\u00e9'],
  ['a language (RFC 2231 §5)', '=?us-ascii*en-us?q?hi_there?=', 'hi there'],
  ['words split by a tab', '=?utf-8?q?a?=\t=?utf-8?q?b?=', 'ab'],
  ['iso-2022-jp', '=?ISO-2022-JP?B?GyRCRnxLXDhsGyhC?=', '\u65e5\u672c\u8a9e'],
  ['iso-2022-jp in two words', '=?iso-2022-jp?B?GyRCRnwbKEI=?= =?iso-2022-jp?B?GyRCS1wbKEI=?=', '\u65e5\u672c'],
  ['iso-2022-jp-3 (encoding-japanese)', '=?iso-2022-jp-3?B?GyRCRnxLXBsoQg==?=', '\u65e5\u672c'],
  ['gb18030', '=?gb18030?B?1tDOxA==?=', '\u4e2d\u6587'],
  ['euc-kr', '=?EUC-KR?B?x9Gx5g==?=', '\ud55c\uae38'],
  ['ks_c_5601-1987', '=?ks_c_5601-1987?B?x9Gx5g==?=', '\ud55c\uae38'],
  ['koi8-r', '=?koi8-r?Q?=F0=D2=C9=D7=C5=D4?=', '\u041f\u0440\u0438\u0432\u0435\u0442'],
  ['shift_jis', '=?Shift_JIS?B?k/qWew==?=', '\u65e5\u672c'],
  ['windows-1252', '=?windows-1252?Q?=80_=93x=94?=', '\u20ac \u201cx\u201d'],
  ['big5', '=?big5?B?pKSk5Q==?=', '\u4e2d\u6587'],
  ['an unknown charset stays', '=?x-klingon?Q?a?= b', '=?x-klingon?Q?a?= b'],
  ['an unknown charset beside a known one', '=?utf-8?q?a?= =?x-klingon?q?b?= =?utf-8?q?c?=', 'a =?x-klingon?q?b?= c'],
  [
    'octet encodings are no charsets',
    '=?hex?q?a?= =?base64?q?a?= =?binary?q?a?=',
    '=?hex?q?a?= =?base64?q?a?= =?binary?q?a?=',
  ],
  ['names of object members are no charsets', '=?constructor?q?a?=', '=?constructor?q?a?='],
  ['an unknown encoding stays', '=?utf-8?X?a?=', '=?utf-8?X?a?='],
  ['a word that is never closed stays', '=?utf-8?q?abc', '=?utf-8?q?abc'],
  ['a word of nothing', '=?utf-8?q??=', ''],
  ['blanks inside, as mailers write them', '=?utf-8?Q?Hello World?=', 'Hello World'],
  ['inside other text', 'a=?utf-8?q?b?=c', 'abc'],
  ['a lone equals sign in Q', '=?utf-8?q?1=1=zz=3D?=', '1=1=zz='],
  ['lower-case hex', '=?utf-8?q?=c3=a9?=', '\u00e9'],
  ['raw 8-bit text in a word stays', '=?utf-8?q?\u00e9?=', '=?utf-8?q?\u00e9?='],
  ['no word at all', 'plain = ? text', 'plain = ? text'],
  ['a word right behind an opening that is none', '=?=?utf-8?q?a?=', '=?a'],
])('%s', (_, text, decoded) => {
  expect(decodeWords(text)).toBe(decoded);
});

test('a decoder keeps nothing from call to call', () => {
  expect(decodeWords('=?iso-2022-jp?B?GyRCRg==?=')).toContain('\ufffd');
  expect(decodeWords('=?iso-2022-jp?q?plain?=')).toBe('plain');
});

test.each([
  ['ASCII', Buffer.from('abc'), 'abc'],
  ['UTF-8', Buffer.from('caf\u00e9'), 'caf\u00e9'],
  ['the legacy charset', Buffer.from([0x63, 0x80, 0xe9]), 'c\u20ac\u00e9'],
])('raw octets are read as %s', (_, bytes, text) => {
  expect(decodeRaw(bytes, 'windows-1252')).toBe(text);
});

test('raw octets of an unknown legacy charset are one character each', () => {
  expect(decodeRaw(Buffer.from([0x63, 0xe9]), 'x-klingon')).toBe('c\u00e9');
});

const charsets = ['utf-8', 'iso-8859-15', 'windows-1251', 'koi8-u', 'gb18030', 'euc-jp', 'shift_jis', 'utf-16be'];

test('text comes back from words of any charset, cut at any octet', () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...charsets),
      fc.string({ unit: 'grapheme', maxLength: 20 }),
      fc.nat(30),
      (charset, given, cut) => {
        const bytes = iconv.encode(given, charset);
        // What the charset cannot say is not wanted back.
        const text = iconv.decode(bytes, charset);
        const word = (part: Buffer) => `=?${charset}?B?${part.toString('base64')}?=`;
        const words = [word(bytes.subarray(0, cut)), word(bytes.subarray(cut))].join(' ');
        expect(decodeWords(words)).toBe(text);
      },
    ),
  );
});

test('decoding never throws and keeps text without words', () => {
  const pieces = fc.array(
    fc.constantFrom(
      '=?',
      '?=',
      '?',
      '=',
      'utf-8',
      'iso-2022-jp',
      'utf-7',
      'utf-16',
      '*',
      'q',
      'B',
      ' ',
      '\t',
      '=ZZ',
      '\u00e9',
      '\ud800',
    ),
    { maxLength: 30 },
  );
  fc.assert(
    fc.property(pieces, (parts) => {
      const text = parts.join('');
      expect(typeof decodeWords(text)).toBe('string');
      if (!text.includes('=?')) expect(decodeWords(text)).toBe(text);
    }),
    { numRuns: 2000 },
  );
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 60 }), fc.string({ maxLength: 45 }), (bytes, charset) => {
      expect(typeof decodeRaw(Buffer.from(bytes), charset)).toBe('string');
      expect(typeof (charsetDecoder(charset)?.(Buffer.from(bytes)) ?? '')).toBe('string');
    }),
  );
});

test.each(['=?', '=?=?=?', '=?a?q?', '=?utf-8?q?', '=?utf-8?q?a?=', '=?utf-8*', ' ', '=?x?q?a?= ', '=?utf-7?q?+?= '])(
  'a mebibyte of %j is decoded in linear time',
  (unit) => {
    const text = unit.repeat(Math.floor(1_048_576 / unit.length));
    expect(decodeWords(text).length).toBeLessThanOrEqual(text.length);
  },
);

test('a mebibyte of folds and blanks is unfolded and trimmed in linear time', () => {
  expect(trimBlanks(unfold('\r\n '.repeat(350_000)))).toBe('');
  expect(unfold('\r\n'.repeat(500_000)).length).toBe(1_000_000);
});
