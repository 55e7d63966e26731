// The bound on connections to all next hops together.

import { expect, test } from 'vitest';
import { ConnectionBudget, type ConnectionHolder } from '../../../src/deliver/hop/connection-budget.ts';

/** A next hop with so many idle connections. */
function holder(budget: ConnectionBudget, name: string, told: string[]): ConnectionHolder & { idle: number } {
  const made = {
    idle: 0,
    closeIdle: (): boolean => {
      if (made.idle === 0) return false;
      made.idle -= 1;
      told.push(`${name} closes`);
      budget.release();
      return true;
    },
    wake: (): void => void told.push(`${name} woken`),
  };
  return made;
}

test('no more connections are open than allowed, and who waits is woken in order', () => {
  const budget = new ConnectionBudget(2);
  const told: string[] = [];
  const [a, b, c] = ['a', 'b', 'c'].map((name) => holder(budget, name, told));
  if (!a || !b || !c) throw new Error('no holders');
  expect([budget.tryTake(a), budget.tryTake(a), budget.tryTake(b), budget.tryTake(c)]).toEqual([
    true,
    true,
    false,
    false,
  ]);
  budget.release();
  expect(told).toEqual(['b woken']);
  expect(budget.tryTake(b)).toBe(true);
  budget.forget(c);
  budget.release();
  expect(told).toEqual(['b woken']);
  expect(budget.taken).toBe(1);
});

test('an idle connection of another next hop makes room', () => {
  const budget = new ConnectionBudget(1);
  const told: string[] = [];
  const [a, b] = [holder(budget, 'a', told), holder(budget, 'b', told)];
  expect(budget.tryTake(a)).toBe(true);
  a.idle = 1;
  budget.isIdle(a);
  expect(budget.tryTake(b)).toBe(false);
  expect(told).toEqual(['a closes', 'b woken']);
  expect(budget.tryTake(b)).toBe(true);
});

test('a connection that becomes idle while others wait is closed at once', () => {
  const budget = new ConnectionBudget(1);
  const told: string[] = [];
  const [a, b] = [holder(budget, 'a', told), holder(budget, 'b', told)];
  expect([budget.tryTake(a), budget.tryTake(b), budget.isWanted]).toEqual([true, false, true]);
  a.idle = 1;
  budget.isIdle(a);
  expect(told).toEqual(['a closes', 'b woken']);
  expect([budget.tryTake(b), budget.isWanted]).toEqual([true, false]);
});
