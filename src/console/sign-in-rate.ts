// Limits how often an account signs in, so that a program that signs in all the time does not keep the database from others.

import type { Clock } from '../base/clock.ts';

const perMinute = 60;
const minuteMs = 60_000;

/** Counts the sign-ins of each account. There are as many entries as accounts have signed in. */
export class SignInRate {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #counts = new Map<string, { readonly since: number; count: number }>();

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
  }

  /** Counts one more. @returns after how many seconds to come again; undefined where it may sign in now */
  waitSeconds(account: string): number | undefined {
    const now = this.#clock.monotonic();
    let entry = this.#counts.get(account);
    if (!entry || now - entry.since >= minuteMs) {
      entry = { since: now, count: 0 };
      this.#counts.set(account, entry);
    }
    entry.count += 1;
    return entry.count <= perMinute ? undefined : Math.ceil((entry.since + minuteMs - now) / 1000);
  }
}
