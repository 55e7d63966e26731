// Against guessing of tokens, at every door: wrong ones are answered later and later, by the client's address (D85, D92).
// A valid token always passes: at once, or after a second where its address is guessing faster than answers may wait.

import { countedAddress } from '../base/counted-address.ts';

/** What becomes of a wrong token: its answer waits for a time, or there is no room to wait. */
export type Penalty =
  | { readonly kind: 'wait' /** Absent where the answer is given at once. */; readonly over?: Promise<void> }
  | { readonly kind: 'turnedAway'; readonly retryAfterSeconds: number };

/** The count of wrong tokens, one for all doors. */
export interface Guessing {
  /**
   * To be waited for before a token is looked up; undefined where there is nothing to wait for. Who leaves a connection
   * to guess again on a new one would else guess as fast as it can connect; so each guess holds a connection for a while,
   * of which an address has only so many.
   */
  pause(address: string): Promise<void> | undefined;
  /** Counts a wrong token of an address (IPv6: of its /64) and says how long its answer waits. */
  failed(address: string): Penalty;
  /** Logins and answers that wait now. */
  readonly waiting: number;
  /** Addresses that are remembered now. */
  readonly addresses: number;
  /** Ends every wait; none begins any more. */
  close(): void;
}

/** How wrong tokens are slowed down. */
export interface GuessingLimits {
  /** So many wrong tokens of an address are answered at once: people mistype. */
  readonly freeFailures: number;
  /** What the next one waits; each further one waits twice as long. */
  readonly firstDelayMs: number;
  readonly maxDelayMs: number;
  /** After so long without a wrong token one is forgiven. */
  readonly forgiveMs: number;
  /** Answers of one address that wait at a time, and of all: they hold connections. */
  readonly waitingPerAddress: number;
  readonly waiting: number;
  /** Addresses remembered; the one that failed longest ago is forgotten for a new one. */
  readonly addresses: number;
  /** What every login waits, right or wrong, while no more answers to its address may wait. */
  readonly pauseMs: number;
}

/** The limits of the running program. */
const guessingLimits: GuessingLimits = {
  freeFailures: 5,
  firstDelayMs: 250,
  maxDelayMs: 8000,
  forgiveMs: 10_000,
  waitingPerAddress: 8,
  waiting: 128,
  addresses: 10_000,
  pauseMs: 1000,
};

interface Failures {
  count: number;
  /** Milliseconds of the monotonic clock, of the last failure. */
  at: number;
  waiting: number;
}

/** Above this the delay has long stopped to grow, so a longer memory would only forgive later. */
const failuresRemembered = 20;

/** The wrong tokens of each address, as far as they are not forgiven. */
class FailureTable {
  readonly #limits: GuessingLimits;
  readonly #now: () => number;
  readonly #table = new Map<string, Failures>();

  constructor(limits: GuessingLimits, now: () => number) {
    this.#limits = limits;
    this.#now = now;
  }

  get size(): number {
    return this.#table.size;
  }

  find(address: string): Failures | undefined {
    return this.#table.get(address);
  }

  /** Failures that are not forgiven by now. */
  standing({ count, at }: Failures): number {
    return Math.max(0, count - Math.floor((this.#now() - at) / this.#limits.forgiveMs));
  }

  /** Counts one more; what was counted longest ago stands first in the table. */
  count(address: string): Failures {
    const failures = this.#table.get(address) ?? { count: 0, at: this.#now(), waiting: 0 };
    failures.count = Math.min(failuresRemembered, this.standing(failures) + 1);
    failures.at = this.#now();
    this.#table.delete(address);
    if (this.#table.size >= this.#limits.addresses) this.#table.delete(this.#table.keys().next().value ?? '');
    this.#table.set(address, failures);
    return failures;
  }
}

/** Waits that can be ended all at once. */
class Waits {
  readonly #waits = new Map<NodeJS.Timeout, () => void>();

  get size(): number {
    return this.#waits.size;
  }

  wait(delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      const end = (): void => {
        this.#waits.delete(timer);
        resolve();
      };
      const timer = setTimeout(end, delayMs);
      timer.unref();
      this.#waits.set(timer, end);
    });
  }

  endAll(): void {
    for (const [timer, end] of this.#waits) {
      clearTimeout(timer);
      end();
    }
  }
}

/**
 * Makes the count; it lives in memory.
 * @param options limits other than the program's, and a monotonic clock in milliseconds
 */
export function createGuessing(options: Partial<GuessingLimits> & { readonly now?: () => number } = {}): Guessing {
  const { now = () => performance.now(), ...given } = options;
  const limits = { ...guessingLimits, ...given };
  const table = new FailureTable(limits, now);
  const waits = new Waits();
  let penalties = 0;
  let closed = false;

  function hasRoom({ waiting }: Failures): boolean {
    return waiting < limits.waitingPerAddress && penalties < limits.waiting;
  }

  /** It runs on though the client goes away: who comes again at once has no more room for that. */
  async function penalty(failures: Failures, delayMs: number): Promise<void> {
    failures.waiting += 1;
    penalties += 1;
    await waits.wait(delayMs);
    failures.waiting -= 1;
    penalties -= 1;
  }

  return {
    pause(address) {
      const failures = table.find(countedAddress(address));
      if (!failures || closed || hasRoom(failures) || table.standing(failures) < limits.freeFailures) return undefined;
      return waits.wait(limits.pauseMs);
    },
    failed(address) {
      const failures = table.count(countedAddress(address));
      const delayed = failures.count - limits.freeFailures;
      if (delayed <= 0 || closed) return { kind: 'wait' };
      const delayMs = Math.min(limits.maxDelayMs, limits.firstDelayMs * 2 ** (delayed - 1));
      if (!hasRoom(failures)) {
        return { kind: 'turnedAway', retryAfterSeconds: Math.max(1, Math.ceil(delayMs / 1000)) };
      }
      return { kind: 'wait', over: penalty(failures, delayMs) };
    },
    get waiting() {
      return waits.size;
    },
    get addresses() {
      return table.size;
    },
    close() {
      closed = true;
      waits.endAll();
    },
  };
}
