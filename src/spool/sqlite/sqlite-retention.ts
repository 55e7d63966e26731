// Decides how much the spool keeps and for how long: quotas of accounts, failed messages that are too many or too old,
// used Idempotency-Keys, and body files without a message.

import { readdirSync, statSync, unlinkSync } from 'node:fs';
import { join } from 'node:path';
import type { Row } from '../../base/database/database.ts';
import type { DatabaseFailure } from '../../base/database/sqlite-errors.ts';
import { pruneKeys } from '../core/key-steps.ts';
import { MessageGroup } from '../core/message-group.ts';
import { failedRetentionMilliseconds, type RemovedFailures, type SpoolLimits, whyOverQuota } from '../spool-limits.ts';
import { text } from '../stored-rows.ts';
import type { AddCall, StoredMessage, StoredMessages } from './sqlite-messages.ts';
import { SpoolPart, type SpoolTables } from './sqlite-tables.ts';

const pruneEveryMilliseconds = 60 * 60 * 1000;
/** Messages removed in one transaction at most; the next one removes more. */
const removedAtOnce = 500;

/** The retention on one database. Every method runs in the caller's transaction. */
export class Retention extends SpoolPart<
  SpoolTables & { readonly messages: StoredMessages; readonly limits: SpoolLimits }
> {
  readonly #removed = new Map<string, RemovedFailures>();
  #prunedAt = 0;

  /** The messages that `removeSurplus` removed in this transaction, by account. */
  get removed(): readonly RemovedFailures[] {
    return [...this.#removed.values()];
  }

  begin(): void {
    this.#removed.clear();
  }

  /** Says why a message may not be added: its account already has too much queued. Undefined where it may. */
  overQuota({ entry, size }: Pick<AddCall, 'entry' | 'size'>): DatabaseFailure | undefined {
    const { queuedMessages, queuedBytes = Number.POSITIVE_INFINITY } = this.parts.limits;
    if (queuedMessages === Number.POSITIVE_INFINITY && queuedBytes === Number.POSITIVE_INFINITY) return undefined;
    const { account } = entry;
    const message = whyOverQuota(this.parts.limits, this.ledger.of(account), account, size);
    return message === undefined ? undefined : { message, unavailable: 'share' };
  }

  /** Removes the oldest failed messages of accounts that have too many; a later transaction removes what remains. */
  removeSurplus(): void {
    const { failedMessages, failedBytes } = this.parts.limits;
    let left = removedAtOnce;
    for (const account of this.parts.messages.grown) {
      for (;;) {
        const { messages, octets: held } = this.ledger.of(account);
        if (left === 0 || (messages.failed <= failedMessages && held.failed <= failedBytes)) break;
        const [oldest] = this.statements.oldestFailures.all(account, 1);
        const size = oldest && this.#forget(oldest);
        if (size === undefined) break;
        left -= 1;
        const sum = this.#removed.get(account) ?? { account, messages: 0, octets: 0 };
        this.#removed.set(account, { account, messages: sum.messages + 1, octets: sum.octets + size });
      }
    }
  }

  /** Calls `prune` if that was last done more than an hour ago. @param now milliseconds since 1970 */
  pruneSometimes(now: number): void {
    if (now - this.#prunedAt > pruneEveryMilliseconds) this.prune(now);
  }

  /** Removes what is too old, at most `removedAtOnce` messages; if more may remain, the next claim continues. */
  prune(now: number): void {
    const rows = this.statements.prunable.all(this.clock.stored(now) - failedRetentionMilliseconds, removedAtOnce);
    for (const row of rows) this.#forget(row);
    // The limits may be lower than before the last start.
    for (const { account } of this.ledger.read()) this.parts.messages.grown.add(account);
    const moreKeys = this.parts.steps(pruneKeys(now, removedAtOnce));
    const moreThreads = this.parts.threads.prune(this.clock.stored(now), removedAtOnce);
    this.#prunedAt = rows.length === removedAtOnce || moreKeys || moreThreads ? 0 : now;
  }

  /** Removes a message that has ended. @param row with its id @returns its octets; undefined where it is still queued */
  #forget(row: Row): number | undefined {
    const group = new MessageGroup<StoredMessage>();
    const message = this.parts.messages.read(text(row, 'id'));
    if (message) group.take(message);
    const size = group.forgetEnded(text(row, 'id'));
    this.parts.messages.apply(group.changes());
    return size;
  }

  /** Deletes files in the bodies' folder that belong to no message and whose names are not in `keep`. */
  removeOrphans(bodies: string, keep: ReadonlySet<string>): void {
    if (!statSync(bodies, { throwIfNoEntry: false })) return;
    for (const entry of readdirSync(bodies, { withFileTypes: true })) {
      // Postern makes no folders here: this may be `lost+found`, where the bodies have a file system of their own.
      if (!entry.isFile() || keep.has(entry.name) || this.statements.entry.get(entry.name)) continue;
      unlinkSync(join(bodies, entry.name));
    }
  }
}
