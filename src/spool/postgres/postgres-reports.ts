// Keeps the reports to senders that are to be made. An outcome and its report, and a report and its deletion from here, are
// written in one transaction each.

import type { Row } from '../../base/database/database.ts';
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
} from '../reports/report.ts';
import { integer, octets, text } from '../stored-rows.ts';
import { takeTurn } from './events/written-events.ts';
import type { DatabaseClock } from './server/database-clock.ts';
import type { PostgresSession, Send } from './server/postgres-session.ts';

/** Outcomes of one message in one transaction, as far as reports need them. */
export interface NotedMail {
  readonly id: string;
  /** Milliseconds since 1970. */
  readonly acceptedAt: number;
  /** How many reports about it were begun. */
  readonly begun: number;
  /** No recipient is queued any more: a report need not wait for others. */
  readonly isLast: boolean;
  readonly outcomes: readonly RecordedOutcome[];
}

/** The outcome for one recipient. */
export interface RecordedOutcome extends ReportableOutcome {
  readonly position: number;
  readonly address: string;
  /** The sum of `reportBits`. */
  readonly wanted: number;
  readonly reply: SmtpReply;
  readonly host: string;
}

type Told = RecordedOutcome & { readonly action: ReportAction };

const dayMilliseconds = 86_400_000;
/** Rows of earlier days that are removed when a report is begun. */
const prunedAtOnce = 20;

const open = 'SELECT seq FROM spool_reports WHERE queue_id = $1::uuid';
const messageOf = `SELECT m.account, m.sender_path, m.head_length, substring(o.octets FOR 131072) AS octets
  FROM spool_messages m JOIN spool_octets o ON o.message = m.id AND o.part = 0 WHERE m.id = $1::uuid`;
const countsOf = `SELECT address, reports FROM spool_report_counts
  WHERE day = $1::bigint AND account = $2::text AND address IN ($3::text, '')`;
const pruneCounts = `DELETE FROM spool_report_counts WHERE (day, account, address) IN
  (SELECT day, account, address FROM spool_report_counts WHERE day < $1::bigint LIMIT ${prunedAtOnce})`;
const addCounts = `INSERT INTO spool_report_counts AS kept (day, account, address, reports)
  VALUES ($1::bigint, $2::text, $3::text, 1), ($1::bigint, $2::text, '', 1)
  ON CONFLICT (day, account, address) DO UPDATE SET reports = kept.reports + 1`;
const countBegun = 'UPDATE spool_messages SET reports = reports + 1 WHERE id = $1::uuid';
const begin = `INSERT INTO spool_reports (queue_id, version, due_at, more, account, session_id, message_id, client_message_id,
    sender_path, ret, envid, smtputf8, accepted_at, expires_at, head)
  SELECT id, 0, $2::bigint, 0, account, session_id, message_id, client_message_id, sender_path,
    CASE WHEN require_tls = 1 THEN '${retOfRequiredTls}' ELSE ret END, envid, smtputf8, accepted_at, expires_at, $3::bytea
  FROM spool_messages WHERE id = $1::uuid RETURNING seq`;
const touch = `UPDATE spool_reports SET version = version + 1, due_at = least(due_at, $2::bigint), more = more + $3::integer
  WHERE queue_id = $1::uuid`;
const listed = 'SELECT count(*) AS recipients FROM spool_report_recipients WHERE report = $1::bigint';
const list = `INSERT INTO spool_report_recipients (report, position, address, orcpt, action, at, reply_code, reply_enhanced,
    reply_text, host)
  SELECT $1::bigint, new.position, new.address, r.orcpt, new.action, $2::bigint, new.code, new.enhanced, new.words, new.host
  FROM unnest($4::integer[], $5::text[], $6::text[], $7::integer[], $8::text[], $9::text[], $10::text[])
    AS new (position, address, action, code, enhanced, words, host)
  JOIN spool_recipients r ON r.message = $3::uuid AND r.position = new.position
  ON CONFLICT (report, position) DO UPDATE SET action = excluded.action, at = excluded.at, reply_code = excluded.reply_code,
    reply_enhanced = excluded.reply_enhanced, reply_text = excluded.reply_text, host = excluded.host`;
// A recipient is reported as delayed once.
const delayed = `UPDATE spool_recipients SET reports = reports & ~${reportBits.delay}
  WHERE message = $1::uuid AND position = ANY ($2::integer[])`;
const due = `SELECT seq, version, queue_id, more, account, session_id, message_id, client_message_id, sender_path, ret, envid,
    smtputf8, accepted_at, expires_at, head
  FROM spool_reports WHERE due_at <= $1::bigint ORDER BY due_at LIMIT $2::integer`;
const recipientsOf = `SELECT report, address, orcpt, action, at, reply_code, reply_enhanced, reply_text, host
  FROM spool_report_recipients WHERE report = ANY ($1::bigint[]) ORDER BY report, position`;
const end = 'DELETE FROM spool_reports WHERE seq = $1::bigint AND version = $2::bigint RETURNING seq';
const postpone = 'UPDATE spool_reports SET due_at = $2::bigint WHERE seq = $1::bigint';
// Fails with `changed 0` (no number) where a report is gone or has changed, so that nothing of the transaction is kept.
const endAll = `WITH wanted AS (SELECT * FROM unnest($1::bigint[], $2::bigint[]) AS report (seq, version)), gone AS (
    DELETE FROM spool_reports r USING wanted WHERE r.seq = wanted.seq AND r.version = wanted.version RETURNING r.seq)
  SELECT CASE WHEN (SELECT count(*) FROM gone) = cardinality($1::bigint[]) THEN 1
    ELSE ('changed ' || (SELECT count(*) FROM gone))::integer END AS one`;

/** Sends the statement that deletes the reports that were made; it fails with `changed` where one is another by now. */
export function sendAnswered(send: Send, answered: readonly ReportKey[]): void {
  if (answered.length === 0) return;
  void send(endAll, [answered.map(({ seq }) => seq), answered.map(({ version }) => version)]);
}

/** The reports of one database. */
export class PostgresReports {
  readonly #session: PostgresSession;
  readonly #clock: DatabaseClock;
  readonly #limits: ReportLimits;

  constructor(parts: {
    readonly session: PostgresSession;
    readonly clock: DatabaseClock;
    readonly limits: ReportLimits;
  }) {
    this.#session = parts.session;
    this.#clock = parts.clock;
    this.#limits = parts.limits;
  }

  /**
   * Notes outcomes that are to be reported, in the transaction that writes them and before their messages are forgotten.
   * @param now wall time, milliseconds since 1970
   * @returns how many outcomes are not reported because of the limits
   */
  async note(send: Send, mails: readonly NotedMail[], now: number): Promise<number> {
    let unreported = 0;
    for (const mail of mails) unreported += await this.#noteMail(send, mail, now);
    return unreported;
  }

  async #noteMail(send: Send, mail: NotedMail, now: number): Promise<number> {
    const age = { ageMilliseconds: now - mail.acceptedAt, delaySeconds: this.#limits.delaySeconds };
    const told = mail.outcomes.flatMap((outcome): Told[] => {
      const action = reportAction(outcome, outcome.wanted, age);
      return action ? [{ ...outcome, action }] : [];
    });
    if (told.length === 0) {
      if (mail.isLast && mail.begun > 0) void send(touch, [mail.id, this.#clock.stored(now), 0]);
      return 0;
    }
    const report = await this.#open(send, mail, now);
    if (report === undefined) return told.length;
    const late = told.filter(({ action }) => action === 'delayed').map(({ position }) => position);
    if (late.length > 0) void send(delayed, [mail.id, late]);
    const [row] = await send(listed, [report]);
    const room = Math.max(0, reportedRecipients - integer(row ?? {}, 'recipients'));
    const fitting = told.slice(0, room);
    void send(list, [
      ...[report, now, mail.id],
      fitting.map(({ position }) => position),
      fitting.map(({ address }) => address),
      fitting.map(({ action }) => action),
      fitting.map(({ reply }) => reply.code),
      fitting.map(({ reply }) => reply.enhanced ?? null),
      fitting.map(({ reply }) => reply.text),
      fitting.map(({ host }) => host),
    ]);
    const gather = mail.isLast ? 0 : this.#limits.gatherSeconds * 1000;
    void send(touch, [mail.id, this.#clock.stored(now + gather), told.length - fitting.length]);
    return 0;
  }

  /** Finds the report of a message that is to be made, or begins one; undefined where the limits allow no more. */
  async #open(send: Send, { id, begun }: NotedMail, now: number): Promise<number | undefined> {
    const [known] = begun > 0 ? await send(open, [id]) : [];
    if (known) return integer(known, 'seq');
    const [message] = begun < this.#limits.perMessage ? await send(messageOf, [id]) : [];
    if (!message) return undefined;
    const [account, address] = [text(message, 'account'), text(message, 'sender_path')];
    const day = Math.floor(this.#clock.stored(now) / dayMilliseconds);
    const counts = await send(countsOf, [day, account, address]);
    const countOf = (name: string): number => integer(counts.find((row) => row['address'] === name) ?? {}, 'reports');
    if (countOf(address) >= this.#limits.perAddressPerDay || countOf('') >= this.#limits.perAccountPerDay)
      return undefined;
    void send(pruneCounts, [day]);
    void send(addCounts, [day, account, address]);
    void send(countBegun, [id]);
    const head = headToKeep(octets(message, 'octets').subarray(0, integer(message, 'head_length')));
    const dueAt = this.#clock.stored(now + this.#limits.gatherSeconds * 1000);
    const [made] = await send(begin, [id, dueAt, Buffer.from(head)]);
    return made && integer(made, 'seq');
  }

  /** Reads reports that are due. */
  async due({ now, limit }: { readonly now: number; readonly limit: number }): Promise<readonly DueReport[]> {
    const rows = await this.#session.query(due, [this.#clock.stored(now), limit]);
    if (rows.length === 0) return [];
    const found = await this.#session.query(recipientsOf, [rows.map((row) => integer(row, 'seq'))]);
    const byReport = Map.groupBy(found, (row) => integer(row, 'report'));
    return rows.map((row) => this.#report(row, byReport.get(integer(row, 'seq')) ?? []));
  }

  /** Deletes a report, or puts it off; see `Spool.endReport`. */
  async end({ seq, version }: ReportKey, until?: number): Promise<boolean> {
    return await this.#session.transaction(async (send) => {
      void send(takeTurn, [0]);
      if (until === undefined) return (await send(end, [seq, version])).length > 0;
      await send(postpone, [seq, this.#clock.stored(until)]);
      return true;
    });
  }

  #report(row: Row, recipients: readonly Row[]): DueReport {
    const [clientMessageId, ret, envid] = ['client_message_id', 'ret', 'envid'].map((name) => optional(row, name));
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
      expiresAt: this.#clock.wall(integer(row, 'expires_at')),
      head: Buffer.from(octets(row, 'head')),
      recipients: recipients.map(recipientOf),
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

function optional(row: Row, column: string): string | undefined {
  const value = row[column];
  return typeof value === 'string' ? value : undefined;
}
