// How much the spool keeps and how long: quotas of accounts, failed messages, and used Idempotency-Keys.

import { Unavailable } from '../../base/errors.ts';
import { Part } from '../../base/part.ts';
import { pruneKeys } from '../core/tally-steps.ts';
import { ThreadRemoval } from '../core/thread-steps.ts';
import type { SpoolEntry } from '../spool.ts';
import { failedRetentionMilliseconds, type SpoolLimits, type SpoolOptions, whyOverQuota } from '../spool-limits.ts';
import { integer, text } from '../stored-rows.ts';
import { type AccountTally, addTally, emptyTally, type Tally, TallyChanges, tallyOfNew } from '../tally.ts';
import { sizeOf } from './added-messages.ts';
import type { ServerParts } from './server/database-clock.ts';
import type { SpoolWriter } from './spool-writer.ts';

/** Messages or keys removed in one transaction at most. */
const removedAtOnce = 500;
/** Seconds that a client is told to wait where its account has too much queued. */
const quotaRetrySeconds = 30;

const aged = 'SELECT message FROM spool_failures WHERE ended_at < $1::bigint ORDER BY ended_at LIMIT $2::integer';
const oldestFailures = `SELECT f.message, m.size FROM spool_failures f JOIN spool_messages m ON m.id = f.message
  WHERE f.account = $1::text ORDER BY f.ended_at, f.message LIMIT $2::integer`;

/** What each account has queued, as far as this process knows: what others accept is known a second later. */
export class Quotas extends Part<SpoolLimits> {
  #known = new TallyChanges();
  /** What waits to be written. */
  readonly #underWay = new Map<string, Tally>();

  /** Takes the numbers of all accounts. */
  know(tallies: readonly AccountTally[]): void {
    this.#known = new TallyChanges(tallies.map((tally) => [tally.account, tally]));
  }

  /** Takes what some accounts have more since. */
  learn(more: readonly AccountTally[]): void {
    for (const tally of more) this.#known.add(tally.account, tally);
  }

  /** Accounts that have more failed messages than are kept, with their numbers. */
  withSurplus(): readonly (readonly [string, Tally])[] {
    const { failedMessages, failedBytes } = this.parts;
    return [...this.#known].filter(
      ([, { messages, octets }]) => messages.failed > failedMessages || octets.failed > failedBytes,
    );
  }

  /** Counts a message that is about to be written. @throws Unavailable where the account has too much queued */
  take(entry: SpoolEntry): void {
    const { account } = entry;
    const size = sizeOf(entry);
    const underWay = this.#underWay.get(account) ?? emptyTally;
    const held = addTally(this.#known.get(account) ?? emptyTally, underWay);
    const text = whyOverQuota(this.parts, held, account, size);
    if (text !== undefined) throw new Unavailable(text, { reason: 'share', retryAfterSeconds: quotaRetrySeconds });
    this.#underWay.set(account, addTally(underWay, tallyOfNew(size, 1)));
  }

  /** The message is written, or is not going to be. */
  giveBack(entry: SpoolEntry): void {
    const left = addTally(this.#underWay.get(entry.account) ?? emptyTally, tallyOfNew(sizeOf(entry), 1), -1);
    if (left.messages.queued > 0) this.#underWay.set(entry.account, left);
    else this.#underWay.delete(entry.account);
  }
}

interface RetentionParts extends ServerParts, Required<Pick<SpoolOptions, 'limits' | 'onRemoved'>> {
  readonly writer: SpoolWriter;
}

/** Removes what is not kept any longer. */
export class PostgresRetention extends Part<RetentionParts> {
  readonly #threads = new ThreadRemoval();

  /** Removes some failed messages and keys that are too old. @returns whether there may be more */
  async prune(): Promise<boolean> {
    const now = this.parts.clock.now();
    const storedNow = this.parts.clock.removalTime();
    const rows = await this.parts.session.query(aged, [storedNow - failedRetentionMilliseconds, removedAtOnce]);
    await this.#forget(rows.map((row) => text(row, 'message')));
    await this.parts.session.steps(pruneKeys(now, removedAtOnce));
    const moreThreads = await this.parts.session.steps(this.#threads.prune(storedNow, 10 * removedAtOnce));
    return rows.length === removedAtOnce || moreThreads;
  }

  /** Removes the oldest failed messages of an account that has too many, some at a time. */
  async removeSurplus(account: string, { messages, octets }: Tally): Promise<void> {
    let [left, held] = [messages.failed, octets.failed];
    const ids: string[] = [];
    for (const row of await this.parts.session.query(oldestFailures, [account, removedAtOnce])) {
      if (left <= this.parts.limits.failedMessages && held <= this.parts.limits.failedBytes) break;
      ids.push(text(row, 'message'));
      left -= 1;
      held -= integer(row, 'size');
    }
    const sizes = await this.#forget(ids);
    const removed = { account, messages: sizes.length, octets: sizes.reduce((sum, size) => sum + size, 0) };
    if (sizes.length > 0) this.parts.onRemoved(removed);
  }

  /** Removes messages, but for those that were queued again meanwhile. @returns the octets of each that is gone */
  async #forget(ids: readonly string[]): Promise<readonly number[]> {
    if (ids.length === 0) return [];
    return await this.parts.writer.write({
      reads: ids,
      run: ({ messages }) => ids.flatMap((id) => messages.forgetEnded(id) ?? []),
    });
  }
}
