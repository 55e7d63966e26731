// How long answers to wrong tokens wait, by a clock of the test's own (D92).

import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Guessing, type Penalty } from '../../src/accounts/guessing.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** A penalty that is known at once, as it is where one process counts. */
function ownPenalty(penalty: Penalty | Promise<Penalty>): Penalty {
  if (penalty instanceof Promise) throw new Error('the penalty is not known at once');
  return penalty;
}

/** Milliseconds until the answer is given; -1: turned away. */
async function delayOf(given: Penalty | Promise<Penalty>): Promise<number> {
  const penalty = await given;
  if (penalty.kind === 'turnedAway') return -1;
  let over = penalty.over === undefined;
  void penalty.over?.then(() => (over = true));
  for (let waited = 0; ; waited += 50) {
    if (over) return waited;
    await vi.advanceTimersByTimeAsync(50);
  }
}

test('the first wrong tokens are answered at once, later ones later and later', async () => {
  const guessing = new Guessing({});
  const delays: number[] = [];
  for (let guess = 0; guess < 12; guess += 1) delays.push(await delayOf(guessing.failed('192.0.2.1')));
  expect(delays).toEqual([0, 0, 0, 0, 0, 250, 500, 1000, 2000, 4000, 8000, 8000]);
  expect(await delayOf(guessing.failed('192.0.2.2'))).toBe(0);
});

test('an IPv6 network of 64 bits is one client, and IPv4 in IPv6 form is the IPv4 address', async () => {
  const guessing = new Guessing({ freeFailures: 1 });
  for (const [first, second, third] of [
    ['2001:db8:0:1::1', '2001:db8:0:1:ffff::2', '2001:db8:0:2::1'],
    ['192.0.2.7', '::ffff:192.0.2.7', '::ffff:192.0.2.8'],
  ] as const) {
    expect(await delayOf(guessing.failed(first))).toBe(0);
    expect(await delayOf(guessing.failed(second))).toBe(250);
    expect(await delayOf(guessing.failed(third))).toBe(0);
  }
});

test('time forgives, one wrong token every ten seconds', async () => {
  let now = 0;
  const guessing = new Guessing({ now: () => now, waitingPerAddress: 100 });
  for (let guess = 0; guess < 100; guess += 1) void guessing.failed('192.0.2.1');
  now += 120_000;
  expect(await delayOf(guessing.failed('192.0.2.1'))).toBe(2000);
  now += 3_600_000;
  expect(await delayOf(guessing.failed('192.0.2.1'))).toBe(0);
});

test('answers that wait are bounded by address and in all, and the bound is told', async () => {
  const guessing = new Guessing({ waitingPerAddress: 3, waiting: 5 });
  const kinds = (address: string): string[] =>
    Array.from({ length: 12 }, () => ownPenalty(guessing.failed(address))).map(({ kind }) => kind);
  expect(kinds('192.0.2.1').filter((kind) => kind === 'turnedAway')).toHaveLength(12 - 5 - 3);
  expect(kinds('192.0.2.2').filter((kind) => kind === 'turnedAway')).toHaveLength(12 - 5 - 2);
  expect(guessing.waiting).toBe(5);
  expect(guessing.failed('192.0.2.1')).toEqual({ kind: 'turnedAway', retryAfterSeconds: 8 });
  await vi.advanceTimersByTimeAsync(8000);
  expect(guessing.waiting).toBe(0);
  expect(ownPenalty(guessing.failed('192.0.2.1')).kind).toBe('wait');
});

test('while no more answers may wait every login of the address pauses, and nobody else’s', async () => {
  const guessing = new Guessing({ waitingPerAddress: 2 });
  for (let guess = 0; guess < 7; guess += 1) {
    expect(guessing.pause('192.0.2.1')).toBeUndefined();
    void guessing.failed('192.0.2.1');
  }
  let over = false;
  void guessing.pause('192.0.2.1')?.then(() => (over = true));
  expect(guessing.pause('192.0.2.2')).toBeUndefined();
  await vi.advanceTimersByTimeAsync(999);
  expect([over, guessing.waiting]).toEqual([false, 1]);
  await vi.advanceTimersByTimeAsync(1);
  expect([over, guessing.waiting]).toEqual([true, 0]);
  expect(guessing.pause('192.0.2.1')).toBeUndefined();
});

test('no more addresses are remembered than allowed: the one that failed longest ago goes', async () => {
  const guessing = new Guessing({ addresses: 100, freeFailures: 1 });
  void guessing.failed('198.51.100.1');
  for (let index = 0; index < 5000; index += 1) {
    void guessing.failed(`10.0.${index >> 8}.${index & 255}`);
    if (index % 50 === 0) void guessing.failed('198.51.100.1');
  }
  expect(guessing.addresses).toBe(100);
  expect(ownPenalty(guessing.failed('198.51.100.1')).kind).toBe('turnedAway');
  expect(await delayOf(guessing.failed('10.0.0.0'))).toBe(0);
});

test('closing ends every wait, and nobody waits any more', async () => {
  const guessing = new Guessing({ freeFailures: 0 });
  const penalty = await guessing.failed('192.0.2.1');
  guessing.close();
  if (penalty.kind === 'wait') await penalty.over;
  expect(guessing.waiting).toBe(0);
  expect(guessing.failed('192.0.2.1')).toEqual({ kind: 'wait' });
});
