// The journal's tables, in both engines.

import type { Migrations } from '../../../base/database/database.ts';
import { takesPartitions } from '../../../base/database/postgres-migrations.ts';
import { type DatabaseSync, migrateSqlite, type StatementSync } from '../../../base/database/sqlite-file.ts';
import type { EventFacts } from '../../events/mail-event.ts';
import { isCopyByKeys, outcomeNumbers } from '../journal-row.ts';
import { notesOf, type WrittenJournal, withNotes } from './journal-of-event.ts';

/** The tables in PostgreSQL, where rows have more: content is found by the id of its row, and seq is 0 but of what was moved from SQLite. */
const postgresTables = (partitions = ''): string => `
  CREATE TABLE journal (
    seq BIGINT GENERATED ALWAYS AS IDENTITY,
    id TEXT COLLATE "C" NOT NULL UNIQUE,
    at BIGINT NOT NULL,
    account TEXT COLLATE "C" NOT NULL,
    outcome SMALLINT NOT NULL,
    waiting INTEGER NOT NULL,
    octets BIGINT NOT NULL,
    facts TEXT COLLATE "C" NOT NULL,
    more TEXT COLLATE "C" NOT NULL,
    keys TEXT COLLATE "C" NOT NULL,
    words TEXT COLLATE "C" NOT NULL
  )${partitions};
  CREATE INDEX journal_by_seq ON journal (seq);
  CREATE INDEX journal_by_account ON journal (account, seq);
  CREATE INDEX journal_by_outcome ON journal (outcome, account) WHERE outcome > 2;
  CREATE TABLE journal_content (
    seq BIGINT NOT NULL,
    same_body SMALLINT NOT NULL,
    received_head BYTEA,
    sent_head BYTEA,
    received_body BYTEA,
    sent_body BYTEA,
    id TEXT COLLATE "C" NOT NULL DEFAULT '',
    PRIMARY KEY (id, seq)
  )${partitions};`;

// Ids are UUIDv7, which begin with their time: a range of ids is a time. No release had rows before there were partitions.
const journalPartitions = `
  ALTER TABLE journal ADD CONSTRAINT no_release_has_rows_here CHECK (false);
  DROP TABLE journal, journal_content;
  ${postgresTables(' PARTITION BY RANGE (id)')}
  CREATE TABLE journal_default PARTITION OF journal DEFAULT;
  CREATE TABLE journal_content_default PARTITION OF journal_content DEFAULT`;

/** The journal's tables. Times are wall times: how long a row is kept is no waiting time. */
export const journalMigrations: Migrations = {
  owner: 'journal',
  steps: [
    `
    -- AUTOINCREMENT: a number is never given twice. outcome: 1 accepted, 2 delivered, 3 deferred, 4 failed, 5 dropped, 6
    -- refused. waiting: recipients without an outcome for good. octets: those of the content. facts, more: JSON.
    CREATE TABLE journal (
      seq INTEGER PRIMARY KEY AUTOINCREMENT,
      id TEXT NOT NULL UNIQUE,
      at INTEGER NOT NULL,
      account TEXT NOT NULL,
      outcome INTEGER NOT NULL,
      waiting INTEGER NOT NULL,
      octets INTEGER NOT NULL,
      facts TEXT NOT NULL,
      more TEXT NOT NULL
    ) STRICT;
    -- Most rows are accepted or delivered. They stay out, so that an ordinary message changes no index.
    CREATE INDEX journal_by_outcome ON journal (outcome) WHERE outcome > 2;

    -- What is kept of a message itself. same_body: the body that left is the one that came, kept as the sent one.
    CREATE TABLE journal_content (
      seq INTEGER PRIMARY KEY,
      same_body INTEGER NOT NULL,
      received_head BLOB,
      sent_head BLOB,
      received_body BLOB,
      sent_body BLOB
    ) STRICT;

    -- What is searched for: the words of subject, addresses and mailer, and in keys each filter's value as a word of its own.
    -- Filled behind the rows, some at a time.
    CREATE VIRTUAL TABLE journal_words USING fts5 (keys, words, content = '', contentless_delete = 1);

    -- One row. indexed: up to which row the words are filled; octets: those of the content of these rows.
    CREATE TABLE journal_state (
      one INTEGER PRIMARY KEY CHECK (one = 1),
      indexed INTEGER NOT NULL,
      octets INTEGER NOT NULL
    ) STRICT;
    INSERT INTO journal_state VALUES (1, 0, 0);

    -- How many refusals of each account these rows hold.
    CREATE TABLE journal_refusals (account TEXT PRIMARY KEY, rows INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    `,
    `
    -- How many copies that came to shadow listeners. They are no refusals, whatever their outcome.
    CREATE TABLE journal_copies (account TEXT PRIMARY KEY, rows INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    `,
  ],
  postgres: [
    postgresTables(),
    // No release had tables of version 1.
    '',
    journalPartitions,
    `CREATE INDEX journal_copies ON journal (account, outcome, seq) WHERE ${isCopyByKeys}`,
  ],
  postgresWhere: { 3: takesPartitions },
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

  add({ row, isSameBody, receivedHead, receivedBody, sentHead, sentBody }: WrittenJournal): void {
    const { id, at, account, outcome, waiting, octets, facts, more } = row;
    const { lastInsertRowid } = this.#add.run(id, at, account, outcome, waiting, octets, facts, more);
    if (octets === 0) return;
    const blobs = [receivedHead ?? null, sentHead ?? null, receivedBody ?? null, sentBody ?? null];
    this.#addContent.run(lastInsertRowid, isSameBody ? 1 : 0, ...blobs);
  }

  /** Notes what became of messages, each row once for all its events. @param events of the table; without facts they are damaged */
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
