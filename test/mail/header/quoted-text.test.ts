// Ends of quoted-strings and comments, where they are closed and where not.

import { expect, test } from 'vitest';
import {
  closingEnd,
  commentEnd,
  quotedString,
  skipComments,
  withoutQuotedPairs,
} from '../../../src/mail/header/quoted-text.ts';
import fc from '../../support/properties.ts';

test.each([
  ['"a" b', 3],
  ['""', 2],
  [String.raw`"a\"b" c`, 6],
  [String.raw`"a\\" c`, 5],
  ['"a', -1],
  [String.raw`"a\"`, -1],
  ['"a\\', -1],
])('the quoted-string of %j ends at %d', (text, end) => {
  expect(closingEnd(text, 0, '"')).toBe(end);
});

test.each([
  ['(a) b', 3],
  ['(a(b)c) d', 7],
  [String.raw`(a\)b) c`, 6],
  [String.raw`(a\(b) c`, 6],
  ['(a', -1],
  ['(a(b)', -1],
  [String.raw`(a\)`, -1],
])('the comment of %j ends at %d', (text, end) => {
  expect(commentEnd(text, 0)).toBe(end);
});

test.each([
  ['', 0],
  ['a', 0],
  [' \t\r\n a', 5],
  ['(a) (b(c)) d', 11],
  [') a', 0],
  ['\\(a) b', 0],
  [' (a) ', 5],
  [' (a', -1],
])('comments and blanks before what %j says end at %d', (text, end) => {
  expect(skipComments(text, 0)).toBe(end);
});

test('a quoted-string is read back as what was written', () => {
  fc.assert(
    fc.property(fc.string(), (text) => {
      const written = quotedString(text);
      expect(closingEnd(`${written}"`, 0, '"')).toBe(written.length);
      expect(withoutQuotedPairs(written.slice(1, -1))).toBe(text);
    }),
  );
});

test('comments that nest a hundred thousand deep are skipped', () => {
  const deep = `${'('.repeat(100_000)}${')'.repeat(100_000)}a`;
  expect(skipComments(deep, 0)).toBe(200_000);
  expect(skipComments(deep.slice(0, -2), 0)).toBe(-1);
});
