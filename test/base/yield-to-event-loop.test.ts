import { expect, test } from 'vitest';
import { createSlices, sliceMs } from '../../src/base/yield-to-event-loop.ts';

interface Loop {
  readonly yieldNow: () => Promise<void>;
  time: number;
  /** Runs one turn of the loop; tells how many functions it ran. */
  turn(): Promise<number>;
}

async function drainMicrotasks(): Promise<void> {
  for (let microtask = 0; microtask < 20; microtask += 1) await Promise.resolve();
}

function createLoop(): Loop {
  let deferred: (() => void)[] = [];
  const ticks: (() => void)[] = [];
  const loop: Loop = {
    time: 0,
    yieldNow: createSlices({
      now: () => loop.time,
      defer: (run) => void deferred.push(run),
      afterPiece: (run) => void ticks.push(run),
    }),
    turn: async () => {
      const run = deferred;
      deferred = [];
      for (const each of run) each();
      await drainMicrotasks();
      for (let tick = ticks.shift(); tick; tick = ticks.shift()) {
        tick();
        await drainMicrotasks();
      }
      return run.length;
    },
  };
  return loop;
}

/** Work of `pieces` pieces, each of which takes `millisecondsEach`; each is noted in `done`. */
async function work(
  loop: Loop,
  options: { pieces: number; millisecondsEach: number; done: () => void },
): Promise<void> {
  for (let piece = 0; piece < options.pieces; piece += 1) {
    await loop.yieldNow();
    loop.time += options.millisecondsEach;
    options.done();
  }
}

test('pieces of one slice run in one turn, the next slice in a later one', async () => {
  const loop = createLoop();
  const done: number[] = [];
  const ended = work(loop, { pieces: 10, millisecondsEach: sliceMs / 4, done: () => void done.push(loop.time) });
  const seen: number[] = [];
  while (done.length < 10) {
    expect(await loop.turn()).toBe(1);
    seen.push(done.length);
  }
  await ended;
  expect(seen).toEqual([4, 8, 10]);
  expect(await loop.turn()).toBe(0);
});

test('of a hundred that work at once, one has a slice in a turn, in the order of asking', async () => {
  const loop = createLoop();
  const order: number[] = [];
  const all = Array.from({ length: 100 }, (_, index) =>
    work(loop, { pieces: 2, millisecondsEach: sliceMs, done: () => void order.push(index) }),
  );
  for (let turn = 1; turn <= 200; turn += 1) {
    expect(await loop.turn()).toBe(1);
    expect(order).toHaveLength(turn);
  }
  await Promise.all(all);
  expect(order).toEqual([...order.slice(0, 100), ...order.slice(0, 100)]);
  expect(order[99]).toBe(99);
});

test('those who wait share a slice, in the order of asking, and who comes later does not pass them', async () => {
  const loop = createLoop();
  const order: number[] = [];
  const works = (from: number, to: number): Promise<void>[] =>
    Array.from({ length: to - from }, (_, index) =>
      work(loop, { pieces: 1, millisecondsEach: sliceMs / 4, done: () => void order.push(from + index) }),
    );
  const early = works(0, 10);
  await loop.turn();
  expect(order).toEqual([0, 1, 2, 3]);
  const late = works(10, 12);
  await loop.turn();
  await loop.turn();
  expect(order).toEqual(Array.from({ length: 12 }, (_, index) => index));
  await Promise.all([...early, ...late]);
});

test('of the real one, many that work a little are done within a few turns', async () => {
  const yieldNow = createSlices();
  const turns = { counted: 0, ended: false };
  const count = (): void => {
    turns.counted += 1;
    if (!turns.ended) setImmediate(count);
  };
  setImmediate(count);
  await Promise.all(
    Array.from({ length: 1000 }, async () => {
      await yieldNow();
      await Promise.resolve();
    }),
  );
  turns.ended = true;
  expect(turns.counted).toBeLessThan(100);
});

test('the real one gives way to timers and input', async () => {
  const yieldNow = createSlices();
  const fired: number[] = [];
  const timer = setInterval(() => void fired.push(1), 1);
  while (fired.length < 3) await yieldNow();
  clearInterval(timer);
});
