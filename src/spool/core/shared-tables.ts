// Tables that both engines have, in the words of SQLite (see `inPostgres`). Times are milliseconds since 1970.

/** What each account has in the spool; a row only where it has something. Kept in the transactions that change it. */
export const countTable = `
  CREATE TABLE spool_counts (
    account TEXT PRIMARY KEY,
    queued_messages INTEGER NOT NULL,
    failed_messages INTEGER NOT NULL,
    queued_octets INTEGER NOT NULL,
    failed_octets INTEGER NOT NULL,
    queued_recipients INTEGER NOT NULL,
    delivered_recipients INTEGER NOT NULL,
    failed_recipients INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;`;

/** What the operator keeps waiting. */
export const holdTable = `
  CREATE TABLE spool_holds (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    value TEXT NOT NULL,
    made_at INTEGER NOT NULL,
    made_by TEXT NOT NULL,
    why TEXT NOT NULL,
    UNIQUE (kind, value)
  ) STRICT;`;

// The types of the id of a message, of a number and of a flag, and what becomes of recipients when their report goes.
const sqliteWords = { id: 'TEXT', whole: 'INTEGER', flag: 'INTEGER', whenGone: '' };

/** Reports that are to be made, at most one for a message at a time, which may be gone before. @param words absent: those of SQLite */
export const reportTables = ({ id, whole, flag, whenGone } = sqliteWords): string => `
  CREATE TABLE spool_reports (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    queue_id ${id} NOT NULL UNIQUE,
    version INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    more ${whole} NOT NULL,
    account TEXT NOT NULL,
    session_id TEXT NOT NULL,
    message_id TEXT NOT NULL,
    client_message_id TEXT,
    sender_path TEXT NOT NULL,
    ret TEXT,
    envid TEXT,
    smtputf8 ${flag} NOT NULL,
    accepted_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    head BLOB NOT NULL
  ) STRICT;
  CREATE INDEX spool_reports_due ON spool_reports (due_at);
  CREATE TABLE spool_report_recipients (
    report INTEGER NOT NULL REFERENCES spool_reports (seq)${whenGone},
    position ${whole} NOT NULL,
    address TEXT NOT NULL,
    orcpt TEXT,
    action TEXT NOT NULL,
    at INTEGER NOT NULL,
    reply_code ${whole} NOT NULL,
    reply_enhanced TEXT,
    reply_text TEXT NOT NULL,
    host TEXT NOT NULL,
    PRIMARY KEY (report, position)
  ) STRICT, WITHOUT ROWID;`;

/** How many reports were begun on a day; address '' is the sum of the account. */
export const reportCountTable = `
  CREATE TABLE spool_report_counts (
    day INTEGER NOT NULL,
    account TEXT NOT NULL,
    address TEXT NOT NULL,
    reports INTEGER NOT NULL,
    PRIMARY KEY (day, account, address)
  ) STRICT, WITHOUT ROWID;`;

/** The Idempotency-Keys; `answer` is NULL unless it is other than the default. */
export const keyTable = `
  CREATE TABLE idempotency_keys (
    account TEXT NOT NULL,
    key TEXT NOT NULL,
    digest TEXT NOT NULL,
    message_id TEXT NOT NULL,
    recipients TEXT NOT NULL,
    answer TEXT,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (account, key)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX idempotency_age ON idempotency_keys (created_at);`;
