// Figures by minute: what events count as, bounds, percentiles, and what happens when they cannot be written.

import { describe, expect, test } from 'vitest';
import { silentLog } from '../../../src/base/log.ts';
import {
  countedOf,
  latencyOfStep,
  latencyStep,
  openFigureStore,
  percentile,
} from '../../../src/spool/figures/figure-store.ts';
import {
  allAccounts,
  MinuteFigures,
  type Queues,
  sampleQueue,
  sampleQueues,
} from '../../../src/spool/figures/minute-figures.ts';
import { figuresContract } from '../../contract/figures.ts';
import { engines, openTestDatabase } from '../../support/engines.ts';
import { logLines } from '../../support/log-lines.ts';

for (const engine of engines) figuresContract(engine);

const minuteMs = 60_000;

async function figures(log = silentLog) {
  const database = await openTestDatabase(':memory:');
  const store = await openFigureStore(database);
  let now = 100 * minuteMs;
  const own = new MinuteFigures({ store, clock: { now: () => now }, log });
  return { database, store, own, pass: (minutes: number) => void (now += minutes * minuteMs) };
}

test('what is counted can be read at once, and is written once', async () => {
  const { store, own } = await figures();
  own.count('dev', 100 * minuteMs + 5, [{ name: 'accepted', count: 1 }]);
  own.count('dev', 100 * minuteMs + 59_999, [{ name: 'accepted', count: 2 }]);
  const read = { account: 'dev', since: 0, step: 1 };
  expect(await own.read(read)).toEqual([{ minute: 100, name: 'accepted', count: 3 }]);
  await own.stop();
  expect(await store.read(read)).toEqual([{ minute: 100, name: 'accepted', count: 3 }]);
});

test('an account has a bounded number of names in a minute, and loses no count by that', async () => {
  const { own } = await figures();
  for (let turn = 0; turn < 1000; turn += 1) {
    own.count('dev', 0, [{ name: `reason E X-${turn}`, instead: 'reason E', count: 1 }]);
  }
  const read = await own.read({ account: 'dev', since: 0, step: 1 });
  expect(read.length).toBe(201);
  expect(read.find(({ name }) => name === 'reason E')?.count).toBe(800);
  // The names of one account take no room of another, and neither counts for it.
  own.count('other', 0, [{ name: 'reason E X-own', instead: 'reason E', count: 7 }]);
  expect(await own.read({ account: 'other', since: 0, step: 1 })).toEqual([
    { minute: 0, name: 'reason E X-own', count: 7 },
  ]);
  own.count('dev', 0, [{ name: 'accepted', count: 1 }]);
  own.count('other', 0, [{ name: 'accepted', count: 2 }]);
  const accepted = async (account: string) =>
    (await own.read({ account, since: 0, step: 1 })).find(({ name }) => name === 'accepted')?.count;
  expect([await accepted('dev'), await accepted('other')]).toEqual([1, 2]);
});

test('after a day they go', async () => {
  const { own, pass } = await figures();
  own.count('dev', 100 * minuteMs, [{ name: 'accepted', count: 1 }]);
  await own.write();
  pass(24 * 60);
  await own.write();
  expect(await own.read({ since: 0, step: 1 })).toHaveLength(1);
  pass(1);
  expect(await own.read({ since: 0, step: 1 })).toHaveLength(0);
});

test('while the database is away they wait, within bounds, and one line is logged', async () => {
  const { log, lines } = logLines();
  const { own, database } = await figures(log);
  await database.close();
  for (let turn = 0; turn < 60_000; turn += 1) own.count(`a${turn}`, 0, [{ name: 'accepted', count: 1 }]);
  await own.write();
  await own.write();
  expect(lines.map(({ msg }) => msg)).toEqual(['figures by minute could not be written']);
});

describe('names', () => {
  const base = { at: 5000, account: 'dev', sessionId: 's' };
  const refused = { ...base, kind: 'refused', stage: 'message', recipients: [], violationCount: 3 } as const;

  test('a refusal counts once for each reason, and no field makes a name that a database refuses', () => {
    const fields = ['X-A', 'X-A', 'X\u0000B', 'ü', 'a:b', 'x'.repeat(101), '~'];
    const violations = fields.map((field) => ({ code: 'E', message: '', field }));
    expect(countedOf({ ...refused, violations })).toEqual([
      { name: 'refused', count: 1 },
      { name: 'reason E X-A', instead: 'reason E', count: 1 },
      { name: 'reason E', instead: 'reason E', count: 1 },
    ]);
  });

  test('percentiles are right to a tenth', () => {
    for (const ms of [1, 7, 100, 1234, 86_400_000]) {
      expect(Math.abs(latencyOfStep(latencyStep(ms)) / ms - 1)).toBeLessThan(0.1);
    }
    expect(latencyStep(-5)).toBe(0);
    const counts = new Map([
      [latencyStep(1000), 99],
      [latencyStep(10), 100],
      [latencyStep(60_000), 1],
    ]);
    expect(percentile(counts, 0.5)).toBe(latencyOfStep(latencyStep(10)));
    expect(percentile(counts, 0.99)).toBe(latencyOfStep(latencyStep(1000)));
    expect(percentile(counts, 1)).toBe(latencyOfStep(latencyStep(60_000)));
    expect(percentile(new Map(), 0.5)).toBeNull();
  });
});

describe('what waits', () => {
  const at = 200_000;
  async function toldOf(queues: Queues | undefined): Promise<Record<string, Record<string, number>>> {
    const told: Record<string, Record<string, number>> = {};
    await sampleQueue({
      queues: () => Promise.resolve(queues),
      tell: (account, _, counted) => {
        told[account] = Object.fromEntries(counted.map(({ name, count }) => [name, count]));
      },
      clock: { now: () => at },
      log: silentLog,
    });
    return told;
  }

  test('is told of each account that has some, and of all together', async () => {
    const accounts = [
      { account: 'dev', recipients: 2, oldestAt: 170_000 },
      { account: 'large', recipients: 5 },
      { account: 'idle', recipients: 0 },
    ];
    expect(await toldOf({ accounts, oldestAt: 140_000 })).toEqual({
      dev: { 'now waiting': 2, 'now oldest': 30 },
      large: { 'now waiting': 5 },
      [allAccounts]: { 'now waiting': 7, 'now oldest': 60 },
    });
    expect(await toldOf({ accounts: [] })).toEqual({ [allAccounts]: { 'now waiting': 0, 'now oldest': 0 } });
    expect(await toldOf(undefined)).toEqual({});
  });

  test('of very many accounts those with the most are told of', async () => {
    const accounts = Array.from({ length: 3000 }, (_, index) => ({ account: `a${index}`, recipients: index + 1 }));
    const told = await toldOf({ accounts });
    expect(Object.keys(told)).toHaveLength(1001);
    expect(told).toMatchObject({ a2999: { 'now waiting': 3000 }, [allAccounts]: { 'now waiting': 4_501_500 } });
  });

  test('is told once a minute, also after a failure', async () => {
    let now = 0;
    let asked = 0;
    const told: number[] = [];
    const stop = sampleQueues({
      queues: () => {
        asked += 1;
        return asked === 1 ? Promise.reject(new Error('away')) : Promise.resolve({ accounts: [] });
      },
      tell: (_, time) => void told.push(time),
      clock: { now: () => now },
      log: silentLog,
    });
    await expect.poll(() => asked).toBe(1);
    now = minuteMs;
    await expect.poll(() => told).toEqual([minuteMs]);
    await stop();
    expect(asked).toBe(2);
  });
});
