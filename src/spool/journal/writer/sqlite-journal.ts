// Writes the journal's rows in SQLite, on the spool's connection, in the transaction of what they tell of; what became of
// the messages is written behind it, when the events are filed.

import { type DatabaseSync, migrateSqlite, type StatementSync } from '../../../base/database/sqlite-file.ts';
import type { EventFacts } from '../../events/mail-event.ts';
import { outcomeNumbers } from '../journal-row.ts';
import { notesOf, type WrittenJournal, withNotes } from './journal-of-event.ts';
import { journalMigrations } from './journal-tables.ts';

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

  add({ row, isSameBody, receivedHead, receivedBody, sentHead, sentBody }: WrittenJournal): void {
    const { id, at, account, outcome, waiting, octets, facts, more } = row;
    const { lastInsertRowid } = this.#add.run(id, at, account, outcome, waiting, octets, facts, more);
    if (octets === 0) return;
    const blobs = [receivedHead ?? null, sentHead ?? null, receivedBody ?? null, sentBody ?? null];
    this.#addContent.run(lastInsertRowid, isSameBody ? 1 : 0, ...blobs);
  }

  /**
   * Notes what became of messages: each row is written once, however many events there are of it.
   * @param events as they were taken from the table; those without facts are damaged
   */
  note(events: readonly { readonly kind: string; readonly message: string; facts: EventFacts | undefined }[]): void {
    const recipients = new Map<string, number>();
    for (const { message, facts } of events)
      if (facts?.kind === 'accepted') recipients.set(message, facts.recipientCount);
    for (const [id, noted] of notesOf(events, ({ facts }) => facts)) {
      // The row is as its acceptance made it, so that it need not be read.
      const known = recipients.get(id);
      const row = known === undefined ? this.#told.get(id) : { waiting: known, outcome: outcomeNumbers.accepted };
      if (!row) continue;
      const before = { waiting: Number(row['waiting']), outcome: Number(row['outcome']) };
      const after = withNotes(before, noted);
      if (after.waiting !== before.waiting || after.outcome !== before.outcome)
        this.#note.run(after.waiting, after.outcome, id);
    }
  }
}
