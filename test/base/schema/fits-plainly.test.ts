// The configuration's schema is typebox's in all but the loading of typebox, and the quick judge never takes what typebox refuses.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Type as Typebox } from 'typebox';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { schema } from '../../../src/app/config/schema.ts';
import { fitsPlainly, Type } from '../../../src/base/schema/schema-type.ts';
import { compileSchema } from '../../../src/base/schema-judge.ts';
import fc from '../../support/properties.ts';

const folders = ['../../../config', '../../../config/examples', '../../app/config/faults'].map((folder) =>
  join(import.meta.dirname, folder),
);
const texts = folders.flatMap((folder) =>
  readdirSync(folder)
    .filter((name) => name.endsWith('.yaml'))
    .map((name) => readFileSync(join(folder, name), 'utf8')),
);
const judge = compileSchema(schema);

/** What a text holds; undefined where it is no YAML. */
function contentsOf(text: string): unknown {
  try {
    return parse(text);
  } catch {
    return undefined;
  }
}
const contents = texts.map(contentsOf).filter((value) => value !== undefined && value !== null);

test('both say the same of every configuration here, right or wrong', () => {
  expect(contents.length).toBeGreaterThan(40);
  const verdicts = contents.map((value) => fitsPlainly(schema, value));
  expect(verdicts).toEqual(contents.map((value) => judge.fits(value)));
  expect(new Set(verdicts)).toEqual(new Set([true, false]));
});

/** Puts a value at a place of a tree, found by going down by these numbers. */
function planted(tree: unknown, way: readonly number[], value: unknown): unknown {
  const [step, ...rest] = way;
  if (step === undefined || typeof tree !== 'object' || tree === null) return value;
  const keys = Object.keys(tree);
  const key = keys[step % (keys.length + 1)] ?? 'other';
  const copy: unknown = Array.isArray(tree) ? [...tree] : { ...tree };
  if (typeof copy === 'object' && copy !== null) Reflect.set(copy, key, planted(Reflect.get(tree, key), rest, value));
  return copy;
}

test('both say the same with anything anywhere', () => {
  const foreign = fc.oneof(
    fc.jsonValue({ maxDepth: 2 }),
    fc.constantFrom('none', 'starttls', '127.0.0.1:25', 'a.example', -1, 0, 1.5, 65_536, Number.NaN, Infinity),
  );
  fc.assert(
    fc.property(fc.constantFrom(...contents), fc.array(fc.nat(20), { maxLength: 6 }), foreign, (tree, way, value) => {
      const changed = planted(tree, way, value);
      expect(fitsPlainly(schema, changed)).toBe(judge.fits(changed));
    }),
    { numRuns: 3000 },
  );
});

test('a word that is not known fits nothing', () => {
  expect(fitsPlainly({ type: 'string' }, 'a')).toBe(true);
  expect(fitsPlainly({ type: 'string', format: 'email' }, 'a')).toBe(false);
});

test('each word makes what typebox makes', () => {
  const made = (words: typeof Type): object[] => {
    const text = words.Refine(
      words.String({ want: 'a' }),
      () => true,
      () => 'a',
    );
    const known = words.Object({ a: text, b: words.Optional(text), c: words.Optional(words.Boolean()) }, { want: 'b' });
    return [
      ...[
        text,
        known,
        words.Object({ a: words.Optional(text) }),
        words.Array(known, { maxItems: 2 }),
        words.Enum(['a']),
      ],
      ...[words.Integer({ minimum: 1 }), words.Number(), words.Union([text, known]), words.Optional(known)],
      ...[words.Record(words.String({ pattern: '^a$' }), text, { want: 'c' }), words.Record(text, known)],
    ];
  };
  const shown = (schemas: readonly object[]): unknown[] =>
    schemas.map((one) => [one, Reflect.has(one, '~optional'), Reflect.has(one, '~refine')]);
  expect(shown(made(Type))).toEqual(shown(made(Typebox)));
});
