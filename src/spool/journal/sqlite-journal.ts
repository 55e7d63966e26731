// Writes the journal's rows in SQLite, on the spool's connection, in the transaction of what they tell of; what became of
// the messages is written behind it, when the events are filed.

import { type DatabaseSync, migrateSqlite, type StatementSync } from '../../base/database/sqlite-file.ts';
import type { EventFacts } from '../../events/mail-event.ts';
import { outcomeNumbers } from '../../journal/journal-row.ts';
import { journalMigrations } from './journal-tables.ts';
import type { JournalRow } from './pack-journal.ts';

/** A row with its octets, as the writer is handed it. */
export interface WrittenJournal {
  readonly row: JournalRow;
  readonly isSameBody: boolean;
  readonly receivedHead: Uint8Array | undefined;
  readonly receivedBody: Uint8Array | undefined;
  readonly sentHead: Uint8Array | undefined;
  readonly sentBody: Uint8Array | undefined;
}

const { accepted, delivered, deferred, failed, dropped } = outcomeNumbers;

/** An event that was taken from the table: `facts` is undefined where it is damaged. */
export interface TakenEvent {
  readonly kind: string;
  readonly message: string;
  readonly facts: EventFacts | undefined;
}

/** What the row of a message tells of its recipients together. */
interface Told {
  readonly waiting: number;
  readonly outcome: number;
}

/** What an event makes of the row of its message. Kinds that are not named change nothing. */
const changes: Partial<Record<string, (told: Told, facts: EventFacts | undefined) => Told>> = {
  delivered: ({ waiting, outcome }) => ({
    waiting: Math.max(waiting - 1, 0),
    outcome: outcome === failed ? failed : waiting <= 1 ? delivered : outcome,
  }),
  deferred: (told) => (told.outcome === accepted ? { ...told, outcome: deferred } : told),
  failed: ({ waiting }) => ({ waiting: Math.max(waiting - 1, 0), outcome: failed }),
  requeued: ({ waiting }, facts) => ({
    waiting: waiting + (facts?.kind === 'requeued' ? facts.failedCount : 0),
    outcome: accepted,
  }),
  dropped: () => ({ waiting: 0, outcome: dropped }),
};

/** The journal of one database. Every method runs in the caller's transaction. */
export class SqliteJournal {
  readonly #add: StatementSync;
  readonly #addContent: StatementSync;
  readonly #told: StatementSync;
  readonly #note: StatementSync;

  /** Brings the tables up to date. */
  constructor(database: DatabaseSync) {
    migrateSqlite(database, journalMigrations);
    this.#add = database.prepare(
      'INSERT INTO journal (id, at, account, outcome, waiting, octets, facts, more) VALUES (?, ?, ?, ?, ?, ?, ?, ?)',
    );
    this.#addContent = database.prepare('INSERT INTO journal_content VALUES (?, ?, ?, ?, ?, ?)');
    this.#told = database.prepare('SELECT waiting, outcome FROM journal WHERE id = ?');
    this.#note = database.prepare('UPDATE journal SET waiting = ?, outcome = ? WHERE id = ?');
  }

  /** Writes a row. */
  add({ row, isSameBody, ...content }: WrittenJournal): void {
    const { receivedHead, receivedBody, sentHead, sentBody } = content;
    const octets =
      (receivedHead?.length ?? 0) + (receivedBody?.length ?? 0) + (sentHead?.length ?? 0) + (sentBody?.length ?? 0);
    const { id, at, account, outcome, waiting, facts, more } = row;
    const { lastInsertRowid } = this.#add.run(id, at, account, outcome, waiting, octets, facts, more);
    if (octets === 0) return;
    const blobs = [receivedHead ?? null, sentHead ?? null, receivedBody ?? null, sentBody ?? null];
    this.#addContent.run(lastInsertRowid, isSameBody ? 1 : 0, ...blobs);
  }

  /** Notes what became of messages: each row is written once, however many events there are of it. */
  note(events: readonly TakenEvent[]): void {
    const telling = events.filter(({ kind }) => kind === 'accepted' || changes[kind]);
    for (const [id, own] of Map.groupBy(telling, ({ message }) => message)) {
      const first = own[0]?.facts;
      // The row is as its acceptance made it, so that it need not be read.
      const before = first?.kind === 'accepted' ? { waiting: first.recipientCount, outcome: accepted } : this.#read(id);
      if (!before) continue;
      const after = own.reduce((told, { kind, facts }) => changes[kind]?.(told, facts) ?? told, before);
      if (after.waiting !== before.waiting || after.outcome !== before.outcome)
        this.#note.run(after.waiting, after.outcome, id);
    }
  }

  #read(id: string): Told | undefined {
    const row = this.#told.get(id);
    return row && { waiting: Number(row['waiting']), outcome: Number(row['outcome']) };
  }
}
