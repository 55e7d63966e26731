// How each table of SQLite comes to PostgreSQL. A test and the move itself refuse one that is not named here.

import type { Migrations } from '../../base/database/database.ts';
import { countTallies } from '../core/tally-steps.ts';

/** A table of the target, and where its rows come from. */
export interface MovedTable {
  /** Its name in both databases. */
  readonly name: string;
  /** The question to SQLite, whose columns are named as the target's; absent: the columns of the target are read from the table. */
  readonly select?: string;
  /** Columns with times as the spool stores them, to which `:shift` is added. */
  readonly times?: readonly string[];
  /** SQL for columns that the source has otherwise. */
  readonly made?: Readonly<Record<string, string>>;
  /** Columns of the source that are not copied. */
  readonly left?: readonly string[];
  /** Which rows are copied; absent: all. */
  readonly where?: string;
}

// `is_moved` tells what is not left behind: by the id of its message, and by the number of its entry in the journal.

// Nobody works on the file, so no claim counts. What has no line, or is set aside (a line below zero), gets a transport later.
const recipients = `SELECT m.id AS message, r.position, r.address, coalesce(l.lane, '') AS lane, coalesce(l.account, '') AS account,
    CASE WHEN r.line < 0 AND r.state = 0 THEN -r.line END AS hold, r.state, r.attempts,
    r.next_attempt_at + :shift AS next_attempt_at, r.next_attempt_at + :shift AS due_at, r.ended_at + :shift AS ended_at,
    r.reply_code, r.reply_enhanced, r.reply_text, r.host, r.notify, r.orcpt, r.reports
  FROM spool_recipients r JOIN spool_messages m ON m.seq = r.message LEFT JOIN spool_lines l ON l.id = r.line
  WHERE is_moved(m.id, NULL) ORDER BY r.message, r.position`;

const failures = `SELECT m.id AS message, f.account, f.ended_at + :shift AS ended_at
  FROM spool_failures f JOIN spool_messages m ON m.seq = f.message WHERE is_moved(m.id, NULL) ORDER BY f.message`;

// The id says into which partition the content belongs.
const journalContent = `SELECT c.seq, same_body, received_head, sent_head, received_body, sent_body, coalesce(j.id, '') AS id
  FROM journal_content c LEFT JOIN journal j ON j.seq = c.seq WHERE is_moved(NULL, c.seq) ORDER BY c.seq`;

function same(...names: readonly string[]): readonly MovedTable[] {
  return names.map((name) => ({ name }));
}

/** The tables in the order in which they are written: what others refer to comes first. */
export const movedTables: readonly MovedTable[] = [
  ...same('tokens', 'recipients_per_day', 'sts_policies', 'edge_custom_errors', 'feedback_cursor', 'suppressions'),
  ...same('console_sessions', 'console_links', 'minute_figures', 'proxy_hostnames', 'proxy_addresses'),
  ...same('proxy_applications', 'proxy_allocations', 'proxy_bindings', 'proxy_pools', 'tls_sessions', 'tls_reports'),
  // The process that had a lease on a webhook has ended.
  { name: 'webhooks', made: { lease_holder: 'NULL', lease_until: '0' } },
  ...same('webhook_pending', 'webhook_deliveries'),
  { name: 'spool_holds', times: ['made_at'] },
  {
    name: 'spool_messages',
    times: ['expires_at'],
    made: { head_length: 'length(head)' },
    left: ['seq', 'body_in_file', 'head', 'body', 'envelope', 'block', 'block_start'],
    where: 'is_moved(id, NULL)',
  },
  { name: 'spool_recipients', select: recipients },
  { name: 'spool_failures', select: failures },
  { name: 'spool_reports', times: ['due_at', 'expires_at'] },
  ...same('spool_report_recipients', 'spool_report_counts'),
  { name: 'spool_threads', times: ['created_at'], made: { client_id: 'lower(hex(client_id))' } },
  ...same('idempotency_keys'),
  { name: 'mail_events', times: ['at'] },
  ...same('mail_event_counts', 'mail_event_keys'),
  {
    name: 'journal',
    // SQLite has an index of its own instead.
    made: { keys: 'searched_keys(facts)', words: 'searched_words(facts)' },
    where: 'is_moved(NULL, seq)',
  },
  { name: 'journal_content', select: journalContent },
];

/** Tables of SQLite whose rows are not copied, and why. */
export const leftTables: Readonly<Record<string, string>> = {
  journal_copies: 'PostgreSQL counts by an index',
  journal_refusals: 'PostgreSQL counts by an index',
  journal_state: 'how far the index of SQLite is filled',
  journal_words: 'the index of SQLite; PostgreSQL searches columns of the rows',
  mail_event_index: 'the index of SQLite; PostgreSQL has its own',
  mail_event_state: 'how far the index of SQLite is filled',
  hop_holders: 'processes that deliver, of which none does meanwhile',
  hop_shares: 'what these processes were granted',
  migrations: 'the target has its own',
  moved_away: 'the mark of the move itself',
  proxy_revision: 'a number, which goes on in the target',
  spool_blocks: 'octets of messages, which are put back into the messages before',
  spool_clock: 'times are turned into the time of the server',
  spool_counts: 'counted anew from what the target has',
  spool_in_flight: 'messages in flight get rows of recipients before they are copied',
  spool_lines: 'made anew from the recipients that wait',
  spool_probe: 'says nothing about mail',
};

/** What the target makes of what it has. */
export const derivedTables: readonly string[] = [
  `INSERT INTO spool_lines (lane, account, transport, ready_at)
   SELECT lane, account, split_part(lane, '/', 1), min(due_at) FROM spool_recipients
   WHERE state = 0 AND hold IS NULL AND lane <> '' GROUP BY lane, account`,
  countTallies('id'),
];

/** The next number of a column that the server numbers by itself lies behind every number that SQLite has given. */
function serial(table: string, column: string) {
  return {
    name: table,
    select: lastNumber(table),
    change: `SELECT setval(pg_get_serial_sequence('${table}', '${column}'), greatest($1::bigint, 1), $1::bigint > 0) AS value`,
  };
}

/** The last number that SQLite has given to a row of a table. */
export function lastNumber(table: string): string {
  return `SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = '${table}'), 0) AS value`;
}

/** Numbers that go on in the target: the question to SQLite for `value`, and the change with `$1`; NULL where it changes nothing. */
export const movedCounters = [
  {
    name: 'mail_events',
    select: lastNumber('mail_events'),
    change: 'UPDATE spool_state SET last_event = $1::bigint RETURNING last_event AS value',
  },
  {
    name: 'proxy_revision',
    select: 'SELECT coalesce(max(revision), 0) AS value FROM proxy_revision',
    change: 'UPDATE proxy_revision SET revision = $1::bigint RETURNING revision AS value',
  },
  serial('webhook_deliveries', 'id'),
  serial('spool_holds', 'id'),
  serial('spool_reports', 'seq'),
  serial('journal', 'seq'),
];

/** Tables of the target that have rows before anything was written to it. */
export const tablesWithFirstRows: ReadonlySet<string> = new Set(['migrations', 'proxy_revision', 'spool_state']);

/** The table in PostgreSQL that names the moves which came to it: a row is kept in the transaction that keeps everything else. */
export const moveMigrations: Migrations = {
  owner: 'move',
  steps: ['CREATE TABLE moved_here (id TEXT NOT NULL PRIMARY KEY, at INTEGER NOT NULL) STRICT'],
};
