// A process's end of the windows that the supervisor counts. A client whose window is full is refused here until its end, so that
// whoever is over the limit costs the supervisor nothing.

import type { SharedWindows, WindowLimit } from '../base/process-group.ts';
import type { LimitQuestions } from './messages.ts';

type Asked = LimitQuestions['takeWindow']['asked'];

/** Full windows that are remembered. The one that was found full first is forgotten for a new one, and asked about again. */
const mostFull = 50_000;

/** Asks the supervisor, unless it is known that the window of a client is full. */
export class AskedWindows implements SharedWindows {
  readonly #ask: (asked: Asked) => Promise<number>;
  /** Until when windows are full for certain, in milliseconds of the monotonic clock: they end within a second after that. */
  readonly #full = new Map<string, number>();

  /** @param ask asks the supervisor; it rejects where that is gone */
  constructor(ask: (asked: Asked) => Promise<number>) {
    this.#ask = ask;
  }

  async take(name: string, limit: WindowLimit, address: string): Promise<number> {
    // The limit is part of the key: a reload may have given more.
    const key = `${name} ${limit.requests} ${limit.perSeconds} ${address}`;
    const until = this.#full.get(key);
    if (until !== undefined) {
      const leftMs = until - performance.now();
      // Whoever waits so long is served.
      if (leftMs > 0) return Math.ceil((leftMs + 1000) / 1000);
      this.#full.delete(key);
    }
    const seconds = await this.#ask({ name, limit, address });
    if (seconds > 0) this.#remember(key, seconds);
    return seconds;
  }

  #remember(key: string, seconds: number): void {
    this.#full.delete(key);
    const [oldest] = this.#full.size >= mostFull ? this.#full.keys() : [];
    if (oldest !== undefined) this.#full.delete(oldest);
    // The supervisor rounds up to whole seconds.
    this.#full.set(key, performance.now() + (seconds - 1) * 1000);
  }
}
