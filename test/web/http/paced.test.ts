// Work at a pace: shared by all who ask, made after they asked, bounded in those who wait.

import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createPaced } from '../../../src/web/http/metrics.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test('twenty readers in a loop make ten readings a second, and each hears of what was before it asked', async () => {
  let runs = 0;
  let state = 0;
  const ask = createPaced(
    () => {
      runs += 1;
      return Promise.resolve(state);
    },
    { paceMs: 100, maxWaiting: 256 },
  );
  let answers = 0;
  const reader = async (): Promise<void> => {
    for (;;) {
      state += 1;
      const asked = state;
      expect(await ask()).toBeGreaterThanOrEqual(asked);
      answers += 1;
    }
  };
  for (let index = 0; index < 20; index += 1) void reader();
  await vi.advanceTimersByTimeAsync(999);
  expect(runs).toBe(10);
  expect(answers).toBe(200);
});

test('who comes while too many wait is told so, and the places are free again afterwards', async () => {
  const ask = createPaced(() => Promise.resolve('text'), { paceMs: 100, maxWaiting: 3 });
  const first = await Promise.all([ask(), ask(), ask(), ask()]);
  expect(first).toEqual(['text', 'text', 'text', undefined]);
  const second = ask();
  await vi.advanceTimersByTimeAsync(100);
  expect(await second).toBe('text');
});

test('a run that fails fails for those who share it, and the next runs', async () => {
  let runs = 0;
  const ask = createPaced(
    async () => {
      runs += 1;
      if (runs === 1) throw new Error('broken');
      return runs;
    },
    { paceMs: 100, maxWaiting: 3 },
  );
  const both = await Promise.allSettled([ask(), ask()]);
  expect(both.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  const next = ask();
  await vi.advanceTimersByTimeAsync(100);
  expect(await next).toBe(2);
});

test('a slow run is not begun again before it has ended', async () => {
  let open = 0;
  let most = 0;
  const ask = createPaced(
    async () => {
      open += 1;
      most = Math.max(most, open);
      await new Promise((resolve) => setTimeout(resolve, 500));
      open -= 1;
    },
    { paceMs: 100, maxWaiting: 8 },
  );
  const asked = [ask(), ask()];
  await vi.advanceTimersByTimeAsync(50);
  asked.push(ask(), ask());
  await vi.advanceTimersByTimeAsync(1100);
  await Promise.all(asked);
  expect(most).toBe(1);
});
