// Where a field is folded, octet by octet: 78 to a line, 76 with an encoded-word, never more than 998 (RFC 5322 §2.1.1,
// RFC 2047 §2; D12).

import { describe, expect, test } from 'vitest';
import { foldField, foldInsideBrackets, foldPieces } from '../../../src/mail/header/fold.ts';
import { unfold } from '../../../src/mail/header/header-text.ts';
import fc from '../../support/properties.ts';

const name = 'X-Test';
/** Octets of the first line before the value. */
const used = `${name}: `.length;
/** An encoded-word of 20 octets. */
const encoded = '=?utf-8?Q?Gr=C3=BC?=';

/** The octets of each line of a field, and whether taking the folds out gives the field in one line. */
function lengths(field: string | undefined, text: string): readonly number[] | undefined {
  if (field === undefined) return undefined;
  expect(field.endsWith('\r\n')).toBe(true);
  expect(unfold(field.slice(0, -2))).toBe(`${name}: ${text}`);
  return field
    .slice(0, -2)
    .split('\r\n')
    .map((line) => Buffer.byteLength(line));
}

function word(octets: number): string {
  return 'x'.repeat(octets);
}

describe('the first line', () => {
  test.each([
    [77, [77]],
    [78, [78]],
    [79, [used + 10, 79 - used - 10]],
  ])('of %i octets with white space becomes %j', (octets, wanted) => {
    const text = `${word(10)} ${word(octets - used - 11)}`;
    expect(lengths(foldField(name, text), text)).toEqual(wanted);
  });

  test.each([77, 78, 79])('of %i octets up to the last white space ends there, where that is 78 or less', (octets) => {
    const [early, late] = [word(10), word(octets - used - 11)];
    const text = `${early} ${late} ${word(30)}`;
    const before = octets <= 78 ? [octets, 31] : [used + 10, octets - used - 10, 31];
    expect(lengths(foldField(name, text), text)).toEqual(before);
  });

  test.each([
    [75, [75]],
    [76, [76]],
    [77, [used + 10, 77 - used - 10]],
    [78, [used + 10, 78 - used - 10]],
  ])('of %i octets with an encoded-word becomes %j', (octets, wanted) => {
    const text = `${word(10)} ${encoded}${word(octets - used - 31)}`;
    expect(lengths(foldField(name, text), text)).toEqual(wanted);
  });

  test('may have 78 octets where the encoded-word comes only in the next one', () => {
    const text = `${word(78 - used)} ${encoded}`;
    expect(lengths(foldField(name, text), text)).toEqual([78, 21]);
  });

  test.each([
    [77, [77]],
    [78, [78]],
    [79, [used + 10, 79 - used - 10]],
  ])('of %i octets counts octets and not characters', (octets, wanted) => {
    const text = `${word(10)} ${'ü'.repeat(5)}${word(octets - used - 21)}`;
    expect(lengths(foldField(name, text), text)).toEqual(wanted);
  });
});

test.each([
  [77, [used, 77, 11]],
  [78, [used, 78, 11]],
  [79, [used, 11, 68, 11]],
])('a later line of %i octets, its white space among them, makes %j', (octets, wanted) => {
  // The first word is too long for the first line.
  const inner = octets === 79 ? `${word(10)} ${word(67)}` : `${word(10)} ${word(octets - 12)}`;
  const text = `${inner} ${word(10)}`;
  const field = foldField(name, `${word(70)} ${text}`);
  expect(lengths(field, `${word(70)} ${text}`)).toEqual([used + 70, ...wanted.slice(1)]);
});

describe('a word without white space', () => {
  // It stands in a line of its own, behind the blank that follows the name.
  test.each([
    [997, [used - 1, 997]],
    [998, [used - 1, 998]],
    [999, undefined],
  ])('in a line of %i octets: %j', (octets, wanted) => {
    const text = word(octets - 1);
    expect(lengths(foldField(name, text), text)).toEqual(wanted);
  });

  test.each([
    [997, [used + 1, 997]],
    [998, [used + 1, 998]],
    [999, undefined],
  ])('in a later line of %i octets: %j', (octets, wanted) => {
    const text = `x ${word(octets - 1)}`;
    expect(lengths(foldField(name, text), text)).toEqual(wanted);
  });

  test.each([
    [997, [used - 1, 997]],
    [998, [used - 1, 998]],
    [999, undefined],
  ])('of characters that are two octets each, in a line of %i octets: %j', (octets, wanted) => {
    const text = `${'ü'.repeat(200)}${word(octets - 1 - 400)}`;
    expect(lengths(foldField(name, text), text)).toEqual(wanted);
  });

  test.each([78, 79, 80, 200])('of %i octets with the white space before it is alone in its line', (octets) => {
    const text = `${word(octets - 1)} y z`;
    expect(lengths(foldField(name, text), text)).toEqual([used - 1, octets, 4]);
  });
});

describe('a run of white space', () => {
  test('goes whole to the next line, so that the line before it ends without white space', () => {
    const text = `${word(60)}  \t${word(20)}`;
    expect(foldField(name, text)).toBe(`${name}: ${word(60)}\r\n  \t${word(20)}\r\n`);
  });

  test.each([
    [74, 'before'],
    [75, 'before'],
    [76, 'inside'],
  ])(
    'is cut only where the word behind it, of %i octets, would not fit its line with all of it: %s',
    (octets, place) => {
      // Three octets of white space and a word: 77, 78, 79.
      const text = `${word(60)}   ${word(octets)}`;
      const [first, second] = place === 'before' ? ['', '   '] : ['  ', ' '];
      expect(foldField(name, text)).toBe(`${name}: ${word(60)}${first}\r\n${second}${word(octets)}\r\n`);
    },
  );

  test('is cut where an encoded-word behind it would make the line longer than 76 octets', () => {
    const long = `=?utf-8?Q?${word(63)}?=`;
    expect(foldField(name, `${word(60)}  ${long}`)).toBe(`${name}: ${word(60)} \r\n ${long}\r\n`);
  });

  test('of a whole line and more makes no line of white space alone', () => {
    for (const octets of [70, 77, 78, 79, 300]) {
      const text = `a${' '.repeat(octets)}b`;
      const field = foldField(name, text) ?? '';
      expect(
        field
          .slice(0, -2)
          .split('\r\n')
          .every((line) => line.trim() !== ''),
      ).toBe(true);
      expect(lengths(field, text)).toBeDefined();
    }
  });
});

/** Tells whether a line could have ended sooner: at white space that is neither its own first nor its last. */
function mayEndSooner(line: string): boolean {
  return /[^ \t][ \t]/.test(line);
}

test('of any text each line is as long as it may be, and none longer', () => {
  const piece = fc.oneof(
    { weight: 5, arbitrary: fc.integer({ min: 1, max: 90 }).map(word) },
    { weight: 2, arbitrary: fc.constantFrom(encoded, `${encoded}${word(10)}`, '=?', 'ü', '日本') },
  );
  const texts = fc.array(piece, { minLength: 1, maxLength: 30 }).map((pieces) => pieces.join(' '));
  fc.assert(
    fc.property(texts, (text) => {
      const field = foldField(name, text);
      lengths(field, text);
      const lines = field?.slice(0, -2).split('\r\n') ?? [];
      for (const [at, line] of lines.entries()) {
        const limit = line.includes(encoded) ? 76 : 78;
        const octets = Buffer.byteLength(line);
        if (octets > limit) expect([line, mayEndSooner(line.trimStart())]).toEqual([line, false]);
        const next = / [^ ]+/.exec(lines[at + 1] ?? '')?.[0];
        if (next === undefined) continue;
        const both = `${line}${next}`;
        expect(Buffer.byteLength(both)).toBeGreaterThan(both.includes(encoded) ? 76 : 78);
      }
    }),
    { numRuns: 500 },
  );
});

describe('inside angle brackets', () => {
  const uri = (octets: number): string => `<https://x.example/${word(octets - 20)}>`;

  test.each([
    [997, 1],
    [998, 2],
    [999, 2],
  ])('a URI of %i octets is in %i lines', (octets, lines) => {
    const field = foldInsideBrackets(name, uri(octets)) ?? '';
    // The first line is the field's name alone.
    expect(field.slice(0, -2).split('\r\n ')).toHaveLength(lines + 1);
    expect(field.replaceAll('\r\n ', '')).toBe(`${name}:${uri(octets)}\r\n`);
  });

  test('each piece has 900 octets, and the last one the rest with its bracket', () => {
    const lines = (foldInsideBrackets(name, uri(2000)) ?? '').slice(0, -2).split('\r\n');
    expect(lines.map((line) => line.trimStart().length)).toEqual([name.length + 1, 900, 900, 200]);
    // A bracket is not left alone.
    expect((foldInsideBrackets(name, uri(1801)) ?? '').slice(0, -2).split('\r\n').at(-1)).toBe(` ${word(900)}>`);
  });

  test('what is outside them is not cut', () => {
    expect(foldInsideBrackets(name, word(999))).toBeUndefined();
    expect(foldInsideBrackets(name, `<a>${word(999)}`)).toBeUndefined();
  });
});

test('pieces are folded where they are cut, and besides where they are too long', () => {
  expect(foldPieces([`${name}: a`, ' b', ` ${word(60)} ${word(20)}`])).toBe(
    `${name}: a\r\n b\r\n ${word(60)}\r\n ${word(20)}\r\n`,
  );
  expect(foldPieces([`${name}: a`, ` ${word(997)}`])).toBe(`${name}: a\r\n ${word(997)}\r\n`);
  expect(foldPieces([`${name}: a`, ` ${word(998)}`])).toBeUndefined();
});
