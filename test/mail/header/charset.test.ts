import iconv from 'iconv-lite';
import { expect, test } from 'vitest';
import { charsetDecoder, decodeRaw } from '../../../src/mail/header/charset.ts';

test('every charset that iconv-lite lists decodes any octets without throwing', () => {
  expect(iconv.encodingExists('utf8')).toBe(true);
  const names = Object.keys(iconv.encodings ?? {}).filter((name) => /^[a-z0-9]+$/.test(name));
  expect(names.length).toBeGreaterThan(300);
  const octets = Buffer.from(Array.from({ length: 256 }, (_, octet) => octet));
  for (const name of names) {
    const decoder = charsetDecoder(name);
    if (['hex', 'base64', 'binary'].includes(name)) expect(decoder).toBeUndefined();
    else expect(typeof decoder?.(octets), name).toBe('string');
  }
});

test.each([
  ['iso-2022-jp', '1b2442467c1b2842', '日'],
  ['csISO2022JP', '1b2442467c1b2842', '日'],
  ['x-euc-jp', 'c6fc', '日'],
  ['x-cp1251', 'cf', 'П'],
  ['koi8', 'f0', 'П'],
  ['x-mac-cyrillic', '8f', 'П'],
  ['dos-874', 'a1', 'ก'],
  ['ISO-8859-8-I', 'e0', 'א'],
  ['iso-2022-jp-ms', '1b2442467c1b2842', '日'],
  ['cp50221', '1b2442467c1b2842', '日'],
  ['UTF8', 'c3a9', 'é'],
  ['iso_8859-1:1987', 'e9', 'é'],
])('%s', (charset, octets, text) => {
  expect(charsetDecoder(charset)?.(Buffer.from(octets, 'hex'))).toBe(text);
});

test.each([
  '',
  'x-klingon',
  'constructor',
  '__proto__',
  'toString',
  'hex',
  'base64',
  'binary',
  'u'.repeat(41),
  '_internal',
])('nobody knows %j', (charset) => {
  expect(charsetDecoder(charset)).toBeUndefined();
});

test('made-up names neither fill a cache that real ones need nor cost an exception each', () => {
  for (let index = 0; index < 20_000; index += 1) expect(charsetDecoder(`made-up-${index}`) === undefined).toBe(true);
  expect(charsetDecoder('windows-1253')?.(Buffer.from([0xe1]))).toBe('α');
});

test.each([
  ['at the end', 'f\xc3\xbcr M\xc3\xa4\xe2\x82', 'für Mä'],
  ['in the middle', 'f\xc3\xbcr M\xc3" (x)', 'für M" (x)'],
  ['after its first octet', 'f\xc3\xbcr \xf0', 'für '],
  ['after its third octet', 'f\xc3\xbcr \xf0\x9f\x98', 'für '],
])('UTF-8 that was cut inside one character %s keeps all but that one', (_, octets, wanted) => {
  const bytes = Buffer.from(octets, 'latin1');
  expect(decodeRaw(bytes, 'windows-1252')).toBe(wanted);
});

test.each([
  ['nothing else outside ASCII', 'M\xc3'],
  ['two cut characters', 'f\xc3\xbcr M\xc3 M\xc3'],
  ['an octet that begins no character', 'f\xc3\xbcr M\xff'],
  ['an octet that only goes on', 'f\xc3\xbcr M\x80'],
])('is in the legacy charset: %s', (_, octets) => {
  const bytes = Buffer.from(octets, 'latin1');
  expect(decodeRaw(bytes, 'iso-8859-1')).toBe(octets);
});
