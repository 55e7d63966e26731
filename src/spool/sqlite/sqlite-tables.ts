// The spool's tables in SQLite (D89, D90): its SQL, prepared once. `state` is 0 queued, 1 delivered, 2 failed.

import type { Migrations } from '../../base/database/database.ts';
import { type DatabaseSync, migrateSqlite, prepareAll } from '../../base/database/sqlite-file.ts';
import { Part } from '../../base/part.ts';
import { countTable, holdTable, keyTable, reportCountTable, reportTables } from '../core/shared-tables.ts';
import { messageColumns, readHolds } from '../stored-rows.ts';
import { blockTables, octetColumns, SettledOctets } from './file/settled-octets.ts';
import { stepsOn } from './file/sqlite-steps.ts';
import { inFlightRows, inFlightTables, MessagesInFlight } from './in-flight.ts';
import { SpoolClock } from './sqlite-clock.ts';
import { Ledger, rebuildLedger } from './sqlite-ledger.ts';
import { Lines } from './sqlite-lines.ts';

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

  -- client_id: the first half of the SHA-256 of the client's Message-ID. message_id: the one it left with. created_at as the
  -- spool stores times.
  CREATE TABLE spool_threads (
    account TEXT NOT NULL,
    client_id BLOB NOT NULL,
    message_id TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (account, client_id)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX spool_threads_by_age ON spool_threads (account, created_at);
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
    'DROP TABLE IF EXISTS spool_thread_counts',
  ],
};

const entryColumns = ['seq', 'body_in_file', ...messageColumns].join(', ');
const change = `UPDATE spool_recipients SET state = ?3, attempts = ?4, next_attempt_at = ?5, claimed_until = ?6, ended_at = ?7,
  line = ?8`;

const statementTexts = {
  addMessage: `INSERT INTO spool_messages (${entryColumns}, head, body, envelope)
    VALUES (?, ?, ${messageColumns.map(() => '?').join(', ')}, ?, ?, ?)`,
  nextSeq: 'SELECT max(mark, 1 + coalesce((SELECT max(seq) FROM spool_messages), 0)) AS seq FROM spool_in_flight',
  states: `SELECT m.seq, m.account, m.size, m.body_in_file, m.accepted_at, m.reports AS begun,
      r.position, r.address, r.state, r.attempts, r.reports, r.line, r.next_attempt_at, r.claimed_until
    FROM spool_messages m JOIN spool_recipients r ON r.message = m.seq WHERE m.id = ?`,
  change: `${change} WHERE message = ?1 AND position = ?2`,
  changeReplied: `${change}, reply_code = ?9, reply_enhanced = ?10, reply_text = ?11, host = ?12
    WHERE message = ?1 AND position = ?2`,
  forgetRecipients: 'DELETE FROM spool_recipients WHERE message = ?',
  forgetMessage: 'DELETE FROM spool_messages WHERE seq = ?',
  due: `SELECT message FROM spool_recipients
    WHERE state = 0 AND line = ? AND (attempts > 0) = ? AND max(next_attempt_at, claimed_until) <= ?
    ORDER BY max(next_attempt_at, claimed_until)`,
  // `+line` makes SQLite read only the message's own rows: the index on the line would lead through the whole of it.
  dueOf: `SELECT position, address, attempts FROM spool_recipients
    WHERE message = ? AND state = 0 AND +line = ? AND max(next_attempt_at, claimed_until) <= ? ORDER BY position`,
  claim: 'UPDATE spool_recipients SET claimed_until = ? WHERE message = ? AND position = ?',
  expiry: 'SELECT expires_at FROM spool_messages WHERE seq = ?',
  dueInLine: `SELECT r.message, r.position, r.address, m.id, m.account
    FROM spool_recipients r JOIN spool_messages m ON m.seq = r.message
    WHERE r.state = 0 AND r.line = ? AND (r.attempts > 0) = ? AND max(r.next_attempt_at, r.claimed_until) <= ?
    ORDER BY max(r.next_attempt_at, r.claimed_until) LIMIT ?`,
  queuedRecipient: `SELECT max(next_attempt_at, claimed_until) AS due FROM spool_recipients
    WHERE message = ? AND position = ? AND state = 0`,
  giveLine: 'UPDATE spool_recipients SET line = ? WHERE message = ? AND position = ?',
  setAside: `UPDATE spool_recipients SET line = ? WHERE message = (SELECT seq FROM spool_messages WHERE id = ?) AND state = 0`,
  nextAside: 'SELECT min(line) AS line FROM spool_recipients WHERE state = 0 AND line > ? AND line < 0',
  // What was set aside waits for no transport: it is given one anew, by the routes of then.
  backInLine: `UPDATE spool_recipients SET line = 0 WHERE (message, position) IN
    (SELECT message, position FROM spool_recipients WHERE state = 0 AND line = ? LIMIT ?)`,
  waiting: `SELECT l.lane, l.account, l.ready_at, l.hold, r.line, r.recipients, m.accepted_at
    FROM (SELECT line, count(*) AS recipients, min(message) AS first FROM spool_recipients WHERE state = 0
      GROUP BY line ORDER BY count(*) DESC LIMIT ?) r
    LEFT JOIN spool_lines l ON l.id = r.line LEFT JOIN spool_messages m ON m.seq = r.first`,
  waitingInFlight: `SELECT r.value ->> 1 AS lane, m.account, count(*) AS recipients, min(m.accepted_at) AS accepted_at
    FROM (SELECT account, accepted_at, envelope FROM ${inFlightRows}) m, json_each(m.envelope, '$.to') r GROUP BY 1, 2`,
  oldestInFlight: `SELECT accepted_at FROM ${inFlightRows} ORDER BY seq LIMIT 1`,
  oldest: `SELECT r.message, m.accepted_at FROM spool_recipients r
    JOIN spool_messages m ON m.seq = r.message WHERE r.message >= ? AND +r.state = 0 ORDER BY r.message LIMIT 1`,
  holds: readHolds,
  holdsVersion: 'SELECT count(*) AS held, max(id) AS newest FROM spool_holds',
  addHold: `INSERT INTO spool_holds (kind, value, made_at, made_by, why) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (kind, value) DO UPDATE SET made_at = excluded.made_at, made_by = excluded.made_by, why = excluded.why`,
  liftHold: 'DELETE FROM spool_holds WHERE kind = ? AND value = ?',
  holdId: 'SELECT id FROM spool_holds WHERE kind = ? AND value = ?',
  release: `UPDATE spool_recipients SET claimed_until = 0
    WHERE message = ? AND position = ? AND state = 0`,
  releaseAll: 'UPDATE spool_recipients SET claimed_until = 0 WHERE state = 0 AND claimed_until > 0',
  extend: 'UPDATE spool_messages SET expires_at = ? WHERE seq = ?',
  keepFailure: 'INSERT OR REPLACE INTO spool_failures VALUES (?, ?, ?, ?)',
  forgetFailure: 'DELETE FROM spool_failures WHERE message = ?',
  prunable: `SELECT m.id
    FROM spool_failures f JOIN spool_messages m ON m.seq = f.message WHERE f.ended_at < ? ORDER BY f.ended_at LIMIT ?`,
  oldestFailures: `SELECT m.id
    FROM spool_failures f JOIN spool_messages m ON m.seq = f.message
    WHERE f.account = ? ORDER BY f.ended_at, f.message LIMIT ?`,
  entry: `SELECT ${entryColumns}, envelope FROM spool_messages WHERE id = ?`,
  entryBySeq: `SELECT ${entryColumns} FROM spool_messages WHERE seq = ?`,
  octets: `SELECT ${octetColumns} FROM spool_messages WHERE id = ?`,
  recipients: `SELECT r.*, l.lane AS waits_for, l.ready_at FROM spool_recipients r
    LEFT JOIN spool_lines l ON l.id = r.line WHERE r.message = ? ORDER BY r.position`,
  envelope: 'SELECT address, notify, orcpt FROM spool_recipients WHERE message = ? ORDER BY position',
  keepThread: 'INSERT OR REPLACE INTO spool_threads VALUES (?, ?, ?, ?)',
  probe: 'INSERT OR REPLACE INTO spool_probe VALUES (1, ?)',
  endOfSlice: 'SELECT id FROM spool_messages WHERE id > ? ORDER BY id LIMIT 1 OFFSET ?',
  list: `SELECT ${entryColumns}, envelope FROM spool_messages m WHERE id > ?1 AND id <= ?5 AND (?6 = '' OR account = ?6)
    AND (?2 < 0 OR (?2 = 0 AND envelope IS NOT NULL) OR EXISTS (SELECT 1 FROM spool_recipients r WHERE r.message = m.seq AND r.state = ?2))
    AND (?3 = '%' OR id LIKE ?3 ESCAPE '\\' OR message_id LIKE ?3 ESCAPE '\\' OR client_message_id LIKE ?3 ESCAPE '\\'
      OR sender_path LIKE ?3 ESCAPE '\\' OR reverse_path LIKE ?3 ESCAPE '\\'
      OR EXISTS (SELECT 1 FROM spool_recipients r WHERE r.message = m.seq AND r.address LIKE ?3 ESCAPE '\\')
      OR EXISTS (SELECT 1 FROM json_each(m.envelope, '$.to') r WHERE r.value ->> 0 LIKE ?3 ESCAPE '\\'))
    ORDER BY id LIMIT ?4`,
};

/** Prepares the statements on a connection whose tables are up to date. */
export const prepareStatements = (database: DatabaseSync) => prepareAll(database, statementTexts);

/** Brings the tables of a database up to date, all but those of events and the journal, and makes what works on them. */
export function tablesOf(database: DatabaseSync) {
  migrateSqlite(database, spoolMigrations);
  migrateSqlite(database, idempotencyMigrations);
  const [clock, lines] = [new SpoolClock({ database }), new Lines({ database })];
  return {
    ...{ statements: prepareStatements(database), clock, lines, ledger: new Ledger({ database }) },
    ...{ inFlight: new MessagesInFlight({ database, clock, lines }), settled: new SettledOctets(database) },
    steps: stepsOn(database),
  };
}

/** What is shared. */
export type SpoolTables = ReturnType<typeof tablesOf>;

/** A part of the store that works on the tables of one database. Some parts have others besides. */
export abstract class SpoolPart<Parts extends SpoolTables = SpoolTables> extends Part<Parts> {
  protected readonly statements = this.parts.statements;
  protected readonly clock = this.parts.clock;
  protected readonly ledger = this.parts.ledger;
  protected readonly lines = this.parts.lines;
  readonly inFlight = this.parts.inFlight;
}
