// The shares of several processes in the limits of one next hop never add up to more than the limits.

import { expect, test } from 'vitest';
import { shareOf } from '../../../src/delivery/hop/hop-share.ts';
import fc from '../../support/properties.ts';

test('the only process has everything, and gives half to a second one as its connections close', () => {
  expect(shareOf({ name: 'a', granted: 0, open: 0, most: 10 }, new Map())).toEqual({ granted: 10, fair: 10 });
  expect(shareOf({ name: 'b', granted: 0, open: 0, most: 10 }, new Map([['a', 10]]))).toEqual({ granted: 0, fair: 5 });
  const busy = { name: 'a', granted: 10, most: 10 };
  expect(shareOf({ ...busy, open: 9 }, new Map([['b', 0]]))).toEqual({ granted: 9, fair: 5 });
  expect(shareOf({ ...busy, open: 2 }, new Map([['b', 1]]))).toEqual({ granted: 5, fair: 5 });
});

test('where there are more processes than connections, one connection belongs to the first by name', () => {
  const shares = ['a', 'b', 'c'].map((name) => {
    const others = new Map(['a', 'b', 'c'].filter((other) => other !== name).map((other) => [other, 0]));
    return shareOf({ name, granted: 0, open: 0, most: 1 }, others).fair;
  });
  expect(shares).toEqual([1, 0, 0]);
});

test('whatever the processes do and in whatever order, they never have more than the limit, and in the end equal parts', () => {
  const step = fc.record({ who: fc.nat(4), open: fc.nat(20), isGone: fc.boolean() });
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 20 }), fc.array(step, { maxLength: 60 }), (most, steps) => {
      const granted = new Map<string, number>();
      const look = (name: string, open: number): number => {
        const others = new Map([...granted].filter(([other]) => other !== name));
        const own = granted.get(name) ?? 0;
        const share = shareOf({ name, granted: own, open: Math.min(open, own), most }, others);
        granted.set(name, share.granted);
        return share.fair;
      };
      const sum = (): number => [...granted.values()].reduce((total, one) => total + one, 0);
      for (const { who, open, isGone } of steps) {
        if (isGone) granted.delete(`p${who}`);
        else look(`p${who}`, open);
        expect(sum()).toBeLessThanOrEqual(most);
      }
      for (let round = 0; round < 3; round += 1) for (const name of [...granted.keys()]) look(name, 0);
      const counts = [...granted.values()];
      if (counts.length > 0) {
        expect(sum()).toBe(most);
        expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(1);
      }
    }),
  );
});
