// How long the supervisor waits before it starts a process again. One that ends again and again is started less and less often.

const firstMs = 100;
const longestMs = 30_000;
/** A process that served for so long has failed for another reason than the last time. */
const steadyMs = 60_000;

/** The delays of one process. */
export class RestartDelay {
  #failures = 0;

  /**
   * A process has ended.
   * @param servedMs how long it took connections; 0 where it never did
   * @returns milliseconds until the next start
   */
  next(servedMs: number): number {
    if (servedMs >= steadyMs) this.#failures = 0;
    const delay = Math.min(longestMs, firstMs * 2 ** this.#failures);
    this.#failures += 1;
    return delay;
  }
}
