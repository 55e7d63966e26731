// Domain names by their labels.

import { expect, test } from 'vitest';
import { isWithinDomain, parentName, parentNames } from '../../../src/base/net/domain-labels.ts';

test('the names that a name is under, the longest first', () => {
  expect([...parentNames('a.b.c')]).toEqual(['a.b.c', 'b.c', 'c']);
  expect([...parentNames('')]).toEqual([]);
  expect([parentName('a.b.c'), parentName('c'), parentName('')]).toEqual(['b.c', '', '']);
});

test('a name is within its parent at a dot only', () => {
  expect(isWithinDomain('mail.example.com', 'example.com')).toBe(true);
  expect(isWithinDomain('example.com', 'example.com')).toBe(true);
  expect(isWithinDomain('badexample.com', 'example.com')).toBe(false);
  expect(isWithinDomain('com', 'example.com')).toBe(false);
});
