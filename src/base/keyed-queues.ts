// Queues of work, one for each key: of an account, so that one which asks for much keeps its own requests waiting and not the others'
// or the spool, or of a thing that is written.

import { setTimeout as sleep } from 'node:timers/promises';
import type { MonotonicClock } from './clock.ts';

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

/** How many times as long as work took the next of its key waits, and the longest such wait in milliseconds. */
const rest = { times: 4, mostMs: 1000 } as const;

/**
 * Makes queues of work that takes long from the main thread or the database: behind it, the next of the same key waits four times
 * as long as it took, a second at most, so that one who asks without a pause leaves most of the time to others. Results do not wait.
 */
export function createRestingQueues(clock: MonotonicClock): KeyedQueues {
  const queued = createKeyedQueues();
  return async <T>(key: string, work: () => Promise<T>) => {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    void queued(key, async () => {
      const begunAt = clock.monotonic();
      await work().then(resolve, reject);
      const restMs = Math.min(rest.mostMs, rest.times * (clock.monotonic() - begunAt));
      if (restMs > 0) await sleep(restMs, undefined, { ref: false });
    });
    return await promise;
  };
}
