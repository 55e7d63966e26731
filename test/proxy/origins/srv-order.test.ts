// The order of SRV records: RFC 2782, with random numbers that are given.

import { expect, test } from 'vitest';
import { orderServices, type ServiceRecord } from '../../../src/proxy/origins/dns-cache.ts';
import fc from '../../support/properties.ts';

const service = (priority: number, weight: number, target: string): ServiceRecord => ({
  priority,
  weight,
  port: 1,
  target,
});
const order = (records: readonly ServiceRecord[], ...drawn: readonly number[]): string => {
  const numbers = [...drawn];
  return orderServices(records, () => numbers.shift() ?? 0)
    .map(({ target }) => target)
    .join(' ');
};

test('the lowest priority comes first, whatever the weights', () => {
  const records = [service(20, 60_000, 'c'), service(5, 0, 'a'), service(10, 1, 'b')];
  expect(order(records)).toBe('a b c');
  expect(order(records, 0.999, 0.999, 0.999)).toBe('a b c');
});

test('within a priority the number drawn picks by running sum, from 0 to the sum, both included', () => {
  const records = [service(1, 1, 'one'), service(1, 3, 'three'), service(1, 0, 'zero')];
  // Sorted: zero (0), one (1), three (4). Five numbers can be drawn: 0, 1, 2, 3, 4.
  expect(order(records, 0)).toBe('zero one three');
  expect(order(records, 0.199)).toBe('zero one three');
  expect(order(records, 0.2, 0)).toBe('one zero three');
  expect(order(records, 0.4, 0)).toBe('three zero one');
  expect(order(records, 0.999, 0.999)).toBe('three one zero');
});

test('records of weight 0 alone keep their order', () => {
  expect(order([service(1, 0, 'a'), service(1, 0, 'b')], 0.999, 0.999)).toBe('a b');
});

test('a target of the root means that there is no such service', () => {
  expect(order([service(0, 0, '.')])).toBe('');
});

test('every record is in the order once, by priority, and weights are kept in proportion', () => {
  const records = fc.array(
    fc.record({
      priority: fc.integer({ min: 0, max: 3 }),
      weight: fc.integer({ min: 0, max: 65_535 }),
      port: fc.integer({ min: 0, max: 65_535 }),
      target: fc.domain(),
    }),
    { maxLength: 20 },
  );
  const drawn = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
  fc.assert(
    fc.property(records, fc.infiniteStream(drawn), (given, numbers) => {
      const ordered = orderServices(given, () => numbers.next().value ?? 0);
      expect(new Set(ordered)).toEqual(new Set(given));
      expect(ordered.map(({ priority }) => priority)).toEqual(
        given.map(({ priority }) => priority).toSorted((left, right) => left - right),
      );
    }),
  );
  // Every number once: 3 of 4 and one more for 0 go to the heavier.
  const pair = [service(1, 1, 'light'), service(1, 3, 'heavy')];
  const firsts = [0, 1, 2, 3, 4].map((number) => order(pair, number / 5).split(' ')[0]);
  expect(firsts).toEqual(['light', 'light', 'heavy', 'heavy', 'heavy']);
});
