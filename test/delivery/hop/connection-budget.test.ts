// The bound on connections to all next hops together.

import { expect, test } from 'vitest';
import { ConnectionBudget, type ConnectionHolder, type HopRoom } from '../../../src/delivery/hop/connection-budget.ts';

/** A next hop of an account, with the rooms that it has and so many idle connections among them. */
function holder(budget: ConnectionBudget, name: string, told: string[], account = 'dev') {
  const places: HopRoom[] = [];
  const made: ConnectionHolder & { idle: number; readonly take: () => boolean; readonly end: () => void } = {
    idle: 0,
    take: () => {
      const place = budget.tryTake(made, [account]);
      if (place) places.push(place);
      return place !== undefined;
    },
    end: () => places.shift()?.release(),
    closeIdle: (): boolean => {
      if (made.idle === 0) return false;
      made.idle -= 1;
      told.push(`${name} closes`);
      made.end();
      return true;
    },
    hasRoom: (): void => void told.push(`${name} woken`),
  };
  return made;
}

test('no more connections are open than allowed, and who waits is woken in order', () => {
  const budget = new ConnectionBudget(2);
  const told: string[] = [];
  const [a, b, c] = ['a', 'b', 'c'].map((name) => holder(budget, name, told));
  if (!a || !b || !c) throw new Error('no holders');
  expect([a.take(), a.take(), b.take(), c.take()]).toEqual([true, true, false, false]);
  a.end();
  expect(told).toEqual(['b woken']);
  expect(b.take()).toBe(true);
  budget.forget(c);
  a.end();
  expect(told).toEqual(['b woken']);
  expect(budget.taken).toBe(1);
});

test('an idle connection of another next hop makes room', () => {
  const budget = new ConnectionBudget(1);
  const told: string[] = [];
  const [a, b] = [holder(budget, 'a', told), holder(budget, 'b', told)];
  expect(a.take()).toBe(true);
  a.idle = 1;
  budget.isIdle(a);
  expect(b.take()).toBe(false);
  expect(told).toEqual(['a closes', 'b woken']);
  expect(b.take()).toBe(true);
});

test('a connection that becomes idle while others wait is closed at once', () => {
  const budget = new ConnectionBudget(1);
  const told: string[] = [];
  const [a, b] = [holder(budget, 'a', told), holder(budget, 'b', told)];
  expect([a.take(), b.take()]).toEqual([true, false]);
  a.idle = 1;
  budget.isIdle(a);
  expect(told).toEqual(['a closes', 'b woken']);
  expect(b.take()).toBe(true);
});

test('an account leaves a tenth to the others, and does not keep them waiting behind it', () => {
  const budget = new ConnectionBudget(20);
  const told: string[] = [];
  const greedy = Array.from({ length: 40 }, (_, at) => holder(budget, `greedy${at}`, told, 'greedy'));
  expect(greedy.filter((one) => one.take())).toHaveLength(18);
  const others = Array.from({ length: 4 }, (_, at) => holder(budget, `other${at}`, told, 'other'));
  expect(others.map((one) => one.take())).toEqual([true, true, false, false]);
  others[0]?.end();
  expect(told).toEqual(['other2 woken']);
  expect(others[2]?.take()).toBe(true);
  greedy[0]?.end();
  expect(told).toEqual(['other2 woken', 'other3 woken']);
});

test('who waits behind a bound of its own account asks for connections of that account alone', () => {
  const budget = new ConnectionBudget(20);
  const place = (account: string) => budget.tryTake(holder(budget, account, [], account), [account]);
  const greedy = Array.from({ length: 19 }, () => place('greedy'))[0];
  const other = place('other');
  expect([greedy?.isWanted, other?.isWanted]).toEqual([true, false]);
});

test('a next hop with mail of several accounts gets room where one of them may have it', () => {
  const budget = new ConnectionBudget(20);
  for (let at = 0; at < 18; at += 1) budget.tryTake(holder(budget, 'x', []), ['greedy']);
  const shared = holder(budget, 'shared', []);
  expect(budget.tryTake(shared, ['greedy'])).toBeUndefined();
  expect(budget.tryTake(shared, ['greedy', 'other'])).toBeDefined();
});

test('room is given back once', () => {
  const budget = new ConnectionBudget(2);
  const place = budget.tryTake(holder(budget, 'a', []), ['dev']);
  place?.release();
  place?.release();
  expect(budget.taken).toBe(0);
});
