// Messages of the spool as they are shown and loaded: questions only, outside of any transaction.

import type { Row } from '../../base/database/database.ts';
import type { QueueItem, QueuePage } from '../spool.ts';
import type { SpoolClock } from './sqlite-clock.ts';
import type { SpoolTables, StoredMessages } from './sqlite-messages.ts';
import type { OperationOf, OperationResults } from './sqlite-protocol.ts';
import { integer, octets, recipientOf, stateNumbers, text } from './sqlite-rows.ts';
import type { Statements } from './sqlite-statements.ts';

/** Messages that one page of a list looks at. */
const examinedAtOnce = 2000;
/** With more recipients than this a page of a list is full. */
const listedRecipientsAtOnce = 5000;
/** Sorts behind every id. */
const behindEveryId = '\u{10ffff}';

function escapeLike(search: string): string {
  return `%${search.replace(/[\\%_]/g, '\\$&')}%`;
}

/** The queue of one database; what each method does is told at the method of `Spool` that has its name. */
export class StoredQueue {
  readonly #statements: Statements;
  readonly #clock: SpoolClock;
  readonly #messages: StoredMessages;

  constructor({ statements, clock }: SpoolTables, messages: StoredMessages) {
    this.#statements = statements;
    this.#clock = clock;
    this.#messages = messages;
  }

  /** A message's octets; without its body where that is in a file. */
  load(id: string): OperationResults['load'] {
    const row = this.#statements.octets.get(id);
    return row && { head: octets(row, 'head'), body: row['body_in_file'] === 1 ? undefined : octets(row, 'body') };
  }

  show(id: string): QueueItem | undefined {
    const row = this.#statements.entry.get(id);
    return row && this.#item(row);
  }

  list({ state, search, limit, after = '' }: OperationOf<'list'>): QueuePage {
    const stateNumber = state === undefined ? -1 : stateNumbers[state];
    const pattern = search === undefined ? '%' : escapeLike(search);
    const end = this.#statements.endOfSlice.get(after, examinedAtOnce - 1);
    const endId = end ? text(end, 'id') : behindEveryId;
    const items: QueueItem[] = [];
    let recipients = 0;
    for (const row of this.#statements.list.all(after, stateNumber, pattern, limit, endId)) {
      const item = this.#item(row);
      items.push(item);
      recipients += item.recipients.length;
      if (recipients > listedRecipientsAtOnce) break;
    }
    const last = items.at(-1)?.entry.id;
    if (last !== undefined && (items.length === limit || recipients > listedRecipientsAtOnce))
      return { items, next: last };
    return end ? { items, next: endId } : { items };
  }

  #item(row: Row): QueueItem {
    const { recipients: _, ...entry } = this.#messages.entry(row, []);
    const recipients = this.#statements.recipients.all(integer(row, 'seq')).map((recipient) => {
      const stored = recipientOf(recipient);
      return { ...stored, nextAttemptAt: this.#clock.wall(stored.nextAttemptAt) };
    });
    return { entry, size: integer(row, 'size'), recipients };
  }
}
