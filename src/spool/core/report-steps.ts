// Keeps the reports to senders that are to be made, in either engine. An outcome and its report, and a report and its deletion from
// here, are written in one transaction each, so that they are on disk together or not at all.

import type { Row } from '../../base/database/database.ts';
import {
  type DueReport,
  headToKeep,
  type NotedMail,
  type NotedOutcome,
  type ReportAction,
  type ReportedRecipient,
  type ReportKey,
  type ReportLimits,
  reportAction,
  reportBits,
  reportedRecipients,
  retOfRequiredTls,
} from '../reports/report.ts';
import { integer, octets, optional, replyOf, text, type WallTimes } from '../stored-rows.ts';
import type { GroupMessage } from './message-group.ts';
import { ask, type StoreSteps, step } from './steps.ts';

/** Turns wall times into stored ones and back. */
export interface Times extends WallTimes {
  stored(wallTime: number): number;
}

/** What differs between the engines. */
export interface ReportTables<Message extends GroupMessage> {
  readonly times: Times;
  readonly limits: ReportLimits;
  /** What names a message in spool_recipients. */
  readonly keyOf: (message: Message) => number | string;
  /** The beginning of the octets of a message `m`, with its whole header section or as much of it as a report keeps. */
  readonly head: string;
  /** What keeps other gateways off, where there may be some: of the open report's row, and a statement for an account's counts. */
  readonly locks?: { readonly report: string; readonly counts: string };
}

type Told = NotedOutcome & { readonly action: ReportAction };

const dayMilliseconds = 86_400_000;
/** Rows of earlier days that are removed when a report is begun. */
const prunedAtOnce = 20;

const open = 'SELECT seq FROM spool_reports WHERE queue_id = ?1';
const countsOf = `SELECT address, reports FROM spool_report_counts
  WHERE day = ?1 AND account = ?2 AND address IN (?3, '')`;
const pruneCounts = `DELETE FROM spool_report_counts WHERE (day, account, address) IN
  (SELECT day, account, address FROM spool_report_counts WHERE day < ?1 LIMIT ${prunedAtOnce})`;
const addCount = `INSERT INTO spool_report_counts AS kept (day, account, address, reports) VALUES (?1, ?2, ?3, 1)
  ON CONFLICT (day, account, address) DO UPDATE SET reports = kept.reports + 1`;
const begin = `INSERT INTO spool_reports (queue_id, version, due_at, more, account, session_id, message_id, client_message_id,
    sender_path, ret, envid, smtputf8, accepted_at, expires_at, head)
  SELECT id, 0, ?2, 0, account, session_id, message_id, client_message_id, sender_path,
    CASE WHEN require_tls = 1 THEN '${retOfRequiredTls}' ELSE ret END, envid, smtputf8, accepted_at, expires_at, ?3
  FROM spool_messages WHERE id = ?1 RETURNING seq`;
const countBegun = 'UPDATE spool_messages SET reports = reports + 1 WHERE id = ?1';
const noLater = 'due_at = CASE WHEN due_at > ?2 THEN ?2 ELSE due_at END';
const touch = `UPDATE spool_reports SET version = version + 1, ${noLater}, more = more + ?3 WHERE queue_id = ?1`;
// It tells the same as before: who is making it now need not begin anew.
const hasten = `UPDATE spool_reports SET ${noLater} WHERE queue_id = ?1`;
const listed = 'SELECT count(*) AS recipients FROM spool_report_recipients WHERE report = ?1';
const list = `INSERT INTO spool_report_recipients (report, position, address, orcpt, action, at, reply_code, reply_enhanced,
    reply_text, host)
  SELECT ?1, r.position, ?4, r.orcpt, ?5, ?6, ?7, ?8, ?9, ?10 FROM spool_recipients r WHERE r.message = ?2 AND r.position = ?3
  ON CONFLICT (report, position) DO UPDATE SET action = excluded.action, at = excluded.at, reply_code = excluded.reply_code,
    reply_enhanced = excluded.reply_enhanced, reply_text = excluded.reply_text, host = excluded.host`;
// A recipient is reported as delayed once.
const delayed = `UPDATE spool_recipients SET reports = reports & ~${reportBits.delay} WHERE message = ?1 AND position = ?2`;
const due = `SELECT seq, version, queue_id, more, account, session_id, message_id, client_message_id, sender_path, ret, envid,
    smtputf8, accepted_at, expires_at, head
  FROM spool_reports WHERE due_at <= ?1 ORDER BY due_at LIMIT ?2`;
const recipientsOf = `SELECT address, orcpt, action, at, reply_code, reply_enhanced, reply_text, host
  FROM spool_report_recipients WHERE report = ?1 ORDER BY position`;
const lockReport = 'UPDATE spool_reports SET version = version WHERE seq = ?1 AND version = ?2 RETURNING seq';
const endRecipients = 'DELETE FROM spool_report_recipients WHERE report = ?1';
const end = 'DELETE FROM spool_reports WHERE seq = ?1';
const postpone = 'UPDATE spool_reports SET due_at = ?2 WHERE seq = ?1';

/** Notes outcomes before their messages are forgotten. @param now wall time in milliseconds @returns how many the limits keep from being reported */
export function* noteReports<Message extends GroupMessage>(
  tables: ReportTables<Message>,
  mails: readonly NotedMail<Message>[],
  now: number,
): StoreSteps<number> {
  let unreported = 0;
  for (const mail of mails) unreported += yield* noteMail(tables, mail, now);
  return unreported;
}

function* noteMail<Message extends GroupMessage>(
  tables: ReportTables<Message>,
  mail: NotedMail<Message>,
  now: number,
): StoreSteps<number> {
  const { limits, times, keyOf } = tables;
  const { message } = mail;
  const age = { ageMilliseconds: now - message.acceptedAt, delaySeconds: limits.delaySeconds };
  const told = mail.outcomes.flatMap((outcome): Told[] => {
    const action = reportAction(outcome, outcome.wanted, age);
    return action ? [{ ...outcome, action }] : [];
  });
  if (told.length === 0) {
    // Nothing will be added to its report.
    if (mail.isLast && message.begun > 0) yield [step(hasten, message.id, times.stored(now))];
    return 0;
  }
  const report = yield* openReport(tables, message, now);
  if (report === undefined) return told.length;
  const key = keyOf(message);
  const [row = {}] = yield* ask(listed, report);
  const room = Math.max(0, reportedRecipients - integer(row, 'recipients'));
  const gather = mail.isLast ? 0 : limits.gatherSeconds * 1000;
  yield [
    ...told.flatMap(({ action, position }) => (action === 'delayed' ? [step(delayed, key, position)] : [])),
    ...told
      .slice(0, room)
      .map(({ position, address, action, reply: { code, enhanced = null, text: words }, host }) =>
        step(list, report, key, position, address, action, now, code, enhanced, words, host),
      ),
    step(touch, message.id, times.stored(now + gather), Math.max(0, told.length - room)),
  ];
  return 0;
}

/** Finds the report of a message that is to be made, or begins one; undefined where the limits allow no more. */
function* openReport<Message extends GroupMessage>(
  { limits, times, head, locks }: ReportTables<Message>,
  { id, begun }: Message,
  now: number,
): StoreSteps<number | undefined> {
  const [known] = begun > 0 ? yield* ask(`${open}${locks?.report ?? ''}`, id) : [];
  if (known) return integer(known, 'seq');
  const messageOf = `SELECT m.account, m.sender_path, ${head} FROM spool_messages m WHERE m.id = ?1`;
  const [row] = begun < limits.perMessage ? yield* ask(messageOf, id) : [];
  if (!row) return undefined;
  const [account, address] = [text(row, 'account'), text(row, 'sender_path')];
  const day = Math.floor(times.stored(now) / dayMilliseconds);
  if (locks) yield* ask(locks.counts, account);
  const counts = yield* ask(countsOf, day, account, address);
  const countOf = (name: string): number => integer(counts.find((one) => one['address'] === name) ?? {}, 'reports');
  if (countOf(address) >= limits.perAddressPerDay || countOf('') >= limits.perAccountPerDay) return undefined;
  const kept = headToKeep(octets(row, 'octets').subarray(0, integer(row, 'head_length')));
  const dueAt = times.stored(now + limits.gatherSeconds * 1000);
  const [, , , , [made] = []] = yield [
    step(pruneCounts, day),
    step(addCount, day, account, address),
    step(addCount, day, account, ''),
    step(countBegun, id),
    step(begin, id, dueAt, kept),
  ];
  return made && integer(made, 'seq');
}

/** Reads reports that are due. */
export function* dueReports(
  times: Times,
  { now, limit }: { readonly now: number; readonly limit: number },
): StoreSteps<readonly DueReport[]> {
  const rows = yield* ask(due, times.stored(now), limit);
  const recipients = yield rows.map((row) => step(recipientsOf, integer(row, 'seq')));
  return rows.map((row, at) => reportOf(row, recipients[at] ?? [], times));
}

/** Deletes a report, or with `until` puts it off; see `Spool.endReport`. @param until wall time */
export function* endReport(times: Times, { seq, version }: ReportKey, until?: number): StoreSteps<boolean> {
  if (until !== undefined) {
    yield [step(postpone, seq, times.stored(until))];
    return true;
  }
  const isThere = (yield* ask(lockReport, seq, version)).length > 0;
  if (isThere) yield [step(endRecipients, seq), step(end, seq)];
  return isThere;
}

function reportOf(row: Row, recipients: readonly Row[], times: Times): DueReport {
  const ret = row['ret'];
  return {
    key: { seq: integer(row, 'seq'), version: integer(row, 'version') },
    queueId: text(row, 'queue_id'),
    account: text(row, 'account'),
    sessionId: text(row, 'session_id'),
    messageId: text(row, 'message_id'),
    clientMessageId: optional(row, 'client_message_id'),
    senderPath: text(row, 'sender_path'),
    ...(ret === 'FULL' || ret === 'HDRS' ? { ret } : {}),
    envid: optional(row, 'envid'),
    smtputf8: integer(row, 'smtputf8') === 1,
    requireTls: ret === retOfRequiredTls,
    acceptedAt: integer(row, 'accepted_at'),
    expiresAt: times.wall(integer(row, 'expires_at')),
    head: new Uint8Array(octets(row, 'head')),
    recipients: recipients.map(recipientOf),
    more: integer(row, 'more'),
  };
}

const actions: readonly ReportAction[] = ['failed', 'delayed', 'delivered', 'relayed'];

function recipientOf(row: Row): ReportedRecipient {
  return {
    address: text(row, 'address'),
    orcpt: optional(row, 'orcpt'),
    action: actions.find((action) => action === row['action']) ?? 'failed',
    at: integer(row, 'at'),
    reply: replyOf(row) ?? { code: 0, text: '' },
    host: text(row, 'host'),
  };
}
