// Reads and replaces ids in In-Reply-To and References.

import { expect, test } from 'vitest';
import { citedIds, oneMessageId, replaceIds } from '../../src/mail/message-ids.ts';

test('finds ids once each, the last ones of very many', () => {
  expect(citedIds(['<a@b> text <c@d>', '<a@b>\t<e@f>'])).toEqual(['<a@b>', '<c@d>', '<e@f>']);
  expect(citedIds(['<a b@c> <> < > <<x@y>'])).toEqual(['<x@y>']);
  const many = Array.from({ length: 5000 }, (_, at) => `<${at}@x>`);
  expect(citedIds([many.join('')])).toEqual(many.slice(-200));
  // Linear in what comes: no hang.
  expect(citedIds(['<'.repeat(1_000_000), `<${'a'.repeat(1_000_000)}`])).toEqual([]);
});

test('replaces whole ids and nothing else', () => {
  const by = new Map([['<a@b>', '<new@x>']]);
  expect(replaceIds('  <a@b>\t(<a@bc>) a@b <a@b><c@d>', by)).toBe('  <new@x>\t(<a@bc>) a@b <new@x><c@d>');
});

test('one id is one id', () => {
  expect([' <a@b> ', '<a@b> <c@d>', 'a@b', '<a b>', '', '<>'].map(oneMessageId)).toEqual([
    '<a@b>',
    undefined,
    undefined,
    undefined,
    undefined,
    undefined,
  ]);
});
