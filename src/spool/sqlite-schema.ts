// The spool's tables in SQLite (D89, D90). A message is written once; an attempt changes only small recipient rows.

import type { Migrations } from '../base/database.ts';

/** Migrations of the spool. Times are milliseconds since 1970. */
export const spoolMigrations: Migrations = {
  owner: 'spool',
  steps: [
    `
    CREATE TABLE spool_messages (
      seq INTEGER PRIMARY KEY,
      id TEXT NOT NULL UNIQUE,
      account TEXT NOT NULL,
      credential TEXT NOT NULL,
      session_id TEXT NOT NULL,
      message_id TEXT NOT NULL,
      client_message_id TEXT,
      reverse_path TEXT NOT NULL,
      sender_path TEXT NOT NULL,
      smtputf8 INTEGER NOT NULL,
      require_tls INTEGER NOT NULL,
      accepted_at INTEGER NOT NULL,
      expires_at INTEGER NOT NULL,
      signature_start INTEGER,
      signature_end INTEGER,
      size INTEGER NOT NULL,
      body_in_file INTEGER NOT NULL,
      head BLOB NOT NULL,
      body BLOB
    ) STRICT;

    -- state: 0 queued, 1 delivered, 2 failed. claimed_until: 0 when nobody holds it.
    CREATE TABLE spool_recipients (
      message INTEGER NOT NULL REFERENCES spool_messages (seq),
      position INTEGER NOT NULL,
      address TEXT NOT NULL,
      state INTEGER NOT NULL,
      attempts INTEGER NOT NULL,
      next_attempt_at INTEGER NOT NULL,
      claimed_until INTEGER NOT NULL,
      ended_at INTEGER,
      reply_code INTEGER,
      reply_enhanced TEXT,
      reply_text TEXT,
      host TEXT,
      PRIMARY KEY (message, position)
    ) STRICT, WITHOUT ROWID;

    CREATE INDEX spool_due ON spool_recipients (max(next_attempt_at, claimed_until)) WHERE state = 0;
    CREATE INDEX spool_failed ON spool_recipients (ended_at) WHERE state = 2;
    `,
    `
    -- lane: who waits for the same next hop. '' has none yet. Whoever claims looks at one lane alone.
    ALTER TABLE spool_recipients ADD COLUMN lane TEXT NOT NULL DEFAULT '';
    DROP INDEX spool_due;
    CREATE INDEX spool_due ON spool_recipients (lane, max(next_attempt_at, claimed_until)) WHERE state = 0;
    `,
    `
    -- One row. offset: what is taken from a wall time before it is stored, in every column but accepted_at. skew: wall time
    -- less monotonic time when the offset was moved last (sqlite-clock.ts).
    CREATE TABLE spool_clock (
      one INTEGER PRIMARY KEY CHECK (one = 1),
      offset INTEGER NOT NULL,
      skew INTEGER NOT NULL
    ) STRICT;
    `,
  ],
};
