// Messages a minute and recipients a day, with a clock of the test's own (D42a).

import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Account, AccountLimits } from '../../src/accounts/account.ts';
import { createLimits, type LimitVerdict } from '../../src/accounts/limits.ts';
import { type DatabaseSync, openSqliteFile } from '../../src/base/database/sqlite-file.ts';
import { clockOf } from '../support/manual-clock.ts';
import { scratchFolder } from '../support/scratch.ts';

function accountWith(limits: AccountLimits, id = 'a1'.repeat(16)): Account {
  return {
    id,
    name: 'dev',
    plan: 'enterprise',
    sendingDomains: [],
    limits,
    showClientAddress: true,
    tlsRequiredNo: false,
    credentials: new Map(),
  };
}

function open(file: string): DatabaseSync {
  const database = openSqliteFile(file);
  onTestFinished(() => database.close());
  return database;
}

const midnight = Date.UTC(2026, 0, 2);

function setUp(start = midnight) {
  const time = { ms: start, setBy: 0 };
  const file = join(scratchFolder(), 'postern.db');
  const database = open(file);
  const clock = { now: () => time.ms + time.setBy, monotonic: () => time.ms };
  return { time, clock, file, database, limits: createLimits(database, clock) };
}

/** How many of a row of messages pass. */
function passed(count: number, take: () => LimitVerdict): number {
  return Array.from({ length: count }, take).filter(({ allowed }) => allowed).length;
}

const rowsIn = (database: DatabaseSync) => database.prepare('SELECT * FROM recipients_per_day').all();
const usedIn = (database: DatabaseSync) => rowsIn(database).map((row) => Number(row['recipients']));

test('an account without limits costs no row', () => {
  const { limits, database } = setUp();
  expect(passed(1000, () => limits.take(accountWith({}), 50))).toBe(1000);
  expect(rowsIn(database)).toEqual([]);
});

describe('messages a minute', () => {
  test('exactly as many pass, then the wait is told', () => {
    const { limits, time } = setUp();
    const account = accountWith({ messagesPerMinute: 5 });
    expect(passed(5, () => limits.take(account, 1))).toBe(5);
    expect(limits.take(account, 1)).toEqual({ allowed: false, code: 'E_RATE_LIMIT_EXCEEDED', retryAfterSeconds: 60 });
    time.ms += 59_000;
    expect(limits.take(account, 1)).toEqual({ allowed: false, code: 'E_RATE_LIMIT_EXCEEDED', retryAfterSeconds: 1 });
    time.ms += 1000;
    expect(passed(9, () => limits.take(account, 1))).toBe(5);
  });

  test('the window slides: no 60 seconds have more, wherever they begin', () => {
    const { limits, time } = setUp();
    const account = accountWith({ messagesPerMinute: 10 });
    const taken: number[] = [];
    for (let second = 0; second < 300; second += 1) {
      if (limits.take(account, 1).allowed) taken.push(second);
      if (limits.take(account, 1).allowed) taken.push(second);
      time.ms += 1000;
    }
    for (let from = 0; from <= 240; from += 1) {
      expect(taken.filter((second) => second >= from && second < from + 60).length).toBeLessThanOrEqual(10);
    }
    expect(taken).toHaveLength(50);
  });

  test('a wait that was told is long enough', () => {
    const { limits, time } = setUp();
    const account = accountWith({ messagesPerMinute: 3 });
    for (let round = 0; round < 20; round += 1) {
      time.ms += 7_300;
      const verdict = limits.take(account, 1);
      if (verdict.allowed) continue;
      time.ms += verdict.retryAfterSeconds * 1000;
      expect(limits.take(account, 1).allowed).toBe(true);
    }
  });

  test('one account does not use up another', () => {
    const { limits } = setUp();
    const one = accountWith({ messagesPerMinute: 1 });
    const two = accountWith({ messagesPerMinute: 1 }, 'b2'.repeat(16));
    expect([limits.take(one, 1), limits.take(two, 1), limits.take(one, 1)].map(({ allowed }) => allowed)).toEqual([
      true,
      true,
      false,
    ]);
  });

  test.each([-3_600_000, 3_600_000])('a clock set by %i ms neither shuts nor opens the account', (setBy) => {
    const { limits, time } = setUp();
    const account = accountWith({ messagesPerMinute: 2 });
    expect(passed(3, () => limits.take(account, 1))).toBe(2);
    time.setBy = setBy;
    expect(limits.take(account, 1)).toMatchObject({ allowed: false, retryAfterSeconds: 60 });
    time.ms += 60_000;
    expect(passed(3, () => limits.take(account, 1))).toBe(2);
  });
});

describe('recipients a day', () => {
  test.each([
    [10, 10, true],
    [10, 11, false],
    [1, 1, true],
    [100_000, 100_000, true],
    [100_000, 100_001, false],
  ])('of %d, %d at once: %s', (limit, recipients, allowed) => {
    const { limits } = setUp();
    expect(limits.take(accountWith({ recipientsPerDay: limit }), recipients).allowed).toBe(allowed);
  });

  test('exactly as many pass; a refusal charges nothing', () => {
    const { limits, time } = setUp(midnight + 3_600_000);
    const account = accountWith({ recipientsPerDay: 1000 });
    expect(passed(400, () => limits.take(account, 3))).toBe(333);
    expect(limits.take(account, 2)).toEqual({
      allowed: false,
      code: 'E_DAILY_LIMIT_EXCEEDED',
      retryAfterSeconds: 23 * 3600,
    });
    expect(limits.take(account, 1).allowed).toBe(true);
    expect(limits.take(account, 1).allowed).toBe(false);
    time.ms = midnight + 86_400_000;
    expect(limits.take(account, 1000).allowed).toBe(true);
  });

  test('a message refused for the day does not count for the minute', () => {
    const { limits } = setUp();
    const account = accountWith({ recipientsPerDay: 5, messagesPerMinute: 1 });
    expect(limits.take(account, 6)).toMatchObject({ code: 'E_DAILY_LIMIT_EXCEEDED' });
    expect(limits.take(account, 5).allowed).toBe(true);
  });

  test('a restart goes on where it stopped', () => {
    const { limits, database, file, clock } = setUp();
    const account = accountWith({ recipientsPerDay: 1000 });
    expect(limits.take(account, 700).allowed).toBe(true);
    limits.close();
    expect(usedIn(database)).toEqual([700]);
    const next = createLimits(open(file), clock);
    expect(next.take(account, 301).allowed).toBe(false);
    expect(next.take(account, 300).allowed).toBe(true);
  });

  test('a crash loses at most what was set aside, a hundredth of the limit', () => {
    const { limits, file, clock } = setUp();
    const account = accountWith({ recipientsPerDay: 1000 });
    expect(limits.take(account, 1).allowed).toBe(true);
    const next = createLimits(open(file), clock);
    expect(passed(1000, () => next.take(account, 1))).toBe(990);
  });

  test('two processes on one store share the limit', () => {
    const { limits, file, clock } = setUp();
    const other = createLimits(open(file), clock);
    const account = accountWith({ recipientsPerDay: 500 });
    let count = 0;
    for (let round = 0; round < 400; round += 1) {
      if (limits.take(account, 1).allowed) count += 1;
      if (other.take(account, 1).allowed) count += 1;
    }
    expect(count).toBe(500);
  });

  test('a write is made for many messages, not for each', () => {
    const { limits, database } = setUp();
    const account = accountWith({ recipientsPerDay: 100_000 });
    const seen = new Set<number>();
    for (let round = 0; round < 2500; round += 1) {
      limits.take(account, 1);
      seen.add(usedIn(database)[0] ?? 0);
    }
    expect([...seen]).toEqual([1000, 2000, 3000]);
  });

  test('days long gone are forgotten', () => {
    const { limits, database, time } = setUp();
    const account = accountWith({ recipientsPerDay: 10 });
    for (let day = 0; day < 20; day += 1) {
      limits.take(account, 1);
      time.ms += 86_400_000;
    }
    expect(rowsIn(database)).toHaveLength(8);
  });
});

describe('asking and giving back', () => {
  const both = accountWith({ messagesPerMinute: 2, recipientsPerDay: 10 });

  test('to ask charges nothing, however often, and tells what a charge would', () => {
    const { limits, database } = setUp();
    expect(passed(100, () => limits.ask(both, 10))).toBe(100);
    expect(limits.ask(both, 11)).toMatchObject({ code: 'E_DAILY_LIMIT_EXCEEDED' });
    expect(rowsIn(database)).toEqual([]);
    expect(limits.take(both, 9).allowed).toBe(true);
    expect(limits.ask(both, 1).allowed).toBe(true);
    expect(limits.ask(both, 2)).toEqual(limits.take(both, 2));
    expect(limits.take(both, 1).allowed).toBe(true);
    expect(limits.ask(both, 1)).toEqual(limits.take(both, 1));
  });

  test('what another process used up is known without a charge', () => {
    const { limits, file, time } = setUp();
    const other = createLimits(
      open(file),
      clockOf(() => time.ms),
    );
    expect(other.take(both, 8).allowed).toBe(true);
    expect(limits.ask(both, 3)).toMatchObject({ code: 'E_DAILY_LIMIT_EXCEEDED' });
    expect(limits.ask(both, 2).allowed).toBe(true);
  });

  test('what is given back may be taken again, for the minute and for the day', () => {
    const { limits, time } = setUp();
    for (let round = 0; round < 50; round += 1) {
      expect(limits.take(both, 10).allowed).toBe(true);
      limits.giveBack(both, 10);
      time.ms += 100;
    }
    expect(limits.take(both, 5).allowed).toBe(true);
    expect(limits.take(both, 5).allowed).toBe(true);
    expect(limits.ask(both, 1).allowed).toBe(false);
  });
});
