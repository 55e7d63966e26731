// How much an account may send: messages a minute in memory, recipients a day in the store (D42a). An account without
// limits costs nothing.

import type { Clock } from '../base/clock.ts';
import { type DatabaseSync, migrateSqlite, type StatementSync } from '../base/database/sqlite-file.ts';
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
  /**
   * The same question without the charge (D41): whether a message with so many recipients would be taken now.
   * @throws what the database throws
   */
  ask(account: Account, recipients: number): LimitVerdict;
  /**
   * Gives back what `take` has charged for a message that was then not kept, for a fault of our own.
   * @throws what the database throws
   */
  giveBack(account: Account, recipients: number): void;
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
      if (second - at >= windowSeconds || (this.counts[slot] ?? 0) === 0) continue;
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

  /** Takes one of the newest away. */
  remove(second: number): void {
    for (let at = second; at > second - windowSeconds; at -= 1) {
      const slot = at % windowSeconds;
      if (this.seconds[slot] !== at || (this.counts[slot] ?? 0) === 0) continue;
      this.counts[slot] = (this.counts[slot] ?? 0) - 1;
      return;
    }
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
  private readonly select: StatementSync;
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
    this.select = database.prepare('SELECT recipients FROM recipients_per_day WHERE account = ?1 AND day = ?2');
  }

  /** Whether so many would be taken. */
  hasRoom(day: number, recipients: number, limit: number): boolean {
    const left = day === this.day ? this.left : 0;
    if (left >= recipients) return true;
    const used = Number(this.select.get(this.account, day)?.['recipients'] ?? 0);
    return used + recipients - left <= limit;
  }

  /** Takes back so many of a day; those of a day that is over count no more. */
  restore(day: number, recipients: number): void {
    if (day === this.day) this.left += recipients;
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

function isUnlimited({ limits }: Account): boolean {
  return limits.messagesPerMinute === undefined && limits.recipientsPerDay === undefined;
}

/** Makes the limits of all accounts; the database is brought up to date. */
export function createLimits(database: DatabaseSync, clock: Clock): Limits {
  migrateSqlite(database, accountMigrations);
  const windows = new Map<string, MinuteWindow>();
  const days = new Map<string, DailyCount>();
  const monotonicSecond = (): number => Math.floor(clock.monotonic() / 1000);
  const windowOf = (id: string): MinuteWindow => {
    const window = windows.get(id) ?? new MinuteWindow();
    windows.set(id, window);
    return window;
  };
  const countOf = (id: string): DailyCount => {
    const count = days.get(id) ?? new DailyCount(database, id);
    days.set(id, count);
    return count;
  };

  /** Judges by the minute first, then by the day, as `enough` answers for it. */
  function judge(
    { id, limits }: Account,
    enough: (count: DailyCount, day: number, limit: number) => boolean,
  ): LimitVerdict {
    const { messagesPerMinute, recipientsPerDay } = limits;
    const now = clock.now();
    const wait = messagesPerMinute === undefined ? 0 : windowOf(id).waitSeconds(monotonicSecond(), messagesPerMinute);
    if (wait > 0) return { allowed: false, code: 'E_RATE_LIMIT_EXCEEDED', retryAfterSeconds: wait };
    const day = Math.floor(now / dayMs);
    if (recipientsPerDay === undefined || enough(countOf(id), day, recipientsPerDay)) return allowed;
    const retryAfterSeconds = Math.ceil(((day + 1) * dayMs - now) / 1000);
    return { allowed: false, code: 'E_DAILY_LIMIT_EXCEEDED', retryAfterSeconds };
  }

  return {
    take(account, recipients) {
      if (isUnlimited(account)) return allowed;
      const verdict = judge(account, (count, day, limit) => count.take(day, recipients, limit));
      if (verdict.allowed) windowOf(account.id).add(monotonicSecond());
      return verdict;
    },
    ask: (account, recipients) =>
      isUnlimited(account) ? allowed : judge(account, (count, day, limit) => count.hasRoom(day, recipients, limit)),
    giveBack(account, recipients) {
      if (isUnlimited(account)) return;
      windowOf(account.id).remove(monotonicSecond());
      if (account.limits.recipientsPerDay !== undefined) {
        countOf(account.id).restore(Math.floor(clock.now() / dayMs), recipients);
      }
    },
    close() {
      for (const count of days.values()) count.giveBack();
    },
  };
}
