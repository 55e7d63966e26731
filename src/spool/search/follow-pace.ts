// When what is made behind the commits is tried again after it has failed: its fault is told once, and does not cost a try a second.

import { isBusy, sqliteMessage } from '../../base/database/sqlite-errors.ts';

/** How long is waited after the first failure, and at most after many in a row, in milliseconds. */
const firstPauseMs = 1000;
const longestPauseMs = 60_000;

/** How far what is made behind the commits is behind them. */
export interface Behind {
  /** Events that wait. */
  readonly unfiled: number;
  /** Events since the start that were passed over, because they or what they are found by is damaged. */
  readonly passedOver: number;
  /** Why nothing can be made; undefined where it can. */
  readonly fault: string | undefined;
}

/** The pace of one follower. */
export class FollowPace {
  #pauseMs = 0;
  #tryAt = Number.NEGATIVE_INFINITY;
  #fault: string | undefined;

  /** Why the last slice failed; undefined where it did not. */
  get fault(): string | undefined {
    return this.#fault;
  }

  /** Does a slice, unless one has failed a while ago. @returns what it gives; false where it was not done */
  take(slice: () => boolean): boolean {
    if (performance.now() < this.#tryAt) return false;
    try {
      const isMore = slice();
      this.#pauseMs = 0;
      this.#fault = undefined;
      return isMore;
    } catch (thrown) {
      // Somebody else writes; that passes, or is told as a fault of the spool.
      if (isBusy(thrown)) return false;
      this.#pauseMs = Math.min(Math.max(firstPauseMs, this.#pauseMs * 2), longestPauseMs);
      this.#tryAt = performance.now() + this.#pauseMs;
      this.#fault = sqliteMessage(thrown);
      return false;
    }
  }
}
