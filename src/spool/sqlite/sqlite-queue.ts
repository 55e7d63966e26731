// Reads the queue for the queue commands: messages a page at a time, and what waits in each line.

import type { Row } from '../../base/database/database.ts';
import type { Holds } from '../hold.ts';
import type { ListQuery, QueueItem, QueuePage, WaitingLine } from '../spool.ts';
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
import type { StoredMessages } from './sqlite-messages.ts';
import { SpoolPart, type SpoolTables } from './sqlite-tables.ts';

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
