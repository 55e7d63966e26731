// The spool's tables in PostgreSQL (D91): those of SQLite, but for what several processes on several hosts need.

import type { Migrations } from '../../base/database/database.ts';
import { inPostgres, takesPartitions } from '../../base/database/postgres-migrations.ts';
import { countTable, holdTable, keyTable, reportCountTable, reportTables } from '../core/shared-tables.ts';

// INT is INTEGER, which stands for BIGINT in what is translated.
const reportWords = { id: 'UUID', whole: 'INT', flag: 'SMALLINT', whenGone: ' ON DELETE CASCADE' };

/** The tables of events and of what they are found by, alike but for their partitions. */
const eventTables = (ofEvents = '', ofKeys = ''): string => `CREATE TABLE mail_events (
    id BIGINT PRIMARY KEY,
    at BIGINT NOT NULL,
    account TEXT COLLATE "C" NOT NULL,
    share SMALLINT NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    queue_id TEXT COLLATE "C",
    event TEXT COLLATE "C" NOT NULL
  )${ofEvents};
  CREATE INDEX mail_events_by_account ON mail_events (account, share, id);
  CREATE INDEX mail_events_by_kind ON mail_events (account, kind, id);
  CREATE INDEX mail_events_by_message ON mail_events (queue_id, id) WHERE queue_id IS NOT NULL;
  CREATE TABLE mail_event_keys (
    key BIGINT NOT NULL,
    event BIGINT NOT NULL,
    PRIMARY KEY (key, event)
  )${ofKeys};`;

// Ids of events are given in the order of the commits, so that a range of them is a time. What there is becomes the partition of
// everything before. Writers are kept out by their turn, and then the tables are locked in the order in which searches read them.
const eventPartitions = `
  UPDATE spool_state SET last_event = last_event WHERE one = 1;
  LOCK TABLE mail_event_keys, mail_events IN ACCESS EXCLUSIVE MODE;
  ALTER TABLE mail_events RENAME TO mail_events_before;
  ALTER INDEX mail_events_pkey RENAME TO mail_events_before_pkey;
  ALTER INDEX mail_events_by_account RENAME TO mail_events_before_by_account;
  ALTER INDEX mail_events_by_kind RENAME TO mail_events_before_by_kind;
  ALTER INDEX mail_events_by_message RENAME TO mail_events_before_by_message;
  ALTER TABLE mail_event_keys RENAME TO mail_event_keys_before;
  ALTER INDEX mail_event_keys_pkey RENAME TO mail_event_keys_before_pkey;
  ${eventTables(' PARTITION BY RANGE (id)', ' PARTITION BY RANGE (event)')}
  CREATE TABLE mail_events_default PARTITION OF mail_events DEFAULT;
  CREATE TABLE mail_event_keys_default PARTITION OF mail_event_keys DEFAULT;
  DO $$
  DECLARE cut BIGINT;
  BEGIN
    SELECT last_event + 1 INTO cut FROM spool_state;
    IF EXISTS (SELECT 1 FROM mail_events_before) THEN
      EXECUTE format('ALTER TABLE mail_events ATTACH PARTITION mail_events_before FOR VALUES FROM (MINVALUE) TO (%L)', cut);
      EXECUTE format('ALTER TABLE mail_event_keys ATTACH PARTITION mail_event_keys_before FOR VALUES FROM (MINVALUE) TO (%L)', cut);
    ELSE
      DROP TABLE mail_events_before, mail_event_keys_before;
    END IF;
  END $$`;

/** The spool's tables. Times are the server's (database-clock.ts) but for acceptance; states and shares as in `stateNumbers`. */
export const postgresSpoolMigrations: Migrations = {
  owner: 'spool',
  steps: [],
  postgres: [
    `
    -- One row. last_event: the newest event's id. Whoever files or removes events changes it first, and so waits for the one who
    -- does so already: an id is visible before any greater one is drawn.
    CREATE TABLE spool_state (
      one SMALLINT PRIMARY KEY CHECK (one = 1),
      last_event BIGINT NOT NULL
    );
    INSERT INTO spool_state VALUES (1, 0);

    -- The processes that claim and write. beats: grows while the process lives. batch: the number of the process's last
    -- transaction, by which it finds out what became of one whose end it did not hear of.
    CREATE TABLE spool_processes (
      id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
      name TEXT COLLATE "C" NOT NULL,
      beats BIGINT NOT NULL,
      batch BIGINT NOT NULL
    );

    -- RET, ENVID, NOTIFY and ORCPT as given; NULL where they were not. reports of a message: how many were begun about it; of a
    -- recipient: which ones its sender wants (reportBits).
    CREATE TABLE spool_messages (
      id UUID PRIMARY KEY,
      account TEXT COLLATE "C" NOT NULL,
      credential TEXT COLLATE "C" NOT NULL,
      session_id TEXT COLLATE "C" NOT NULL,
      message_id TEXT COLLATE "C" NOT NULL,
      client_message_id TEXT COLLATE "C",
      reverse_path TEXT COLLATE "C" NOT NULL,
      sender_path TEXT COLLATE "C" NOT NULL,
      smtputf8 SMALLINT NOT NULL,
      require_tls SMALLINT NOT NULL,
      accepted_at BIGINT NOT NULL,
      expires_at BIGINT NOT NULL,
      signature_start INTEGER,
      signature_end INTEGER,
      size BIGINT NOT NULL,
      head_length INTEGER NOT NULL,
      via TEXT COLLATE "C",
      client_address TEXT COLLATE "C",
      helo TEXT COLLATE "C",
      ret TEXT COLLATE "C",
      envid TEXT COLLATE "C",
      reports INTEGER NOT NULL DEFAULT 0
    );

    -- Head and body of a message, one behind the other, in parts.
    CREATE TABLE spool_octets (
      message UUID NOT NULL,
      part INTEGER NOT NULL,
      octets BYTEA NOT NULL,
      PRIMARY KEY (message, part)
    );

    -- due_at: when it may be claimed next: at its next attempt, or once the claim on it has run out. claimed_by: the process
    -- that holds it. lane: the transport that it waits for, with a domain behind a slash where each domain waits on its own;
    -- '' has none yet. account: whose turn it waits for; '' without a lane. hold: the hold that it is set aside for.
    CREATE TABLE spool_recipients (
      message UUID NOT NULL,
      position INTEGER NOT NULL,
      address TEXT COLLATE "C" NOT NULL,
      lane TEXT COLLATE "C" NOT NULL,
      account TEXT COLLATE "C" NOT NULL,
      hold BIGINT,
      state SMALLINT NOT NULL,
      attempts INTEGER NOT NULL,
      next_attempt_at BIGINT NOT NULL,
      due_at BIGINT NOT NULL,
      claimed_by BIGINT,
      ended_at BIGINT,
      reply_code INTEGER,
      reply_enhanced TEXT COLLATE "C",
      reply_text TEXT COLLATE "C",
      host TEXT COLLATE "C",
      notify TEXT COLLATE "C",
      orcpt TEXT COLLATE "C",
      reports SMALLINT NOT NULL,
      PRIMARY KEY (message, position)
    );
    -- What splits a line is a number: a comparison with a truth value is rewritten before indexes are looked for.
    CREATE INDEX spool_due ON spool_recipients (lane, account, least(attempts, 1), due_at) WHERE state = 0 AND hold IS NULL;
    CREATE INDEX spool_aside ON spool_recipients (hold) WHERE hold IS NOT NULL;
    CREATE INDEX spool_claims ON spool_recipients (claimed_by) WHERE claimed_by IS NOT NULL;

    -- The lines in which recipients wait: one for each lane and account. transport: the lane without the domain. ready_at: when
    -- the next turn may come; never later than the first recipient is due.
    CREATE TABLE spool_lines (
      lane TEXT COLLATE "C" NOT NULL,
      account TEXT COLLATE "C" NOT NULL,
      transport TEXT COLLATE "C" NOT NULL,
      ready_at BIGINT NOT NULL,
      PRIMARY KEY (lane, account)
    );
    -- Turns are found account by account, so that one with very many lines leaves some to the others.
    CREATE INDEX spool_turns ON spool_lines (transport, account, ready_at);

    ${inPostgres([holdTable, countTable, keyTable, reportCountTable].join(''))}

    -- Messages without a queued recipient, kept because one failed.
    CREATE TABLE spool_failures (
      message UUID PRIMARY KEY,
      account TEXT COLLATE "C" NOT NULL,
      ended_at BIGINT NOT NULL
    );
    CREATE INDEX spool_failures_by_age ON spool_failures (ended_at);
    CREATE INDEX spool_failures_by_account ON spool_failures (account, ended_at);

    ${inPostgres(reportTables(reportWords))}

    -- client_id: the first half of the SHA-256 of the client's Message-ID. message_id: the one it left with.
    CREATE TABLE spool_threads (
      account TEXT COLLATE "C" NOT NULL,
      client_id UUID NOT NULL,
      message_id TEXT COLLATE "C" NOT NULL,
      created_at BIGINT NOT NULL,
      PRIMARY KEY (account, client_id)
    );
    CREATE INDEX spool_threads_by_age ON spool_threads (created_at);
    CREATE INDEX spool_threads_of_account ON spool_threads (account, created_at);

    ${eventTables()}

    CREATE TABLE mail_event_counts (
      account TEXT COLLATE "C" NOT NULL,
      share SMALLINT NOT NULL,
      events BIGINT NOT NULL,
      PRIMARY KEY (account, share)
    );
    `,
    // No release had tables of versions 1 and 2.
    ...['', ''],
    `
    -- Partitions of events that are taken off their table, and wait for their events to be counted off.
    CREATE TABLE mail_event_removals (partition TEXT COLLATE "C" PRIMARY KEY);
    `,
    eventPartitions,
    `
    -- How long, in milliseconds, a process's row may stay unchanged before the process is taken for dead. NULL, of an earlier
    -- release: as long as whoever looks at it allows its own.
    ALTER TABLE spool_processes ADD COLUMN patience_ms INTEGER;
    `,
  ],
  postgresWhere: { 5: takesPartitions },
};

/**
 * Migrations of what gateways need that write beside one another without waiting (D90, D91); those of the spool come first. The
 * tables have an owner of their own: a gateway of the release before does not know it, and so it starts and works on the same database.
 */
export const filingMigrations: Migrations = {
  owner: 'filing',
  steps: [],
  postgres: [
    `
    -- What transactions tell readers: events, rows of the journal, what accounts have more or less. A row for each transaction,
    -- until somebody files it (event-filer.ts). Where one follows from another, its number is greater.
    CREATE TABLE spool_unfiled (
      seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
      told BYTEA NOT NULL
    );
    ALTER TABLE spool_unfiled ALTER COLUMN told SET STORAGE EXTERNAL;

    -- The number of the last transaction of each way to write of a process, by which it finds out what became of one whose end it
    -- did not hear of.
    CREATE TABLE spool_fences (
      process BIGINT NOT NULL REFERENCES spool_processes (id) ON DELETE CASCADE,
      way SMALLINT NOT NULL,
      batch BIGINT NOT NULL,
      PRIMARY KEY (process, way)
    );

    -- 1: the process files what it tells, and waits for nobody. NULL, of an earlier release: it expects that one writes at a time.
    ALTER TABLE spool_processes ADD COLUMN form SMALLINT;
    -- Octets of up to 8 KB, as they are compressed, stay in their row: pieces beside it cost an entry of an index and a removal each.
    ALTER TABLE spool_octets ALTER COLUMN octets SET STORAGE MAIN;
    `,
    '',
  ],
};
