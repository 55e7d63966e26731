// How much an account may send: messages a minute in memory, recipients a day in the store (D42a). An account without
// limits costs nothing.

import type { Clock } from '../base/clock.ts';
import { type DatabaseSync, migrate, type StatementSync } from '../base/database.ts';
import type { Account } from './account.ts';
import { accountMigrations } from './tokens.ts';

/** Whether a message may go, or when to come again. */
export type LimitVerdict =
  | { readonly allowed: true }
  | {
      readonly allowed: false;
      readonly code: 'E_RATE_LIMIT_EXCEEDED' | 'E_DAILY_LIMIT_EXCEEDED';
      readonly retryAfterSeconds: number;
    };

/** The limits of all accounts. */
export interface Limits {
  /**
   * Charges a message with so many recipients to its account; a refusal charges nothing. To be asked once for a
   * message, when everything else about it is in order.
   * @throws what the database throws
   */
  take(account: Account, recipients: number): LimitVerdict;
  /** Gives back what of the day was set aside and not used. */
  close(): void;
}

const windowSeconds = 60;
const dayMs = 86_400_000;
const allowed = { allowed: true } as const;

/** Counts of the last 60 seconds, one slot a second: small, however many messages a minute are allowed. */
class MinuteWindow {
  private readonly counts = new Int32Array(windowSeconds);
  private readonly seconds = new Float64Array(windowSeconds).fill(-1);

  /** Seconds until one more is within the limit; 0 is now. */
  waitSeconds(second: number, limit: number): number {
    let total = 0;
    let oldest = second;
    for (let slot = 0; slot < windowSeconds; slot += 1) {
      const at = this.seconds[slot] ?? -1;
      // A clock set back leaves slots of the future behind: those of more than a minute ahead would block for as long.
      if (Math.abs(second - at) >= windowSeconds || (this.counts[slot] ?? 0) === 0) continue;
      total += this.counts[slot] ?? 0;
      if (at < oldest) oldest = at;
    }
    return total < limit ? 0 : Math.min(windowSeconds, Math.max(1, oldest + windowSeconds - second));
  }

  add(second: number): void {
    const slot = second % windowSeconds;
    if (this.seconds[slot] !== second) {
      this.seconds[slot] = second;
      this.counts[slot] = 0;
    }
    this.counts[slot] = (this.counts[slot] ?? 0) + 1;
  }
}

/**
 * Recipients of a UTC day. A hundredth of the limit (at most 1,000) is set aside in the store at a time, so that a
 * message seldom costs a write; a crash loses what was set aside, never more, and never lets more through.
 */
class DailyCount {
  private day = -1;
  private left = 0;
  private readonly reserve: StatementSync;
  private readonly release: StatementSync;
  private readonly forget: StatementSync;
  private readonly account: string;

  constructor(database: DatabaseSync, account: string) {
    this.account = account;
    this.reserve = database.prepare(
      `INSERT INTO recipients_per_day VALUES (?1, ?2, ?3)
       ON CONFLICT DO UPDATE SET recipients = recipients + ?3 WHERE recipients + ?3 <= ?4`,
    );
    this.release = database.prepare(
      'UPDATE recipients_per_day SET recipients = recipients - ?3 WHERE account = ?1 AND day = ?2',
    );
    this.forget = database.prepare('DELETE FROM recipients_per_day WHERE account = ?1 AND day < ?2');
  }

  take(day: number, recipients: number, limit: number): boolean {
    if (day !== this.day) {
      this.giveBack();
      this.day = day;
      this.forget.run(this.account, day - 7);
    }
    if (this.left < recipients) this.setAside(recipients - this.left, limit);
    if (this.left < recipients) return false;
    this.left -= recipients;
    return true;
  }

  private setAside(needed: number, limit: number): void {
    for (const amount of [Math.max(needed, Math.min(1000, Math.floor(limit / 100))), needed]) {
      if (amount > limit) continue;
      if (Number(this.reserve.run(this.account, this.day, amount, limit).changes) === 0) continue;
      this.left += amount;
      return;
    }
  }

  giveBack(): void {
    if (this.left > 0) this.release.run(this.account, this.day, this.left);
    this.left = 0;
  }
}

/** Makes the limits of all accounts; the database is brought up to date. */
export function createLimits(database: DatabaseSync, clock: Clock): Limits {
  migrate(database, accountMigrations);
  const windows = new Map<string, MinuteWindow>();
  const days = new Map<string, DailyCount>();
  return {
    take(account, recipients) {
      const { messagesPerMinute, recipientsPerDay } = account.limits;
      if (messagesPerMinute === undefined && recipientsPerDay === undefined) return allowed;
      const now = clock.now();
      const second = Math.floor(now / 1000);
      const window = windows.get(account.id) ?? new MinuteWindow();
      windows.set(account.id, window);
      const wait = messagesPerMinute === undefined ? 0 : window.waitSeconds(second, messagesPerMinute);
      if (wait > 0) return { allowed: false, code: 'E_RATE_LIMIT_EXCEEDED', retryAfterSeconds: wait };
      if (recipientsPerDay !== undefined) {
        const count = days.get(account.id) ?? new DailyCount(database, account.id);
        days.set(account.id, count);
        const day = Math.floor(now / dayMs);
        if (!count.take(day, recipients, recipientsPerDay)) {
          const retryAfterSeconds = Math.ceil(((day + 1) * dayMs - now) / 1000);
          return { allowed: false, code: 'E_DAILY_LIMIT_EXCEEDED', retryAfterSeconds };
        }
      }
      window.add(second);
      return allowed;
    },
    close() {
      for (const count of days.values()) count.giveBack();
    },
  };
}
