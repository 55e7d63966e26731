// The room in memory for messages under way: its bound, the shares in it, and that everything comes back.

import { expect, test } from 'vitest';
import {
  BodyBudget,
  type BodyOwner,
  type BodyReservation,
  bodyCosts,
  defaultBodyLimit,
} from '../../src/base/body-budget.ts';
import fc from '../support/properties.ts';

const mebibyte = 1_048_576;
const limit = 300 * mebibyte;

function owner(address: string, account = 'dev'): BodyOwner {
  return { door: 'smtp', account, address };
}

/** Grows bodies of one mebibyte until one finds no room; the octets of memory that they hold. */
function fill(budget: BodyBudget, of: BodyOwner, holds: BodyReservation[] = []): number {
  const before = budget.held;
  for (;;) {
    const hold = budget.open(of);
    holds.push(hold);
    if (!hold.grow(mebibyte)) return budget.held - before;
  }
}

test('one address gets half, one account two thirds, and a newcomer always finds some', () => {
  const budget = new BodyBudget(limit);
  const cost = mebibyte * bodyCosts.smtp;
  expect(fill(budget, owner('192.0.2.1'))).toBe(limit / 2);
  expect(fill(budget, owner('192.0.2.1'))).toBe(0);
  expect(fill(budget, owner('192.0.2.2'))).toBeGreaterThan(cost);
  for (let last = 3; last < 50; last += 1) fill(budget, owner(`192.0.2.${last}`));
  expect(budget.held).toBeLessThanOrEqual((limit * 2) / 3);
  expect(fill(budget, owner('198.51.100.1', 'other'))).toBeGreaterThan(10 * cost);
  expect(budget.held).toBeLessThan(limit);
});

test('one credential gets half, however many addresses it comes from, and another of the account finds some', () => {
  const budget = new BodyBudget(limit);
  const of = (address: string, credential: string): BodyOwner => ({ ...owner(address), door: 'http', credential });
  for (let last = 1; last < 50; last += 1) fill(budget, of(`192.0.2.${last}`, 'one'));
  expect(budget.held).toBeLessThanOrEqual(limit / 2);
  expect(budget.held).toBeGreaterThan(limit * 0.45);
  expect(fill(budget, of('198.51.100.1', 'two'))).toBeGreaterThan(0);
});

test('addresses of one /64 are one client', () => {
  const budget = new BodyBudget(limit);
  fill(budget, owner('2001:db8::1'));
  expect(fill(budget, owner('2001:db8::2', 'other'))).toBe(0);
  expect(fill(budget, owner('2001:db8:0:1::1', 'other'))).toBeGreaterThan(0);
});

test('a body alone finds room however large it is, a second one does not', () => {
  const budget = new BodyBudget(mebibyte);
  expect(budget.admits(owner('192.0.2.1'), 1_000_000_000)).toBe(true);
  const hold = budget.open(owner('192.0.2.1'));
  expect([hold.grow(1), hold.grow(5 * mebibyte), hold.grow(50 * mebibyte)]).toEqual([true, true, true]);
  expect(budget.admits(owner('192.0.2.2', 'other'), 1)).toBe(false);
  expect(budget.open(owner('192.0.2.2', 'other')).grow(1)).toBe(false);
  expect(budget.refusals).toEqual({ smtp: 2, http: 0 });
  hold.release();
  expect([budget.held, budget.admits(owner('192.0.2.2'), 1)]).toEqual([0, true]);
});

test('a body that finds no room gives back what it held', () => {
  const budget = new BodyBudget(limit);
  const holds: BodyReservation[] = [];
  const growing = budget.open(owner('192.0.2.9'));
  growing.grow(mebibyte);
  fill(budget, owner('192.0.2.1'), holds);
  const before = budget.held;
  expect(growing.grow(limit)).toBe(false);
  expect(budget.held).toBe(before - mebibyte * bodyCosts.smtp);
  growing.release();
  for (const hold of holds) hold.release();
  expect(budget.held).toBe(0);
});

test('whatever is taken and given back in whatever order, the bound holds and nothing is left', () => {
  const step = fc.record({
    body: fc.nat(19),
    octets: fc.integer({ min: 0, max: 40 * mebibyte }),
    release: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const budget = new BodyBudget(limit);
      const holds = Array.from({ length: 20 }, (_, index) =>
        budget.open({ door: index % 2 ? 'smtp' : 'http', account: `a${index % 3}`, address: `192.0.2.${index % 5}` }),
      );
      for (const { body, octets, release } of steps) {
        if (release) holds[body]?.release();
        else holds[body]?.grow(octets);
        expect(budget.held).toBeGreaterThanOrEqual(0);
        expect(budget.held).toBeLessThanOrEqual(limit);
      }
      for (const hold of holds) hold.release();
      expect(budget.held).toBe(0);
      expect(fill(budget, owner('192.0.2.1'))).toBe(limit / 2);
    }),
  );
});

test('the program’s own limit is part of the memory that there is', () => {
  expect(defaultBodyLimit()).toBeGreaterThan(mebibyte);
  expect(defaultBodyLimit()).toBeLessThanOrEqual(process.memoryUsage().rss * 10_000);
});
