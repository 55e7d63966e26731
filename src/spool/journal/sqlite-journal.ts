// Writes the journal's rows in SQLite, on the spool's connection, in the transaction of what they tell of.

import { type DatabaseSync, migrateSqlite, type StatementSync } from '../../base/database/sqlite-file.ts';
import type { EventKind } from '../../events/mail-event.ts';
import { outcomeNumbers } from '../../journal/journal-row.ts';
import type { PackedEvent } from '../packed-event.ts';
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

/** What an event makes of the row of its message; ?1 is the id. Kinds that are not named change nothing. */
const changes: Partial<Record<EventKind, string>> = {
  delivered: `UPDATE journal SET waiting = max(waiting - 1, 0),
    outcome = CASE WHEN outcome = ${failed} THEN ${failed} WHEN waiting <= 1 THEN ${delivered} ELSE outcome END WHERE id = ?1`,
  deferred: `UPDATE journal SET outcome = ${deferred} WHERE id = ?1 AND outcome = ${accepted}`,
  failed: `UPDATE journal SET waiting = max(waiting - 1, 0), outcome = ${failed} WHERE id = ?1`,
  requeued: `UPDATE journal SET waiting = waiting + ?2, outcome = ${accepted} WHERE id = ?1`,
  dropped: `UPDATE journal SET waiting = 0, outcome = ${dropped} WHERE id = ?1`,
};

function failedCountOf({ json }: PackedEvent): number {
  const event: unknown = JSON.parse(json);
  return typeof event === 'object' && event !== null && 'failedCount' in event ? Number(event.failedCount) : 0;
}

/** The journal of one database. Every method runs in the caller's transaction. */
export class SqliteJournal {
  readonly #add: StatementSync;
  readonly #addContent: StatementSync;
  readonly #changes: ReadonlyMap<string, StatementSync>;

  /** Brings the tables up to date. */
  constructor(database: DatabaseSync) {
    migrateSqlite(database, journalMigrations);
    this.#add = database.prepare(
      'INSERT INTO journal (id, at, account, outcome, waiting, octets, facts, more) VALUES (?, ?, ?, ?, ?, ?, ?, ?)',
    );
    this.#addContent = database.prepare('INSERT INTO journal_content VALUES (?, ?, ?, ?, ?, ?)');
    this.#changes = new Map(Object.entries(changes).map(([kind, sql]) => [kind, database.prepare(sql)]));
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

  /** Notes what became of a message. */
  note(event: PackedEvent): void {
    const { kind, message } = event;
    const change = message === null ? undefined : this.#changes.get(kind);
    if (!change) return;
    if (kind === 'requeued') change.run(message, failedCountOf(event));
    else change.run(message);
  }
}
