// The spool's tables in SQLite (D89, D90). A message is written once; an attempt only changes small rows of recipients.

import type { Migrations } from '../../base/database/database.ts';
import { countTable, holdTable, keyTable, reportCountTable, reportTables } from '../core/shared-tables.ts';
import { threadTables } from '../threads/sqlite-threads.ts';
import { blockTables } from './file/settled-octets.ts';
import { inFlightTables } from './in-flight.ts';
import { rebuildLedger } from './sqlite-ledger.ts';

/** What was added between the first release and the next one. Times but accepted_at and at are times as the spool stores them. */
const laterTables = `
  -- lane: nothing reads it any more. line: 0 has none yet, as every recipient of the first release, which gets one when it is due; -N is
  -- set aside by hold N. claimed_by: who has claimed it, where several processes share the spool; 0: the only process. via: how the
  -- message came in, for the events of its outcomes; NULL where the first release accepted it. RET, ENVID, NOTIFY and ORCPT as given;
  -- NULL where they were not. reports of a message: how many were begun about it; of a recipient: which ones its sender wants (1
  -- success, 2 failure, 4 delay).
  ALTER TABLE spool_recipients ADD COLUMN lane TEXT NOT NULL DEFAULT '';
  ALTER TABLE spool_messages ADD COLUMN via TEXT;
  ALTER TABLE spool_messages ADD COLUMN client_address TEXT;
  ALTER TABLE spool_messages ADD COLUMN helo TEXT;
  ALTER TABLE spool_messages ADD COLUMN ret TEXT;
  ALTER TABLE spool_messages ADD COLUMN envid TEXT;
  ALTER TABLE spool_messages ADD COLUMN reports INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE spool_recipients ADD COLUMN notify TEXT;
  ALTER TABLE spool_recipients ADD COLUMN orcpt TEXT;
  ALTER TABLE spool_recipients ADD COLUMN reports INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE spool_recipients ADD COLUMN line INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE spool_recipients ADD COLUMN claimed_by INTEGER NOT NULL DEFAULT 0;
  DROP INDEX spool_due;
  CREATE INDEX spool_due ON spool_recipients (line, attempts > 0, max(next_attempt_at, claimed_until)) WHERE state = 0;
  DROP INDEX spool_failed;
  CREATE INDEX spool_failed ON spool_recipients (message) WHERE state = 2;

  -- Who waits in turn: the recipients of one account for one lane. lane: the transport's name, with a domain behind a slash
  -- where each domain waits on its own; transport: the name without it. ready_at: when the next turn may come; never later
  -- than the first recipient is due. hold: the hold that keeps the whole line waiting, or 0.
  CREATE TABLE spool_lines (
    id INTEGER PRIMARY KEY,
    transport TEXT NOT NULL,
    lane TEXT NOT NULL,
    account TEXT NOT NULL,
    ready_at INTEGER NOT NULL,
    hold INTEGER NOT NULL DEFAULT 0,
    UNIQUE (lane, account)
  ) STRICT;
  -- Turns are found account by account, so that one with very many lines leaves some to the others.
  CREATE INDEX spool_turns ON spool_lines (hold, transport, account, ready_at);
  ${holdTable}

  -- One row. offset: what is taken from a wall time before it is stored, in every column but accepted_at. skew: wall time
  -- less monotonic time when the offset was moved last (sqlite-clock.ts).
  CREATE TABLE spool_clock (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    offset INTEGER NOT NULL,
    skew INTEGER NOT NULL
  ) STRICT;

  ${countTable}
  -- Messages without a queued recipient, kept because one failed: found by age without a look at those that wait.
  CREATE TABLE spool_failures (
    message INTEGER PRIMARY KEY REFERENCES spool_messages (seq),
    account TEXT NOT NULL,
    ended_at INTEGER NOT NULL,
    size INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX spool_failures_by_age ON spool_failures (ended_at);
  CREATE INDEX spool_failures_by_account ON spool_failures (account, ended_at);
  ${rebuildLedger}

  -- Written to find out whether anything can be.
  CREATE TABLE spool_probe (id INTEGER PRIMARY KEY CHECK (id = 1), written_at INTEGER NOT NULL) STRICT;

  ${reportTables()}
  ${reportCountTable}
  ${threadTables}
`;

/** The table of the keys. */
export const idempotencyMigrations: Migrations = { owner: 'idempotency', steps: [keyTable] };

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
    laterTables,
    // No release had tables of versions 2 to 9; these lack a column, and fail here.
    ...Array<string>(7).fill(''),
    'SELECT claimed_by FROM spool_recipients LIMIT 0',
    inFlightTables,
    blockTables,
  ],
};
