// The parameters of RFC 3461 and RFC 6533: what is read, and that whatever is read can do no harm in a report or a command.

import { expect, test } from 'vitest';
import { asciiOrcpt, envidText, isEnvid, notifies, readNotify, readOrcpt, readRet } from '../../src/mail/envelope.ts';
import fc, { anyCharacter } from '../support/properties.ts';

test('RET and NOTIFY are words in any case', () => {
  expect(['full', 'HDRS', 'BODY', '', 'FULL '].map(readRet)).toEqual(['FULL', 'HDRS', undefined, undefined, undefined]);
  expect(readNotify('never')).toBe('NEVER');
  expect(readNotify('delay,Success')).toBe('SUCCESS,DELAY');
  for (const wrong of ['', ',', 'NEVER,NEVER', 'NEVER,DELAY', 'DELAY,', 'DELAY, FAILURE', 'DELAY,'.repeat(200_000)]) {
    expect(readNotify(wrong)).toBeUndefined();
  }
  expect(notifies('SUCCESS,DELAY', 'failure')).toBe(false);
  expect(notifies('SUCCESS,DELAY', 'delay')).toBe(true);
  expect(notifies('NEVER', 'failure')).toBe(false);
});

test('ENVID stands for printable characters and blanks alone', () => {
  expect(isEnvid('a+2Bb+20c')).toBe(true);
  expect(envidText('a+2Bb+20c')).toBe('a+b c');
  for (const wrong of ['', 'a+', 'a+2', 'a+2b', 'a=b', 'a b', 'a+0Db', 'a+7F', 'a+E4', 'ä', 'a'.repeat(101)]) {
    expect(isEnvid(wrong)).toBe(false);
  }
});

test('ORCPT has a type and an address, in xtext or for utf-8 in its own form', () => {
  expect(readOrcpt('rfc822;a+40b')).toEqual({ type: 'rfc822', address: 'a@b' });
  expect(readOrcpt('UTF-8;\\x{6F22}b@c')).toEqual({ type: 'UTF-8', address: '漢b@c' });
  expect(readOrcpt('utf-8;漢@c')).toEqual({ type: 'utf-8', address: '漢@c' });
  expect(readOrcpt('utf-8;\\x{1F600}@c')).toEqual({ type: 'utf-8', address: '😀@c' });
  const wrong = ['', ';', 'rfc822', 'rfc822;', ';a@b', 'a b;c', 'rfc822;a+0Ab', 'rfc822;a\u00e4', 'rfc822;a+xx'];
  const wrongUtf8 = [
    '\\x{0A}',
    '\\x{85}',
    '\\x{D800}',
    '\\x{110000}',
    '\\x{}',
    'a\\b',
    'a+41',
    'a=b',
    '\\x{2028}',
    '\u0085',
  ];
  for (const text of [...wrong, ...wrongUtf8.map((address) => `utf-8;${address}`)]) {
    expect(`${text}: ${JSON.stringify(readOrcpt(text))}`).toBe(`${text}: undefined`);
  }
  expect(readOrcpt(`rfc822;${'a'.repeat(494)}`)).toBeUndefined();
});

test('whatever is read holds no control character, and in ASCII it means the same', () => {
  const texts = fc.oneof(
    fc.string({ unit: anyCharacter, maxLength: 60 }),
    fc
      .array(fc.constantFrom('+', '\\x{', '}', '0', 'A', 'D', '2', ';', 'ü', 'a', '@', '=', '\r', '\n'))
      .map((all) => all.join('')),
  );
  fc.assert(
    fc.property(fc.constantFrom('rfc822', 'utf-8', 'x400'), texts, (type, text) => {
      const given = `${type};${text}`;
      const read = readOrcpt(given);
      if (!read) return;
      expect(read.address).not.toMatch(/[\0-\x1f\x7f-\x9f]/);
      expect(read.address.isWellFormed()).toBe(true);
      // RFC 6533 §3: beyond ASCII every character but control characters may be in an address, a no-break space too.
      expect(given).not.toMatch(/[\0- \x7f-\x9f\u2028\u2029]/);
      const ascii = asciiOrcpt(given);
      expect(ascii).toMatch(/^[!-~]*$/);
      if (type === 'utf-8' && ascii.length <= 500) expect(readOrcpt(ascii)).toEqual(read);
    }),
    { numRuns: 2000 },
  );
});
