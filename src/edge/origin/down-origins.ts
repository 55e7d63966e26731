// Origins that could not be connected to a moment ago (D66): for a while their failure is told from memory. The first request after
// it tries again, alone, so that those that wait do not all connect at once to an origin that is just coming back.

import type { MonotonicClock } from '../../base/clock.ts';
import type { OriginFailure } from './origin-failure.ts';

/** One attempt to connect to an origin. One of its functions must be called, once. */
export interface DialAttempt {
  connected(): void;
  failed(failure: OriginFailure): void;
  /** It was given up before it was known whether the origin can be connected to. */
  abandoned(): void;
}

interface Down {
  failure: OriginFailure;
  /** By the monotonic clock, milliseconds. */
  until: number;
  /** Whether an attempt is under way to see if it is still down. */
  isTried: boolean;
}

/** The most origins that are remembered. The oldest are forgotten, and connected to as if they had not failed. */
const maxRemembered = 10_000;

/** Remembers which origins are down. */
export class DownOrigins {
  readonly #clock: MonotonicClock;
  readonly #downMs: number;
  readonly #most: number;
  readonly #down = new Map<string, Down>();

  /** @param parts `downMs`: how long a failure is told from memory; 0: never. `most`: origins remembered; absent: 10,000 */
  constructor(parts: { readonly clock: MonotonicClock; readonly downMs: number; readonly most?: number }) {
    this.#clock = parts.clock;
    this.#downMs = parts.downMs;
    this.#most = parts.most ?? maxRemembered;
  }

  /** How many are remembered now. */
  get size(): number {
    return this.#down.size;
  }

  /** Gives the attempt that a request may make, or the failure to answer it with at once. @param key that of the target */
  attempt(key: string): DialAttempt | OriginFailure {
    const down = this.#down.get(key);
    if (down && (down.isTried || down.until > this.#clock.monotonic())) return down.failure;
    if (down) down.isTried = true;
    return {
      connected: () => void this.#down.delete(key),
      failed: (failure) => this.#remember(key, failure, down),
      abandoned: () => {
        if (down) down.isTried = false;
      },
    };
  }

  #remember(key: string, failure: OriginFailure, tried: Down | undefined): void {
    // A fault of this machine (500) says nothing of the origin.
    if (failure.code === 500 || this.#downMs === 0) {
      if (tried) tried.isTried = false;
      return;
    }
    // Deleted first, so that the map has the order in which they failed.
    this.#down.delete(key);
    for (const [oldest] of this.#down) {
      if (this.#down.size < this.#most) break;
      this.#down.delete(oldest);
    }
    this.#down.set(key, { failure, until: this.#clock.monotonic() + this.#downMs, isTried: false });
  }
}
