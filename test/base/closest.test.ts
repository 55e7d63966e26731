import { expect, test } from 'vitest';
import { closest } from '../../src/base/closest.ts';

const keys = ['smtp', 'listeners', 'allowFrom', 'hostname', 'tls', 'name'];

test.each([
  ['smpt', 'smtp'],
  ['listener', 'listeners'],
  ['allow_from', 'allowFrom'],
  ['AllowFrom', 'allowFrom'],
  ['hostnmae', 'hostname'],
  ['tsl', 'tls'],
  ['nam', 'name'],
])('%s stands for %s', (given, wanted) => {
  expect(closest(given, keys)).toBe(wanted);
});

test.each(['', 'xyz', 'quota', 'x'.repeat(65)])('nothing is near %s', (given) => {
  expect(closest(given, keys)).toBeUndefined();
});
