// Work on one thing at a time, work on different things at once.

/** Runs what is asked for the same key one after another, in the order of asking. */
export type Turns = <T>(key: string, work: () => Promise<T>) => Promise<T>;

/** Makes it; a key without work costs nothing. */
export function createTurns(): Turns {
  const last = new Map<string, Promise<unknown>>();
  return async (key, work) => {
    const before = last.get(key) ?? Promise.resolve();
    // How the one before ended is its own caller's affair.
    const mine = before.then(work, work);
    last.set(key, mine);
    try {
      return await mine;
    } finally {
      if (last.get(key) === mine) last.delete(key);
    }
  };
}
