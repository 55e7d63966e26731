// Queues of work, one for each key: of an account, so that one which asks for much keeps its own requests waiting and not the others'
// or the spool, or of a thing that is written.

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
