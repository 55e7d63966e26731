import type { CommandIo } from './command.ts';

/** Milliseconds between two writings. */
const everyMs = 100;
const barWidth = 30;

/**
 * Shows how far a long command is, on one line of standard error that is overwritten, where that is a terminal, and nothing elsewhere.
 */
export class ProgressLine {
  readonly #stderr: CommandIo['stderr'];
  readonly #what: string;
  #shownAt = Number.NEGATIVE_INFINITY;
  #isShown = false;

  /** @param what stands before the bar: `Reading events` */
  constructor(stderr: CommandIo['stderr'], what: string) {
    this.#stderr = stderr;
    this.#what = what;
  }

  /** Whether standard error is a terminal, so that somebody sees the line. */
  get isWatched(): boolean {
    return this.#stderr.isTTY === true;
  }

  /** Shows that `done` of `all` is done, in any unit. @param note stands behind the bar: `1,204 messages` */
  show(done: number, all: number, note = ''): void {
    if (!this.isWatched) return;
    const now = performance.now();
    if (now - this.#shownAt < everyMs) return;
    this.#shownAt = now;
    this.#isShown = true;
    const part = all > 0 ? Math.min(1, done / all) : 1;
    const bar = '#'.repeat(Math.round(part * barWidth)).padEnd(barWidth, '.');
    this.#stderr.write(`\r${this.#what} [${bar}] ${Math.floor(part * 100)} % ${note}\x1b[K`);
  }

  /** Removes the line. */
  end(): void {
    if (this.#isShown) this.#stderr.write('\r\x1b[K');
    this.#isShown = false;
  }
}
