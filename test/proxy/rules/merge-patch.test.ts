// RFC 7396 against its own appendix, as far as members of members go, and null as absence.

import { expect, test } from 'vitest';
import type { UnknownRecord } from '../../../src/base/is-record.ts';
import { member, mergePatch } from '../../../src/proxy/rules/read-addresses.ts';
import fc from '../../support/properties.ts';

// RFC 7396 Appendix A, the rows whose target and patch are objects; as deep as an application is.
test.each([
  [{ a: 'b' }, { a: 'c' }, { a: 'c' }],
  [{ a: 'b' }, { b: 'c' }, { a: 'b', b: 'c' }],
  [{ a: 'b' }, { a: null }, {}],
  [{ a: 'b', b: 'c' }, { a: null }, { b: 'c' }],
  [{ a: ['b'] }, { a: 'c' }, { a: 'c' }],
  [{ a: 'c' }, { a: ['b'] }, { a: ['b'] }],
  [{ a: { b: 'c' } }, { a: { b: 'd', c: null } }, { a: { b: 'd' } }],
  [{ a: [{ b: 'c' }] }, { a: [1] }, { a: [1] }],
  [{ e: null }, { a: 1 }, { e: null, a: 1 }],
  [{ a: 'foo' }, { a: { b: 1, c: null } }, { a: { b: 1 } }],
  [{ a: ['x'] }, { a: { b: 1 } }, { a: { b: 1 } }],
])('%j with %j is %j', (target: UnknownRecord, patch: UnknownRecord, wanted) => {
  expect(mergePatch(target, patch, ['a', 'b', 'c'])).toEqual(wanted);
});

test('members that are no fields are not taken over', () => {
  expect(mergePatch({ a: 1 }, { b: 2 }, ['a'])).toEqual({ a: 1 });
});

test('as RFC 7396 §2 says, on two levels', () => {
  const scalar = fc.oneof(fc.constant(null), fc.integer(), fc.array(fc.integer(), { maxLength: 2 }));
  const name = fc.constantFrom('a', 'b', 'c', '__proto__', 'constructor');
  const entries = (value: fc.Arbitrary<unknown>): fc.Arbitrary<UnknownRecord> =>
    fc.array(fc.tuple(name, value), { maxLength: 4 }).map((pairs) => Object.fromEntries(pairs));
  const withoutNull = scalar.filter((value) => value !== null);
  const reference = (target: unknown, patch: unknown): unknown => {
    if (typeof patch !== 'object' || patch === null || Array.isArray(patch)) return patch;
    const isObject = typeof target === 'object' && target !== null && !Array.isArray(target);
    const merged = new Map(Object.entries(isObject ? target : {}));
    for (const [key, value] of Object.entries(patch)) {
      if (value === null) merged.delete(key);
      else merged.set(key, reference(merged.get(key), value));
    }
    return Object.fromEntries(merged);
  };
  fc.assert(
    fc.property(
      entries(fc.oneof(withoutNull, entries(withoutNull))),
      entries(fc.oneof(scalar, entries(scalar))),
      (target, patch) => {
        expect(mergePatch(target, patch, Object.keys(patch))).toEqual(reference(target, patch));
      },
    ),
  );
});

test('a member of the prototype is none, null is none', () => {
  expect(member({}, 'constructor')).toBeUndefined();
  expect(member({ a: null }, 'a')).toBeUndefined();
  expect(member({ a: 0 }, 'a')).toBe(0);
});
