// Work for the same key is done one piece at a time; work for different keys is done at the same time.

/** Runs what is asked for the same key one after another, in the order of asking. */
export type Turns = <T>(key: string, work: () => Promise<T>) => Promise<T>;

/** Makes the turns. A key without work takes no memory. */
export function createTurns(): Turns {
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
