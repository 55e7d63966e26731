// Linear search for a text in another.

import { expect, test } from 'vitest';
import { textFinder } from '../../../src/edge/custom/find-text.ts';
import fc from '../../support/properties.ts';

test('finds what includes finds', () => {
  const letters = (maxLength: number) => fc.string({ unit: fc.constantFrom('a', 'b', '\u{1f600}'), maxLength });
  const seen = new Set<boolean>();
  fc.assert(
    fc.property(letters(6), letters(24), (wanted, text) => {
      const found = textFinder(wanted)(text);
      seen.add(found);
      expect(found).toBe(text.includes(wanted));
    }),
    { numRuns: 5000 },
  );
  expect(seen.size).toBe(2);
});

test('a text that almost fits everywhere', () => {
  const path = 'a'.repeat(262_144);
  for (const wanted of [`${'a'.repeat(4000)}b`, `b${'a'.repeat(4000)}`, `${'a'.repeat(2000)}b${'a'.repeat(2000)}`]) {
    const find = textFinder(wanted);
    expect(find(path)).toBe(false);
    expect(find(`${path}${wanted}`)).toBe(true);
  }
});

test('one search after another', () => {
  const find = textFinder('aab');
  expect([find('aaab'), find('aaa'), find('aab'), find(''), find('baab')]).toEqual([true, false, true, false, true]);
});
