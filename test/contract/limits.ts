// The contract of limits, messages a minute and recipients a day, with a clock of the test's own (D42a): one suite, run on
// every engine.

import { describe, expect, test } from 'vitest';
import type { Account, AccountLimits } from '../../src/accounts/account.ts';
import { Limits, type LimitVerdict } from '../../src/accounts/limits.ts';
import { createMinuteCounts } from '../../src/accounts/minute-window.ts';
import { ToldCounts } from '../../src/accounts/told-counts.ts';
import type { Clock } from '../../src/base/clock.ts';
import type { Database } from '../../src/base/database/database.ts';
import { silentLog } from '../../src/base/log.ts';
import type { Engine } from '../support/engines.ts';

import { clockOf } from '../support/manual-clock.ts';

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

const midnight = Date.UTC(2026, 0, 2);

async function setUp(engine: Engine, start = midnight) {
  const time = { ms: start, setBy: 0 };
  const connect = engine.make();
  const database = await connect();
  const clock = { now: () => time.ms + time.setBy, monotonic: () => time.ms };
  const open = async (on: Clock = clock): Promise<Limits> => await Limits.open(await connect(), on);
  return { time, clock, open, database, limits: await Limits.open(database, clock) };
}

/** How many of a row of messages pass, one after another. */
async function passed(count: number, take: () => LimitVerdict | Promise<LimitVerdict>): Promise<number> {
  let passing = 0;
  for (let message = 0; message < count; message += 1) if ((await take()).allowed) passing += 1;
  return passing;
}

const rowsIn = (database: Database) => database.query('SELECT * FROM recipients_per_day');
const usedIn = async (database: Database) => (await rowsIn(database)).map((row) => Number(row['recipients']));

/** Defines the suite for one engine. */
export function limitsContract(engine: Engine): void {
  describe(engine.name, () => {
    test('an account without limits costs no row', async () => {
      const { limits, database } = await setUp(engine);
      expect(await passed(1000, () => limits.take(accountWith({}), 50))).toBe(1000);
      expect(await rowsIn(database)).toEqual([]);
    });

    describe('messages a minute', () => {
      test('exactly as many pass, then the wait is told', async () => {
        const { limits, time } = await setUp(engine);
        const account = accountWith({ messagesPerMinute: 5 });
        expect(await passed(5, () => limits.take(account, 1))).toBe(5);
        expect(await limits.take(account, 1)).toEqual({
          allowed: false,
          code: 'E_RATE_LIMIT_EXCEEDED',
          retryAfterSeconds: 60,
        });
        time.ms += 59_000;
        expect(await limits.take(account, 1)).toEqual({
          allowed: false,
          code: 'E_RATE_LIMIT_EXCEEDED',
          retryAfterSeconds: 1,
        });
        time.ms += 1000;
        expect(await passed(9, () => limits.take(account, 1))).toBe(5);
      });

      test('the window slides: no 60 seconds have more, wherever they begin', async () => {
        const { limits, time } = await setUp(engine);
        const account = accountWith({ messagesPerMinute: 10 });
        const taken: number[] = [];
        for (let second = 0; second < 300; second += 1) {
          if ((await limits.take(account, 1)).allowed) taken.push(second);
          if ((await limits.take(account, 1)).allowed) taken.push(second);
          time.ms += 1000;
        }
        for (let from = 0; from <= 240; from += 1) {
          expect(taken.filter((second) => second >= from && second < from + 60).length).toBeLessThanOrEqual(10);
        }
        expect(taken).toHaveLength(50);
      });

      test('a wait that was told is long enough', async () => {
        const { limits, time } = await setUp(engine);
        const account = accountWith({ messagesPerMinute: 3 });
        for (let round = 0; round < 20; round += 1) {
          time.ms += 7_300;
          const verdict = await limits.take(account, 1);
          if (verdict.allowed) continue;
          time.ms += verdict.retryAfterSeconds * 1000;
          expect((await limits.take(account, 1)).allowed).toBe(true);
        }
      });

      test('one account does not use up another', async () => {
        const { limits } = await setUp(engine);
        const one = accountWith({ messagesPerMinute: 1 });
        const two = accountWith({ messagesPerMinute: 1 }, 'b2'.repeat(16));
        const verdicts = await Promise.all([limits.take(one, 1), limits.take(two, 1), limits.take(one, 1)]);
        expect(verdicts.map(({ allowed }) => allowed)).toEqual([true, true, false]);
      });

      test.each([-3_600_000, 3_600_000])('a clock set by %i ms neither shuts nor opens the account', async (setBy) => {
        const { limits, time } = await setUp(engine);
        const account = accountWith({ messagesPerMinute: 2 });
        expect(await passed(3, () => limits.take(account, 1))).toBe(2);
        time.setBy = setBy;
        expect(await limits.take(account, 1)).toMatchObject({ allowed: false, retryAfterSeconds: 60 });
        time.ms += 60_000;
        expect(await passed(3, () => limits.take(account, 1))).toBe(2);
      });
    });

    describe('recipients a day', () => {
      test.each([
        [10, 10, true],
        [10, 11, false],
        [1, 1, true],
        [100_000, 100_000, true],
        [100_000, 100_001, false],
      ])('of %d, %d at once: %s', async (limit, recipients, allowed) => {
        const { limits } = await setUp(engine);
        expect((await limits.take(accountWith({ recipientsPerDay: limit }), recipients)).allowed).toBe(allowed);
      });

      test('exactly as many pass; a refusal charges nothing', async () => {
        const { limits, time } = await setUp(engine, midnight + 3_600_000);
        const account = accountWith({ recipientsPerDay: 1000 });
        expect(await passed(400, () => limits.take(account, 3))).toBe(333);
        expect(await limits.take(account, 2)).toEqual({
          allowed: false,
          code: 'E_DAILY_LIMIT_EXCEEDED',
          retryAfterSeconds: 23 * 3600,
        });
        expect((await limits.take(account, 1)).allowed).toBe(true);
        expect((await limits.take(account, 1)).allowed).toBe(false);
        time.ms = midnight + 86_400_000;
        expect((await limits.take(account, 1000)).allowed).toBe(true);
      });

      test('one account does not use up another, nor gives back what another has set aside', async () => {
        const { limits, database } = await setUp(engine);
        const [one, two] = ['a1', 'b2'].map((digits) => accountWith({ recipientsPerDay: 1000 }, digits.repeat(16)));
        if (!one || !two) throw new Error('no accounts');
        expect((await limits.take(one, 995)).allowed).toBe(true);
        expect([(await limits.ask(two, 1000)).allowed, (await limits.ask(one, 6)).allowed]).toEqual([true, false]);
        expect((await limits.take(two, 1)).allowed).toBe(true);
        // Ten were set aside for the other; what is left of them is given back at the end, to its own count.
        await limits.close();
        expect((await usedIn(database)).toSorted((left, right) => left - right)).toEqual([1, 995]);
      });

      test('a message refused for the day does not count for the minute', async () => {
        const { limits } = await setUp(engine);
        const account = accountWith({ recipientsPerDay: 5, messagesPerMinute: 1 });
        expect(await limits.take(account, 6)).toMatchObject({ code: 'E_DAILY_LIMIT_EXCEEDED' });
        expect((await limits.take(account, 5)).allowed).toBe(true);
      });

      test.runIf(engine.isShared)('a restart goes on where it stopped', async () => {
        const { limits, database, open } = await setUp(engine);
        const account = accountWith({ recipientsPerDay: 1000 });
        expect((await limits.take(account, 700)).allowed).toBe(true);
        await limits.close();
        expect(await usedIn(database)).toEqual([700]);
        const next = await open();
        expect((await next.take(account, 301)).allowed).toBe(false);
        expect((await next.take(account, 300)).allowed).toBe(true);
      });

      test.runIf(engine.isShared)('a crash loses at most what was set aside, a hundredth of the limit', async () => {
        const { limits, open } = await setUp(engine);
        const account = accountWith({ recipientsPerDay: 1000 });
        expect((await limits.take(account, 1)).allowed).toBe(true);
        const next = await open();
        expect(await passed(1000, () => next.take(account, 1))).toBe(990);
      });

      test.runIf(engine.isShared)('two processes on one store share the limit', async () => {
        const { limits, open } = await setUp(engine);
        const other = await open();
        const account = accountWith({ recipientsPerDay: 500 });
        let count = 0;
        for (let round = 0; round < 400; round += 1) {
          if ((await limits.take(account, 1)).allowed) count += 1;
          if ((await other.take(account, 1)).allowed) count += 1;
        }
        expect(count).toBe(500);
      });

      test('a write is made for many messages, not for each', async () => {
        const { limits, database } = await setUp(engine);
        const account = accountWith({ recipientsPerDay: 100_000 });
        const seen = new Set<number>();
        for (let round = 0; round < 2500; round += 1) {
          await limits.take(account, 1);
          if (round % 25 === 0) seen.add((await usedIn(database))[0] ?? 0);
        }
        expect([...seen]).toEqual([1000, 2000, 3000]);
      });

      test('messages at once never have the same recipients: exactly as many pass as the day has left', async () => {
        const { limits, database } = await setUp(engine);
        const account = accountWith({ recipientsPerDay: 250 });
        const verdicts = await Promise.all(Array.from({ length: 400 }, async () => await limits.take(account, 1)));
        expect(verdicts.filter(({ allowed }) => allowed)).toHaveLength(250);
        expect(await usedIn(database)).toEqual([250]);
        const last = accountWith({ recipientsPerDay: 10, messagesPerMinute: 1 }, 'b2'.repeat(16));
        const both = await Promise.all([limits.take(last, 10), limits.take(last, 10)]);
        expect(both.map(({ allowed }) => allowed)).toEqual([true, false]);
      });

      test('where the store fails nothing is charged, and all that wait for it hear of it', async () => {
        const { limits, database } = await setUp(engine);
        const account = accountWith({ recipientsPerDay: 10, messagesPerMinute: 2 });
        await database.run('ALTER TABLE recipients_per_day RENAME TO away');
        const failing = [limits.take(account, 5), limits.take(account, 5)].map((one) =>
          expect(one).rejects.toThrow('recipients_per_day'),
        );
        await Promise.all(failing);
        await database.run('ALTER TABLE away RENAME TO recipients_per_day');
        expect(await passed(3, () => limits.take(account, 5))).toBe(2);
      });

      test('days long gone are forgotten', async () => {
        const { limits, database, time } = await setUp(engine);
        const account = accountWith({ recipientsPerDay: 10 });
        // An account that sends no more keeps the count of its last day.
        await limits.take(accountWith({ recipientsPerDay: 10 }, 'b2'.repeat(16)), 1);
        for (let day = 0; day < 20; day += 1) {
          await limits.take(account, 1);
          time.ms += 86_400_000;
        }
        expect(await rowsIn(database)).toHaveLength(8 + 1);
      });
    });

    describe('asking and giving back', () => {
      const both = accountWith({ messagesPerMinute: 2, recipientsPerDay: 10 });

      test('to ask charges nothing, however often, and tells what a charge would', async () => {
        const { limits, database } = await setUp(engine);
        expect(await passed(100, () => limits.ask(both, 10))).toBe(100);
        expect(await limits.ask(both, 11)).toMatchObject({ code: 'E_DAILY_LIMIT_EXCEEDED' });
        expect(await rowsIn(database)).toEqual([]);
        expect((await limits.take(both, 9)).allowed).toBe(true);
        expect((await limits.ask(both, 1)).allowed).toBe(true);
        expect(await limits.ask(both, 2)).toEqual(await limits.take(both, 2));
        expect((await limits.take(both, 1)).allowed).toBe(true);
        expect(await limits.ask(both, 1)).toEqual(await limits.take(both, 1));
      });

      test.runIf(engine.isShared)('what another process used up is known without a charge', async () => {
        const { limits, open, time } = await setUp(engine);
        const other = await open(clockOf(() => time.ms));
        expect((await other.take(both, 8)).allowed).toBe(true);
        expect(await limits.ask(both, 3)).toMatchObject({ code: 'E_DAILY_LIMIT_EXCEEDED' });
        expect((await limits.ask(both, 2)).allowed).toBe(true);
      });

      test('what is given back may be taken again, for the minute and for the day', async () => {
        const { limits, time } = await setUp(engine);
        for (let round = 0; round < 50; round += 1) {
          expect((await limits.take(both, 10)).allowed).toBe(true);
          limits.giveBack(both, 10);
          time.ms += 100;
        }
        expect((await limits.take(both, 5)).allowed).toBe(true);
        expect((await limits.take(both, 5)).allowed).toBe(true);
        expect((await limits.ask(both, 1)).allowed).toBe(false);
      });
    });

    describe('gateways that count together', () => {
      async function setUpTwo() {
        const made = await setUp(engine);
        const { clock, database } = made;
        const open = async (): Promise<ToldCounts> => {
          const minutes = createMinuteCounts(() => clock.monotonic());
          const counts = await ToldCounts.open(database, { clock, log: silentLog, minutes });
          return counts;
        };
        const [one, two] = [await open(), await open()];
        const exchange = async (): Promise<void> => {
          for (const each of [one, two, one]) await each.exchange();
        };
        return { ...made, one, two, exchange };
      }

      test('messages of the last minute are those of all, once they were told, until a minute later or their gateway ends', async () => {
        const { one, two, time, exchange } = await setUpTwo();
        for (let message = 0; message < 6; message += 1) expect(one.take('a', 10)).toBe(0);
        expect(two.ask('a', 6)).toBe(0);
        await exchange();
        expect(two.ask('a', 6)).toBe(60);
        for (let message = 0; message < 4; message += 1) expect(two.take('a', 10)).toBe(0);
        expect(two.take('a', 10)).toBeGreaterThan(0);
        expect(two.ask('b', 1)).toBe(0);
        two.giveBack('a');
        expect(two.take('a', 10)).toBe(0);
        await exchange();
        expect(one.take('a', 10)).toBeGreaterThan(0);
        await two.close();
        await one.exchange();
        expect(one.take('a', 10)).toBe(0);
        time.ms += 61_000;
        await one.exchange();
        expect(one.ask('a', 1)).toBe(0);
        await one.close();
      });

      test('the window of a client of a zone is told with what is left of it, and ends for all', async () => {
        const { one, two, time, exchange } = await setUpTwo();
        const limit = { requests: 5, perSeconds: 100 };
        for (let request = 0; request < 3; request += 1) expect(one.takeWindow('zone z', limit, '192.0.2.1')).toBe(0);
        time.ms += 40_000;
        await exchange();
        for (let request = 0; request < 2; request += 1) expect(two.takeWindow('zone z', limit, '192.0.2.1')).toBe(0);
        expect(two.takeWindow('zone z', limit, '192.0.2.1')).toBe(100);
        expect(two.takeWindow('zone z', limit, '192.0.2.2')).toBe(0);
        expect(two.takeWindow('zone y', limit, '192.0.2.1')).toBe(0);
        time.ms += 60_000;
        expect(two.takeWindow('zone z', limit, '192.0.2.1')).toBe(0);
        await Promise.all([one.close(), two.close()]);
      });

      test('an end while the database is away is no fault, and rows that were left are removed by the next gateway', async () => {
        const { one, two, clock, database, time, exchange } = await setUpTwo();
        one.take('a', 10);
        await exchange();
        time.ms += 2 * 3_600_000;
        const minutes = createMinuteCounts(() => clock.monotonic());
        const next = await ToldCounts.open(database, { clock, log: silentLog, minutes });
        expect(await database.query('SELECT process FROM told_counts')).toEqual([]);
        await database.close();
        await Promise.all([one.close(), two.close(), next.close()]);
      });

      test('one that never asked less than it may is told of its wait by what others told', async () => {
        const { one, two, exchange } = await setUpTwo();
        const limit = { requests: 2, perSeconds: 30 };
        for (let request = 0; request < 2; request += 1) expect(one.takeWindow('zone z', limit, '192.0.2.9')).toBe(0);
        await exchange();
        expect(two.takeWindow('zone z', limit, '192.0.2.9')).toBe(30);
        await Promise.all([one.close(), two.close()]);
        expect(await one.exchange()).toBeUndefined();
      });

      test.each([
        'no JSON',
        '{"minute a":',
        'null',
        '[1]',
        '{"minute a":null}',
        '{"minute a":["7",60000]}',
        '{"minute a":[{},60000]}',
        '{"minute a":[9,null],"__proto__":[9,60000],"constructor":[1e999,1e999]}',
      ])('a damaged row (%s) is passed over: what the others told still counts', async (counts) => {
        const { one, two, time, database, exchange } = await setUpTwo();
        for (const process of ['!', 'ffffffff', '~'])
          await database.run('INSERT INTO told_counts VALUES ($1, $2, $3)', [process, time.ms, counts]);
        for (let message = 0; message < 3; message += 1) expect(one.take('a', 9)).toBe(0);
        await exchange();
        expect(two.ask('a', 3)).toBeGreaterThan(0);
        expect(two.ask('a', 4)).toBe(0);
        await Promise.all([one.close(), two.close()]);
      });

      test('a flood of clients that ask once hides none that has used up its limit', async () => {
        const { one, two, exchange } = await setUpTwo();
        const limit = { requests: 10, perSeconds: 600 };
        for (let client = 0; client < 2000; client += 1)
          one.takeWindow('zone z', limit, `10.0.${client >> 8}.${client & 255}`);
        for (let request = 0; request < 10; request += 1) one.takeWindow('zone z', limit, '192.0.2.1');
        await exchange();
        expect(two.takeWindow('zone z', limit, '192.0.2.1')).toBe(600);
        await Promise.all([one.close(), two.close()]);
      });
    });
  });
}
