// The ranges of ids that a page looks through, in both orders.

import { expect, test } from 'vitest';
import { spansOf } from '../../src/spool/postgres/spool-parts.ts';
import fc from '../support/properties.ts';

test('a range is gone through without a gap and without an overlap, whatever partitions there are', () => {
  const id = fc.integer({ min: 1, max: 60 });
  fc.assert(
    fc.property(id, id, fc.uniqueArray(id), fc.boolean(), (low, high, starts, isOldest) => {
      const spans = [...spansOf({ low, high }, { starts: starts.toSorted((one, other) => one - other), isOldest })];
      const ids = spans.flatMap((span) => {
        const own = Array.from({ length: span.high - span.low + 1 }, (_, at) => span.low + at);
        return isOldest ? own : own.toReversed();
      });
      const all = Array.from({ length: Math.max(0, high - low + 1) }, (_, at) => low + at);
      expect(ids).toEqual(isOldest ? all : all.toReversed());
    }),
  );
});

test('the first range lies in one partition, the next in two', () => {
  const starts = [1, 11, 21, 31, 41];
  const range = { low: 5, high: 44 };
  expect([...spansOf(range, { starts, isOldest: true })]).toEqual([
    { low: 5, high: 10 },
    { low: 11, high: 30 },
    { low: 31, high: 44 },
  ]);
  expect([...spansOf(range, { starts, isOldest: false })]).toEqual([
    { low: 41, high: 44 },
    { low: 21, high: 40 },
    { low: 5, high: 20 },
  ]);
});
