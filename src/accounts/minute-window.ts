// Counts the messages of an account in the last 60 seconds, one slot a second: small, however many messages are allowed.

const windowSeconds = 60;

/** The counts of one account. Seconds are of a monotonic clock. */
class MinuteWindow {
  readonly #counts = new Int32Array(windowSeconds);
  readonly #seconds = new Float64Array(windowSeconds).fill(-1);

  /** Seconds until one more message is within the limit; 0 means that it is now. */
  waitSeconds(second: number, limit: number): number {
    const { total, oldest } = this.counted(second);
    return total < limit ? 0 : Math.min(windowSeconds, Math.max(1, oldest + windowSeconds - second));
  }

  /** The messages of the window, and the second of the first of them. */
  counted(second: number): { readonly total: number; readonly oldest: number } {
    let total = 0;
    let oldest = second;
    for (let slot = 0; slot < windowSeconds; slot += 1) {
      const at = this.#seconds[slot] ?? -1;
      if (second - at >= windowSeconds || (this.#counts[slot] ?? 0) === 0) continue;
      total += this.#counts[slot] ?? 0;
      if (at < oldest) oldest = at;
    }
    return { total, oldest };
  }

  add(second: number): void {
    const slot = second % windowSeconds;
    if (this.#seconds[slot] !== second) {
      this.#seconds[slot] = second;
      this.#counts[slot] = 0;
    }
    this.#counts[slot] = (this.#counts[slot] ?? 0) + 1;
  }

  /** Removes one message of the newest slot. */
  remove(second: number): void {
    for (let at = second; at > second - windowSeconds; at -= 1) {
      const slot = at % windowSeconds;
      if (this.#seconds[slot] !== at || (this.#counts[slot] ?? 0) === 0) continue;
      this.#counts[slot] = (this.#counts[slot] ?? 0) - 1;
      return;
    }
  }
}

/** Counts the messages of all accounts that have a limit. */
export type MinuteCounts = ReturnType<typeof createMinuteCounts>;

/** Makes the counts. @param monotonic milliseconds */
export function createMinuteCounts(monotonic: () => number) {
  const windows = new Map<string, MinuteWindow>();
  const second = (): number => Math.floor(monotonic() / 1000);
  const windowOf = (account: string): MinuteWindow => {
    const window = windows.get(account) ?? new MinuteWindow();
    windows.set(account, window);
    return window;
  };
  const ask = (account: string, limit: number): number => windowOf(account).waitSeconds(second(), limit);
  return {
    /** Tells what `take` would, without counting. */
    ask,
    /** Counts a message. @returns seconds until it may come; 0 where it was counted */
    take(account: string, limit: number): number {
      const wait = ask(account, limit);
      if (wait === 0) windowOf(account).add(second());
      return wait;
    },
    giveBack: (account: string): void => windowOf(account).remove(second()),
    /** The accounts that have messages in the window, with how many. */
    totals: () =>
      [...windows]
        .map(([account, window]) => [account, window.counted(second()).total] as const)
        .filter(([, total]) => total > 0),
  };
}
