// How much an account may send: messages a minute in memory, recipients a day in the store (D42a). Without limits it costs nothing.

import type { Clock } from '../base/clock.ts';
import type { Database } from '../base/database/database.ts';
import type { MaybePromise } from '../base/load/maybe-promise.ts';
import { Part } from '../base/part.ts';
import type { SharedMinutes } from '../base/process-group.ts';
import type { Account } from './account.ts';
import { createMinuteCounts, type MinuteCounts } from './minute-window.ts';
import { accountMigrations } from './token-store.ts';

/** Whether a message may go, or when to come again. */
export type LimitVerdict =
  | { readonly allowed: true }
  | {
      readonly allowed: false;
      readonly code: 'E_RATE_LIMIT_EXCEEDED' | 'E_DAILY_LIMIT_EXCEEDED';
      readonly retryAfterSeconds: number;
    };

const dayMs = 86_400_000;
const allowed = { allowed: true } as const;

const sql = {
  reserve: `INSERT INTO recipients_per_day VALUES ($1, $2, $3) ON CONFLICT (account, day)
    DO UPDATE SET recipients = recipients_per_day.recipients + $3 WHERE recipients_per_day.recipients + $3 <= $4`,
  release: 'UPDATE recipients_per_day SET recipients = recipients - $3 WHERE account = $1 AND day = $2',
  forget: 'DELETE FROM recipients_per_day WHERE account = $1 AND day < $2',
  select: 'SELECT recipients FROM recipients_per_day WHERE account = $1 AND day = $2',
} as const;

/**
 * Counts the recipients of a UTC day. It sets aside a hundredth of the limit (at most 1,000) in the store at a time, so that
 * few messages cost a write. A crash loses at most what was set aside, and never lets more through. Messages take from what
 * is set aside synchronously, so that no two take the same part. Only one message at a time sets more aside; the others wait
 * for it, and fail if it fails.
 */
class DailyCount extends Part<{ readonly database: Database; readonly account: string }> {
  #day = -1;
  #left = 0;
  #settingAside: Promise<boolean> | undefined;
  /** The day on which old days were forgotten last. */
  #forgotten = -1;

  async hasRoom(day: number, recipients: number, limit: number): Promise<boolean> {
    const ownLeft = (): number => (day === this.#day ? this.#left : 0);
    if (ownLeft() >= recipients) return true;
    const [row] = await this.parts.database.query(sql.select, [this.parts.account, day]);
    return Number(row?.['recipients'] ?? 0) + recipients - ownLeft() <= limit;
  }

  /** Gives so many recipients of a day back. Those of a past day are ignored. */
  restore(day: number, recipients: number): void {
    if (day === this.#day) this.#left += recipients;
  }

  async take(day: number, recipients: number, limit: number): Promise<boolean> {
    this.#turnTo(day);
    for (;;) {
      if (day !== this.#day) return await this.take(this.#day, recipients, limit);
      if (this.#left >= recipients) break;
      const waited = this.#settingAside;
      if (waited) {
        await waited;
        continue;
      }
      this.#settingAside = this.#setAside(day, recipients - this.#left, limit);
      try {
        if (!(await this.#settingAside)) return false;
      } finally {
        this.#settingAside = undefined;
      }
    }
    this.#left -= recipients;
    return true;
  }

  #turnTo(day: number): void {
    if (day === this.#day) return;
    this.#day = day;
    this.#left = 0;
  }

  /** @returns whether at least what is needed is set aside now */
  async #setAside(day: number, needed: number, limit: number): Promise<boolean> {
    await this.#forgetOldDays();
    for (const amount of [Math.max(needed, Math.min(1000, Math.floor(limit / 100))), needed]) {
      if (amount > limit) continue;
      const isReserved = (await this.parts.database.run(sql.reserve, [this.parts.account, day, amount, limit])) > 0;
      if (!isReserved) continue;
      if (day === this.#day) this.#left += amount;
      return true;
    }
    return false;
  }

  async #forgetOldDays(): Promise<void> {
    const day = this.#day;
    if (day !== this.#forgotten) await this.parts.database.run(sql.forget, [this.parts.account, day - 7]);
    this.#forgotten = day;
  }

  async giveBack(): Promise<void> {
    const [left, day, account] = [this.#left, this.#day, this.parts.account];
    this.#left = 0;
    if (left > 0) await this.parts.database.run(sql.release, [account, day, left]);
  }
}

function isUnlimited({ limits }: Account): boolean {
  return limits.messagesPerMinute === undefined && limits.recipientsPerDay === undefined;
}

type Minutes = SharedMinutes | Omit<MinuteCounts, 'totals'>;

/** The limits of all accounts. */
export class Limits extends Part<{ readonly database: Database; readonly clock: Clock; readonly minutes: Minutes }> {
  readonly #days = new Map<string, DailyCount>();

  /** Opens the limits and their tables. @param minutes counts a minute's messages over all processes; absent: this one counts its own */
  static async open(
    database: Database,
    clock: Clock,
    minutes: Minutes = createMinuteCounts(() => clock.monotonic()),
  ): Promise<Limits> {
    await database.migrate(accountMigrations);
    return new Limits({ database, clock, minutes });
  }

  /** Charges a message to its account, once, when all else is in order; a refusal charges nothing. @throws what the database throws */
  take(account: Account, recipients: number): MaybePromise<LimitVerdict> {
    return isUnlimited(account) ? allowed : this.#take(account, recipients);
  }

  /** Tells whether a message would be taken now, without charging it (D41); at once where `take` does. @throws as `take` does */
  ask(account: Account, recipients: number): MaybePromise<LimitVerdict> {
    return isUnlimited(account) ? allowed : this.#ask(account, recipients);
  }

  /** Gives back what `take` charged for a message that was not stored in the end because of an internal error. */
  giveBack(account: Account, recipients: number): void {
    const { id, limits } = account;
    if (limits.messagesPerMinute !== undefined) this.parts.minutes.giveBack(id);
    if (limits.recipientsPerDay !== undefined)
      this.#countOf(id).restore(Math.floor(this.parts.clock.now() / dayMs), recipients);
  }

  /** Gives back the part of the day's limit that was set aside and not used. */
  async close(): Promise<void> {
    await Promise.all([...this.#days.values()].map((count) => count.giveBack()));
  }

  async #take(account: Account, recipients: number): Promise<LimitVerdict> {
    // Counted before the day's limit is asked, so that a message that comes meanwhile finds this one in the window.
    const refusal = await this.#minuteRefusal(account, 'take');
    if (refusal) return refusal;
    let isAllowed = false;
    try {
      const verdict = await this.#judgeDay(account, (count, day, limit) => count.take(day, recipients, limit));
      isAllowed = verdict.allowed;
      return verdict;
    } finally {
      if (!isAllowed && account.limits.messagesPerMinute !== undefined) this.parts.minutes.giveBack(account.id);
    }
  }

  async #ask(account: Account, recipients: number): Promise<LimitVerdict> {
    return (
      (await this.#minuteRefusal(account, 'ask')) ??
      (await this.#judgeDay(account, (count, day, limit) => count.hasRoom(day, recipients, limit)))
    );
  }

  async #minuteRefusal(
    { id, limits: { messagesPerMinute } }: Account,
    how: 'take' | 'ask',
  ): Promise<LimitVerdict | undefined> {
    const wait = messagesPerMinute === undefined ? 0 : await this.parts.minutes[how](id, messagesPerMinute);
    if (wait === 0) return undefined;
    return { allowed: false, code: 'E_RATE_LIMIT_EXCEEDED', retryAfterSeconds: wait };
  }

  async #judgeDay(
    { id, limits: { recipientsPerDay } }: Account,
    enough: (count: DailyCount, day: number, limit: number) => Promise<boolean>,
  ): Promise<LimitVerdict> {
    const now = this.parts.clock.now();
    const day = Math.floor(now / dayMs);
    if (recipientsPerDay === undefined || (await enough(this.#countOf(id), day, recipientsPerDay))) return allowed;
    const retryAfterSeconds = Math.ceil(((day + 1) * dayMs - now) / 1000);
    return { allowed: false, code: 'E_DAILY_LIMIT_EXCEEDED', retryAfterSeconds };
  }

  #countOf(id: string): DailyCount {
    const count = this.#days.get(id) ?? new DailyCount({ database: this.parts.database, account: id });
    this.#days.set(id, count);
    return count;
  }
}
