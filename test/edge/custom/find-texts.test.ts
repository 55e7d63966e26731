// Linear search for many texts in another.

import { expect, test } from 'vitest';
import { textsFinder } from '../../../src/edge/custom/find-texts.ts';
import fc from '../../support/properties.ts';

async function find(wanted: readonly string[], ...texts: readonly string[]): Promise<readonly string[]> {
  const found = (await textsFinder(wanted))(texts);
  return wanted.filter((_, index) => found[index] === 1);
}

test('finds what includes finds, in any of several texts', async () => {
  const letters = (maxLength: number) => fc.string({ unit: fc.constantFrom('a', 'b', 'c', '\u{1f600}'), maxLength });
  let hits = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.uniqueArray(letters(6), { maxLength: 12 }),
      fc.array(letters(24), { maxLength: 3 }),
      async (wanted, texts) => {
        const expected = wanted.filter((one) => texts.some((text) => text.includes(one)));
        hits += expected.length;
        expect(await find(wanted, ...texts)).toEqual(expected);
      },
    ),
    { numRuns: 5000 },
  );
  expect(hits).toBeGreaterThan(1000);
});

test('texts of each other', async () => {
  const each = ['', 'a', 'aa', 'aaa', 'baa', 'ab', 'b'];
  expect(await find(each, 'baaa')).toEqual(['', 'a', 'aa', 'aaa', 'baa', 'b']);
  expect(await find(each, '')).toEqual(['']);
  expect(await find(each)).toEqual([]);
});

test('a text is not found over the end of one and the beginning of the next', async () => {
  expect(await find(['ab'], 'a', 'b')).toEqual([]);
});

test('a text that almost fits everywhere', async () => {
  const path = 'a'.repeat(262_144);
  for (const wanted of [`${'a'.repeat(4000)}b`, `b${'a'.repeat(4000)}`, `${'a'.repeat(2000)}b${'a'.repeat(2000)}`]) {
    expect(await find([wanted], path)).toEqual([]);
    expect(await find([wanted], `${path}${wanted}`)).toEqual([wanted]);
  }
});

test('one search after another', async () => {
  const search = await textsFinder(['aab']);
  expect(['aaab', 'aaa', 'aab', '', 'baab'].map((text) => search([text])[0])).toEqual([1, 0, 1, 0, 1]);
});

test('hundreds of texts that are ends of each other are found in a long text at once', async () => {
  const wanted = Array.from({ length: 800 }, (_, index) => 'a'.repeat(index + 1));
  expect(await find(wanted, 'a'.repeat(30_000))).toEqual(wanted);
});
