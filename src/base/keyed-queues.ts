// Queues of work by key: of an account, which so keeps its own requests waiting and no others', or of a thing that is written.

import { setTimeout as sleep } from 'node:timers/promises';
import type { MonotonicClock } from './clock.ts';
import { Counts } from './counts.ts';
import { TooMuchAsked } from './errors.ts';

/** Does work once all that was asked for the same key before has ended, and gives its result. */
export type KeyedQueues = <T>(key: string, work: () => Promise<T>) => Promise<T>;

/** Makes the queues. A key without work takes no memory; how much work may wait is the caller's to limit. */
export function createKeyedQueues(): KeyedQueues {
  const last = new Map<string, Promise<unknown>>();
  return async (key, work) => {
    const before = last.get(key) ?? Promise.resolve();
    // Whether the work before succeeded or failed matters to its own caller only.
    const mine = before.then(work, work);
    last.set(key, mine);
    try {
      return await mine;
    } finally {
      if (last.get(key) === mine) last.delete(key);
    }
  };
}

/** The longest rest behind a piece of work, in milliseconds. */
const longestRestMs = 1000;
/** Pieces of work of one key that wait, or are under way, at most. */
const mostAsked = 250;

/**
 * Makes queues of work that takes long from the main thread or the database: behind it, the next of the same key waits some times
 * as long as it took, a second at most, so that one who asks without a pause leaves most of the time to others. Results do not wait.
 * Work is refused with TooMuchAsked where 250 pieces of its key have not ended.
 */
export function createRestingQueues(clock: MonotonicClock, times = 4): KeyedQueues {
  const queued = createKeyedQueues();
  const asked = new Counts();
  return async <T>(key: string, work: () => Promise<T>) => {
    if (asked.of(key) >= mostAsked) throw new TooMuchAsked(`${mostAsked} changes of this account wait already`);
    asked.add(key);
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    void queued(key, async () => {
      const begunAt = clock.monotonic();
      await work().then(resolve, reject);
      asked.add(key, -1);
      const restMs = Math.min(longestRestMs, times * (clock.monotonic() - begunAt));
      if (restMs > 0) await sleep(restMs, undefined, { ref: false });
    });
    return await promise;
  };
}
