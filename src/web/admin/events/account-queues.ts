// Gives the searches of each account their turns, so that an account which asks for many pages at once keeps its own requests
// waiting, and not the spool that mail is written to.

/** Runs a search when those of its account that were asked for before have ended; its result is that of the search. */
export type AccountQueues = <T>(account: string, search: () => Promise<T>) => Promise<T>;

/** Makes the turns. No more wait than requests are open (`http.limits`). */
export function createAccountQueues(): AccountQueues {
  const last = new Map<string, Promise<unknown>>();
  return async (account, search) => {
    const before = last.get(account) ?? Promise.resolve();
    const turn = before.then(search, search);
    last.set(account, turn);
    try {
      return await turn;
    } finally {
      if (last.get(account) === turn) last.delete(account);
    }
  };
}
