// Work that any client may ask for, done at a fixed pace however many ask. Callers share a run of the work, and each run begins
// after all who share it have asked.

/** How often the work runs, and how many callers may wait for it. */
interface Pace {
  /** Milliseconds between the beginnings of two runs, by the monotonic clock. */
  readonly paceMs: number;
  /** A caller that comes while so many wait gets undefined at once. */
  readonly maxWaiting: number;
}

/**
 * Paces work. The first caller after a pause is served at once. Callers that come while a run is under way, or too soon
 * after one, wait for the next run and share it.
 * @param work one run; it begins after every caller that shares it has asked
 * @returns the function by which callers ask; it rejects with what `work` rejects with
 */
export function createPaced<T>(work: () => Promise<T>, { paceMs, maxWaiting }: Pace): () => Promise<T | undefined> {
  let waiting = 0;
  let begunAt = Number.NEGATIVE_INFINITY;
  let underWay: Promise<unknown> = Promise.resolve();
  let next: Promise<T> | undefined;

  async function run(): Promise<T> {
    await underWay;
    const pauseMs = begunAt + paceMs - performance.now();
    if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs));
    next = undefined;
    begunAt = performance.now();
    const result = work();
    underWay = result.then(
      () => undefined,
      () => undefined,
    );
    return await result;
  }

  return async () => {
    if (waiting >= maxWaiting) return undefined;
    waiting += 1;
    try {
      next ??= run();
      return await next;
    } finally {
      waiting -= 1;
    }
  };
}
