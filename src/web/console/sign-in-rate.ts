// Limits how often an account signs in, so that a program that signs in all the time does not keep the database from others.

import { createMinuteCounts, type MinuteCounts } from '../../accounts/minute-window.ts';
import type { Clock } from '../../base/clock.ts';
import type { SharedMinutes } from '../../base/process-group.ts';

const perMinute = 60;

/** Counts the sign-ins of each account. There are as many entries as accounts have signed in. */
export class SignInRate {
  readonly #minutes: SharedMinutes | MinuteCounts;

  /** @param shared counts over all processes; absent: there is one */
  constructor(clock: Pick<Clock, 'monotonic'>, shared?: SharedMinutes) {
    this.#minutes = shared ?? createMinuteCounts(() => clock.monotonic());
  }

  /**
   * Counts one more. @returns after how many seconds to come again; 0 where it may sign in now
   * @throws Error where the supervisor is gone
   */
  async waitSeconds(account: string): Promise<number> {
    // Messages are counted beside it, by the id of the account alone.
    return await this.#minutes.take(`sign-in ${account}`, perMinute);
  }
}
