// Keeps the reports that are to be made in the spool's database. Every method runs in the caller's transaction, so that an
// outcome and its report, and a report and its deletion from here, are on disk together or not at all.

import type { Row } from '../../base/database/database.ts';
import type { DatabaseSync } from '../../base/database/sqlite-file.ts';
import type { SmtpReply } from '../../mail/smtp-reply.ts';
import {
  type DueReport,
  headToKeep,
  type ReportAction,
  type ReportableOutcome,
  type ReportedRecipient,
  type ReportKey,
  type ReportLimits,
  reportAction,
  reportBits,
  reportedRecipients,
  retOfRequiredTls,
} from './report.ts';

/** The tables, a step of the spool's migrations. Times but accepted_at and at are times as the spool stores them. */
export const reportTables = `
  -- RET, ENVID, NOTIFY and ORCPT as given; NULL where they were not. reports of a message: how many were begun about it;
  -- of a recipient: which ones its sender wants (1 success, 2 failure, 4 delay).
  ALTER TABLE spool_messages ADD COLUMN ret TEXT;
  ALTER TABLE spool_messages ADD COLUMN envid TEXT;
  ALTER TABLE spool_messages ADD COLUMN reports INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE spool_recipients ADD COLUMN notify TEXT;
  ALTER TABLE spool_recipients ADD COLUMN orcpt TEXT;
  ALTER TABLE spool_recipients ADD COLUMN reports INTEGER NOT NULL DEFAULT 0;

  -- Reports that are to be made, at most one for a message at a time. The message itself may be gone before.
  CREATE TABLE spool_reports (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    queue_id TEXT NOT NULL UNIQUE,
    version INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    more INTEGER NOT NULL,
    account TEXT NOT NULL,
    session_id TEXT NOT NULL,
    message_id TEXT NOT NULL,
    client_message_id TEXT,
    sender_path TEXT NOT NULL,
    ret TEXT,
    envid TEXT,
    smtputf8 INTEGER NOT NULL,
    accepted_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    head BLOB NOT NULL
  ) STRICT;
  CREATE INDEX spool_reports_due ON spool_reports (due_at);
  CREATE TABLE spool_report_recipients (
    report INTEGER NOT NULL REFERENCES spool_reports (seq),
    position INTEGER NOT NULL,
    address TEXT NOT NULL,
    orcpt TEXT,
    action TEXT NOT NULL,
    at INTEGER NOT NULL,
    reply_code INTEGER NOT NULL,
    reply_enhanced TEXT,
    reply_text TEXT NOT NULL,
    host TEXT NOT NULL,
    PRIMARY KEY (report, position)
  ) STRICT, WITHOUT ROWID;
  -- How many reports were begun on a day; address '' is the sum of the account.
  CREATE TABLE spool_report_counts (
    day INTEGER NOT NULL,
    account TEXT NOT NULL,
    address TEXT NOT NULL,
    reports INTEGER NOT NULL,
    PRIMARY KEY (day, account, address)
  ) STRICT, WITHOUT ROWID;
`;

/** Turns wall times into stored ones and back. */
interface Times {
  stored(wallTime: number): number;
  wall(storedTime: number): number;
}

/** A message of which outcomes are noted. */
export interface NotedMessage {
  /** Its seq in spool_messages. */
  readonly seq: number;
  readonly id: string;
  /** Milliseconds since 1970. */
  readonly acceptedAt: number;
  /** How many reports about it were begun. */
  readonly begun: number;
}

/** The outcome for one recipient of it. */
export interface NotedOutcome extends ReportableOutcome {
  readonly position: number;
  readonly address: string;
  /** The sum of `reportBits`. */
  readonly wanted: number;
  readonly reply: SmtpReply;
  readonly host: string;
}

const dayMilliseconds = 86_400_000;
/** Rows of earlier days that are removed when a report is begun. */
const prunedAtOnce = 20;

function prepare(database: DatabaseSync) {
  return {
    message: database.prepare(`SELECT id, account, session_id, message_id, client_message_id, sender_path, ret, envid,
      smtputf8, require_tls, accepted_at, expires_at, head FROM spool_messages WHERE seq = ?`),
    orcpt: database.prepare('SELECT orcpt FROM spool_recipients WHERE message = ? AND position = ?'),
    open: database.prepare('SELECT seq FROM spool_reports WHERE queue_id = ?'),
    begin:
      database.prepare(`INSERT INTO spool_reports (queue_id, version, due_at, more, account, session_id, message_id,
      client_message_id, sender_path, ret, envid, smtputf8, accepted_at, expires_at, head)
      VALUES (?, 0, ?, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`),
    begun: database.prepare('UPDATE spool_messages SET reports = reports + 1 WHERE seq = ?'),
    touch: database.prepare('UPDATE spool_reports SET version = version + 1, due_at = min(due_at, ?) WHERE seq = ?'),
    listed: database.prepare('SELECT count(*) AS recipients FROM spool_report_recipients WHERE report = ?'),
    list: database.prepare('INSERT OR REPLACE INTO spool_report_recipients VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)'),
    more: database.prepare('UPDATE spool_reports SET more = more + 1 WHERE seq = ?'),
    // A recipient is reported as delayed once.
    delayed: database.prepare(`UPDATE spool_recipients SET reports = reports & ~${reportBits.delay}
      WHERE message = ? AND position = ?`),
    count: database.prepare('SELECT reports FROM spool_report_counts WHERE day = ? AND account = ? AND address = ?'),
    addCount: database.prepare(`INSERT INTO spool_report_counts VALUES (?, ?, ?, 1)
      ON CONFLICT (day, account, address) DO UPDATE SET reports = reports + 1`),
    pruneCounts: database.prepare(`DELETE FROM spool_report_counts WHERE (day, account, address) IN
      (SELECT day, account, address FROM spool_report_counts WHERE day < ? LIMIT ${prunedAtOnce})`),
    due: database.prepare('SELECT * FROM spool_reports WHERE due_at <= ? ORDER BY due_at LIMIT ?'),
    recipients: database.prepare('SELECT * FROM spool_report_recipients WHERE report = ? ORDER BY position'),
    unchanged: database.prepare('SELECT 1 FROM spool_reports WHERE seq = ? AND version = ?'),
    end: database.prepare('DELETE FROM spool_reports WHERE seq = ?'),
    postpone: database.prepare('UPDATE spool_reports SET due_at = ? WHERE seq = ?'),
    endRecipients: database.prepare('DELETE FROM spool_report_recipients WHERE report = ?'),
  };
}

/** The reports of one database. */
export class SqliteReports {
  readonly #statements: ReturnType<typeof prepare>;
  readonly #times: Times;
  readonly #limits: ReportLimits;

  /** @param database its tables are up to date */
  constructor(database: DatabaseSync, times: Times, limits: ReportLimits) {
    this.#statements = prepare(database);
    this.#times = times;
    this.#limits = limits;
  }

  /**
   * Notes outcomes of one message that are to be reported; to be called before the message is forgotten.
   * @param at.isLast no recipient of the message is queued any more: the report need not wait for others
   * @returns how many outcomes are not reported because of the limits
   */
  note(
    message: NotedMessage,
    outcomes: readonly NotedOutcome[],
    { now, isLast }: { readonly now: number; readonly isLast: boolean },
  ): number {
    const age = { ageMilliseconds: now - message.acceptedAt, delaySeconds: this.#limits.delaySeconds };
    const actions = outcomes.map((outcome) => ({ outcome, action: reportAction(outcome, outcome.wanted, age) }));
    if (!actions.some(({ action }) => action)) {
      if (isLast && message.begun > 0) this.#hurry(message, now);
      return 0;
    }
    const report = this.#open(message, now);
    if (report === undefined) return actions.filter(({ action }) => action).length;
    let room = reportedRecipients - integer(this.#statements.listed.get(report), 'recipients');
    for (const { outcome, action } of actions) {
      if (!action) continue;
      if (action === 'delayed') this.#statements.delayed.run(message.seq, outcome.position);
      if (room > 0) this.#list(report, message.seq, { outcome, action, now });
      else this.#statements.more.run(report);
      room -= 1;
    }
    const gather = isLast ? 0 : this.#limits.gatherSeconds * 1000;
    this.#statements.touch.run(this.#times.stored(now + gather), report);
    return 0;
  }

  /** Reads reports that are due. */
  due({ now, limit }: { readonly now: number; readonly limit: number }): DueReport[] {
    return this.#statements.due.all(this.#times.stored(now), limit).map((row) => this.#report(row));
  }

  /** Makes a report due later, or without a time ends it. @returns as `end` */
  endOrPostpone(report: ReportKey, until: number | undefined): boolean {
    if (until === undefined) return this.end(report);
    this.#statements.postpone.run(this.#times.stored(until), report.seq);
    return true;
  }

  /** Deletes a report that was made, or is not to be made; false where it is gone or has changed since it was read. */
  end({ seq, version }: ReportKey): boolean {
    if (!this.#statements.unchanged.get(seq, version)) return false;
    this.#statements.endRecipients.run(seq);
    this.#statements.end.run(seq);
    return true;
  }

  /** Finds the report of a message that is to be made, or begins one; undefined where the limits allow no more. */
  #open(message: NotedMessage, now: number): number | undefined {
    const open = message.begun > 0 ? this.#statements.open.get(message.id) : undefined;
    if (open) return integer(open, 'seq');
    const row = message.begun < this.#limits.perMessage ? this.#statements.message.get(message.seq) : undefined;
    if (!row) return undefined;
    const [account, address] = [text(row, 'account'), text(row, 'sender_path')];
    const day = Math.floor(this.#times.stored(now) / dayMilliseconds);
    const countOf = (of: string): number => integer(this.#statements.count.get(day, account, of), 'reports');
    if (countOf(address) >= this.#limits.perAddressPerDay || countOf('') >= this.#limits.perAccountPerDay)
      return undefined;
    this.#statements.pruneCounts.run(day);
    this.#statements.addCount.run(day, account, address);
    this.#statements.addCount.run(day, account, '');
    this.#statements.begun.run(message.seq);
    const { lastInsertRowid } = this.#statements.begin.run(
      text(row, 'id'),
      this.#times.stored(now + this.#limits.gatherSeconds * 1000),
      account,
      text(row, 'session_id'),
      text(row, 'message_id'),
      optional(row, 'client_message_id') ?? null,
      address,
      integer(row, 'require_tls') === 1 ? retOfRequiredTls : (optional(row, 'ret') ?? null),
      optional(row, 'envid') ?? null,
      integer(row, 'smtputf8'),
      integer(row, 'accepted_at'),
      integer(row, 'expires_at'),
      headToKeep(octets(row, 'head')),
    );
    return Number(lastInsertRowid);
  }

  /** Makes a report due now, since nothing will be added to it. */
  #hurry({ id }: NotedMessage, now: number): void {
    const open = this.#statements.open.get(id);
    if (open) this.#statements.touch.run(this.#times.stored(now), integer(open, 'seq'));
  }

  #list(
    report: number,
    message: number,
    { outcome, action, now }: { readonly outcome: NotedOutcome; readonly action: ReportAction; readonly now: number },
  ): void {
    const { position, address, reply, host } = outcome;
    const orcpt = optional(this.#statements.orcpt.get(message, position), 'orcpt') ?? null;
    const { code, enhanced = null, text: words } = reply;
    this.#statements.list.run(report, position, address, orcpt, action, now, code, enhanced, words, host);
  }

  #report(row: Row): DueReport {
    const [clientMessageId, ret, envid] = ['client_message_id', 'ret', 'envid'].map((name) => optional(row, name));
    const head = octets(row, 'head');
    return {
      key: { seq: integer(row, 'seq'), version: integer(row, 'version') },
      queueId: text(row, 'queue_id'),
      account: text(row, 'account'),
      sessionId: text(row, 'session_id'),
      messageId: text(row, 'message_id'),
      ...(clientMessageId === undefined ? {} : { clientMessageId }),
      senderPath: text(row, 'sender_path'),
      ...(ret === 'FULL' || ret === 'HDRS' ? { ret } : {}),
      ...(envid === undefined ? {} : { envid }),
      smtputf8: integer(row, 'smtputf8') === 1,
      requireTls: ret === retOfRequiredTls,
      acceptedAt: integer(row, 'accepted_at'),
      expiresAt: this.#times.wall(integer(row, 'expires_at')),
      head: Buffer.from(head.buffer, head.byteOffset, head.length),
      recipients: this.#statements.recipients.all(integer(row, 'seq')).map(recipientOf),
      more: integer(row, 'more'),
    };
  }
}

const actions: readonly ReportAction[] = ['failed', 'delayed', 'delivered', 'relayed'];

function recipientOf(row: Row): ReportedRecipient {
  const [orcpt, enhanced] = [optional(row, 'orcpt'), optional(row, 'reply_enhanced')];
  return {
    address: text(row, 'address'),
    ...(orcpt === undefined ? {} : { orcpt }),
    action: actions.find((action) => action === row['action']) ?? 'failed',
    at: integer(row, 'at'),
    reply: {
      code: integer(row, 'reply_code'),
      ...(enhanced === undefined ? {} : { enhanced }),
      text: text(row, 'reply_text'),
    },
    host: text(row, 'host'),
  };
}

function optional(row: Row | undefined, column: string): string | undefined {
  const value = row?.[column];
  return typeof value === 'string' ? value : undefined;
}

function text(row: Row | undefined, column: string): string {
  return optional(row, column) ?? '';
}

function integer(row: Row | undefined, column: string): number {
  return Number(row?.[column] ?? 0);
}

function octets(row: Row, column: string): Uint8Array {
  const value = row[column];
  return value instanceof Uint8Array ? value : new Uint8Array(0);
}
