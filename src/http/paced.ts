// Work that anybody may ask for, done at a pace that nobody who asks can change: many who ask share one answer, and each
// answer was made after they asked.

/** How often, and for how many at once. */
export interface Pace {
  /** Milliseconds between the beginnings of two runs, by the monotonic clock. */
  readonly paceMs: number;
  /** Who comes while so many wait gets undefined at once. */
  readonly maxWaiting: number;
}

/**
 * Makes work paced. The first who asks after a pause is served at once; those who ask while a run is under way or too
 * soon behind one wait for the next and share it.
 * @param work begins after everybody who shares it has asked
 * @returns asks; rejects with what `work` rejects with
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
