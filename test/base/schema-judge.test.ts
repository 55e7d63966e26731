// The one validator: everything that is wrong is told, however much it is, each missing or unknown member by itself.

import { Type } from 'typebox';
import { describe, expect, test } from 'vitest';
import { compileSchema } from '../../src/base/schema-judge.ts';

const Box = Type.Object({ address: Type.String({ want: 'an address' }) }, { additionalProperties: false });
const judge = compileSchema(
  Type.Object(
    { to: Type.Array(Type.Union([Type.String(), Box])), kind: Type.Enum(['a', 'b']) },
    { additionalProperties: false },
  ),
);

test('what fits has no errors, and is left as it is', () => {
  const value = { to: ['a', { address: 'b' }], kind: 'a' };
  expect(judge.fits(value)).toBe(true);
  expect(judge.errors(value)).toEqual([]);
  expect(value).toEqual({ to: ['a', { address: 'b' }], kind: 'a' });
});

test('missing and unknown members are told each by itself, with the node that judged', () => {
  const errors = judge.errors({ x: 1, y: 2, constructor: 3 });
  expect(errors.map(({ keyword, params, instancePath }) => [keyword, params.name, instancePath])).toEqual([
    ['required', 'to', ''],
    ['required', 'kind', ''],
    ['additionalProperties', 'x', ''],
    ['additionalProperties', 'y', ''],
    ['additionalProperties', 'constructor', ''],
  ]);
  expect(errors[0]?.node).toHaveProperty('properties.kind');
});

test('an enumeration tells what it allows, and a node keeps its annotations', () => {
  expect(judge.errors({ to: [], kind: 'c' })).toMatchObject([
    { keyword: 'enum', instancePath: '/kind', schemaPath: '#/properties/kind', params: { allowed: ['a', 'b'] } },
  ]);
  const [error] = compileSchema(Box).errors({ address: 1 });
  expect(error).toMatchObject({ keyword: 'type', instancePath: '/address', node: { want: 'an address' } });
});

describe('nothing is dropped because there is much of it', () => {
  test('unknown members', () => {
    const many = Object.fromEntries(Array.from({ length: 20_000 }, (_, index) => [`k${index}`, 0]));
    const errors = judge.errors({ to: [], kind: 'a', ...many });
    expect(errors).toHaveLength(20_000);
  });

  test("a union's own error, behind those of its branches", () => {
    const errors = judge.errors({ to: Array.from({ length: 20_000 }, () => 0), kind: 'a' });
    const unions = errors.filter(({ keyword }) => keyword === 'anyOf');
    expect(unions).toHaveLength(20_000);
    expect(unions.at(-1)?.instancePath).toBe('/to/19999');
  });
});
