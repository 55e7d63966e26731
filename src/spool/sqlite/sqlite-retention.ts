// How much the spool keeps and how long: quotas, failed messages, used Idempotency-Keys, body files without a message.

import { readdirSync, statSync, unlinkSync } from 'node:fs';
import { join } from 'node:path';
import type { Row } from '../../base/database/database.ts';
import type { DatabaseFailure } from '../../base/database/sqlite-errors.ts';
import { MessageGroup } from '../core/message-group.ts';
import { pruneKeys } from '../core/tally-steps.ts';
import { ThreadRemoval } from '../core/thread-steps.ts';
import type { Holds } from '../hold.ts';
import type { ListQuery, QueueItem, QueuePage, WaitingLine } from '../spool.ts';
import { failedRetentionMilliseconds, type RemovedFailures, type SpoolLimits, whyOverQuota } from '../spool-limits.ts';
import {
  examinedAtOnce,
  integer,
  patternOf,
  queueItem,
  shownRecipientsAtOnce,
  stateNumbers,
  text,
} from '../stored-rows.ts';
import type { StoredHolds } from './sqlite-claims.ts';
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
  readonly #threads = new ThreadRemoval();
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
    // The clock may have been set back since.
    if (Math.abs(now - this.#prunedAt) > pruneEveryMilliseconds) this.prune(now);
  }

  /** Removes what is too old, at most `removedAtOnce` messages; if more may remain, the next claim continues. */
  prune(now: number): void {
    const rows = this.statements.prunable.all(this.clock.stored(now) - failedRetentionMilliseconds, removedAtOnce);
    for (const row of rows) this.#forget(row);
    // The limits may be lower than before the last start.
    for (const { account } of this.ledger.read()) this.parts.messages.grown.add(account);
    const moreKeys = this.parts.steps(pruneKeys(now, removedAtOnce));
    const moreThreads = this.parts.steps(this.#threads.prune(this.clock.stored(now), removedAtOnce));
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

  /** Deletes files in the bodies' folder that belong to no message. */
  removeOrphans(bodies: string): void {
    if (!statSync(bodies, { throwIfNoEntry: false })) return;
    for (const entry of readdirSync(bodies, { withFileTypes: true })) {
      // Postern makes no folders here: this may be `lost+found`, where the bodies have a file system of their own.
      if (!entry.isFile() || this.statements.entry.get(entry.name)) continue;
      unlinkSync(join(bodies, entry.name));
    }
  }
}

/** How often the oldest queued message is looked for among all that are kept, in milliseconds: one may be queued again. */
const lookAllEveryMs = 300_000;
/** Sorts after every id. */
const behindEveryId = '\u{10ffff}';

/** Reads the queue of one database, outside of any transaction; the methods of the same names in `Spool` say what each does. */
export class StoredQueue extends SpoolPart<
  SpoolTables & { readonly messages: StoredMessages; readonly holds: StoredHolds }
> {
  /** No message before this one was queued at the last question for the oldest. */
  #oldest = 0;
  #lookedAllAt = 0;

  /** A message's octets; without the body where that is in a file. */
  load(id: string): { readonly head: Uint8Array; readonly body: Uint8Array | undefined } | undefined {
    const row = this.statements.octets.get(id);
    if (!row) return undefined;
    const { head, body } = this.parts.settled.of(row);
    return { head, body: row['body_in_file'] === 1 ? undefined : body };
  }

  show(id: string): QueueItem | undefined {
    const row = this.statements.entry.get(id);
    return row && this.#item(row);
  }

  list({ state, account = '', search, limit, after = '' }: ListQuery): QueuePage {
    const stateNumber = state === undefined ? -1 : stateNumbers[state];
    const end = this.statements.endOfSlice.get(after, examinedAtOnce - 1);
    const endId = end ? text(end, 'id') : behindEveryId;
    const items: QueueItem[] = [];
    let recipients = 0;
    const holds = this.#currentHolds();
    for (const row of this.statements.list.all(after, stateNumber, patternOf(search), limit, endId, account)) {
      const item = this.#item(row, holds);
      items.push(item);
      recipients += item.recipients.length;
      if (recipients > shownRecipientsAtOnce) break;
    }
    const last = items.at(-1)?.entry.id;
    if (last !== undefined && (items.length === limit || recipients > shownRecipientsAtOnce))
      return { items, next: last };
    return { items, next: end && endId };
  }

  /** When the oldest queued message was accepted. It goes on from the one that was the oldest at the last question. */
  oldest(): number | undefined {
    if (performance.now() - this.#lookedAllAt > lookAllEveryMs) {
      this.#lookedAllAt = performance.now();
      this.#oldest = 0;
    }
    const row = this.statements.oldest.get(this.#oldest);
    if (row) this.#oldest = integer(row, 'message');
    const times = [row, this.statements.oldestInFlight.get()].flatMap((found) =>
      found ? integer(found, 'accepted_at') : [],
    );
    return times.length === 0 ? undefined : times.reduce((one, other) => Math.min(one, other));
  }

  waiting(limit: number): readonly WaitingLine[] {
    const lines = new Map<string, WaitingLine>();
    for (const row of [...this.statements.waiting.all(limit), ...this.statements.waitingInFlight.all()]) {
      const [transport, account] = [text(row, 'lane'), text(row, 'account')];
      const hold = integer(row, 'line') < 0 ? -integer(row, 'line') : integer(row, 'hold');
      const key = integer(row, 'line') < 0 ? `${hold}` : `${transport} ${account}`;
      const known = lines.get(key);
      const oldestAcceptedAt = Math.min(integer(row, 'accepted_at'), known?.oldestAcceptedAt ?? Infinity);
      const recipients = integer(row, 'recipients') + (known?.recipients ?? 0);
      lines.set(key, { transport, account, ...(hold > 0 ? { hold } : {}), ...known, recipients, oldestAcceptedAt });
    }
    return [...lines.values()].toSorted((left, right) => right.recipients - left.recipients).slice(0, limit);
  }

  #item(row: Row, holds = this.#currentHolds()): QueueItem {
    return queueItem(row, this.parts.messages.recipients(row), holds, this.clock);
  }

  #currentHolds(): Holds {
    this.parts.holds.begin();
    return this.parts.holds.current;
  }
}
