// Writes new messages with their recipients, octets and Idempotency-Keys: one statement for each table, however many messages.

import { threadKey } from '../core/thread-steps.ts';
import { idempotencyMilliseconds } from '../idempotency-keys.ts';
import { wantedReports } from '../reports/report.ts';
import type { SpoolEntry } from '../spool.ts';
import { distinctRecipients, keptClientId, messageColumns, messageTypes, messageValues } from '../stored-rows.ts';
import type { DatabaseClock } from './server/database-clock.ts';
import { columnsOf, listsOf, type Send } from './server/postgres-session.ts';
import { inLines, lineColumns, sendLinesShared } from './spool-lines.ts';

/** Octets of one part of a message, at most. */
export const partOctets = 1024 * 1024;

/** A message to add. */
export interface AddedMessage {
  readonly entry: SpoolEntry;
  /** Milliseconds since 1970. */
  readonly claimUntil: number;
}

/** The size of a message: octets of head and body together. */
export function sizeOf({ head, body }: Pick<SpoolEntry, 'head' | 'body'>): number {
  return head.length + body.length;
}

const addMessages = `INSERT INTO spool_messages (${messageColumns.join(', ')}, head_length)
  SELECT * FROM unnest(${[...messageTypes, 'integer'].map((type, at) => `$${at + 1}::${type}[]`).join(', ')})`;

const addRecipients =
  inLines(`INSERT INTO spool_recipients (message, position, address, lane, account, state, attempts, next_attempt_at,
    due_at, claimed_by, notify, orcpt, reports)
  SELECT message, position, address, lane, account, 0, 0, next_attempt_at, greatest(next_attempt_at, claimed_until), $8::bigint,
    notify, orcpt, reports
  FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $9::text[],
      $10::text[], $11::smallint[])
    AS new (message, position, address, lane, account, next_attempt_at, claimed_until, notify, orcpt, reports)
  RETURNING ${lineColumns}`);

/** Writes parts of messages. The octets of all come in one value, because octets in an array would be sent as text. */
const addOctets = `INSERT INTO spool_octets (message, part, octets)
  SELECT message, part, substring($1::bytea FROM start FOR length)
  FROM unnest($2::uuid[], $3::integer[], $4::integer[], $5::integer[]) AS new (message, part, start, length)`;

const forgetOldKeys = `DELETE FROM idempotency_keys k USING unnest($1::text[], $2::text[], $3::bigint[])
    AS new (account, key, created_at)
  WHERE k.account = new.account AND k.key = new.key AND k.created_at <= new.created_at - ${idempotencyMilliseconds}`;

const addKeys = `INSERT INTO idempotency_keys (account, key, digest, message_id, recipients, created_at)
  SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[])`;

// Fails with `changed 0` (no number) where a report is gone or has changed, so that nothing of the transaction is kept.
const endReports = `WITH wanted AS (SELECT * FROM unnest($1::bigint[], $2::bigint[]) AS report (seq, version)), gone AS (
    DELETE FROM spool_reports r USING wanted WHERE r.seq = wanted.seq AND r.version = wanted.version RETURNING r.seq)
  SELECT CASE WHEN (SELECT count(*) FROM gone) = cardinality($1::bigint[]) THEN 1
    ELSE ('changed ' || (SELECT count(*) FROM gone))::integer END AS one`;

// Of ids that one transaction has several times the last one counts.
const addThreads = `INSERT INTO spool_threads AS kept (account, client_id, message_id, created_at)
  SELECT DISTINCT ON (account, client_id) account, client_id, message_id, created_at
  FROM unnest($1::text[], $2::uuid[], $3::text[], $4::bigint[]) WITH ORDINALITY
    AS new (account, client_id, message_id, created_at, place)
  ORDER BY account, client_id, place DESC
  ON CONFLICT (account, client_id) DO UPDATE SET message_id = excluded.message_id, created_at = excluded.created_at`;

/** `threadKey` as PostgreSQL keeps it: it reads a UUID without its hyphens. */
export function uuidOf(clientId: string): string {
  return threadKey(clientId).toString('hex');
}

interface AddingParts {
  readonly clock: DatabaseClock;
  /** The number of the process that the recipients are claimed for. */
  readonly process: number;
}

/** Sends the statements that add messages. */
export function sendAdded(send: Send, added: readonly AddedMessage[], parts: AddingParts): void {
  const { clock } = parts;
  if (added.length === 0) return;
  const entries = added.map(({ entry }) => entry);
  const rows = entries.map((entry) =>
    messageValues(entry, { size: sizeOf(entry), expiresAt: clock.stored(entry.expiresAt) }),
  );
  void send(addMessages, [...listsOf(rows), entries.map(({ head }) => head.length)]);
  sendRecipients(send, added, parts);
  sendOctets(send, entries);
  sendKeys(send, entries);
  sendThreads(send, entries, clock);
  const answered = entries.flatMap(({ answers }) => answers ?? []);
  if (answered.length > 0) void send(endReports, columnsOf(answered, 'seq', 'version'));
}

function sendRecipients(send: Send, added: readonly AddedMessage[], { clock, process }: AddingParts): void {
  const rows = added.flatMap(({ entry, claimUntil }) => {
    const [dueAt, until] = [clock.stored(entry.acceptedAt), clock.stored(claimUntil)];
    const { id, account } = entry;
    return distinctRecipients(entry).map((recipient, position) => {
      const asked = entry.dsn?.recipients?.get(recipient.address);
      const wanted = wantedReports(entry, recipient.address);
      const lane = recipient.transport;
      const line = { lane, account: lane === '' ? '' : account };
      return { ...recipient, ...asked, ...line, wanted, id, position, dueAt, until };
    });
  });
  sendLinesShared(send, rows);
  void send(addRecipients, [
    ...columnsOf(rows, 'id', 'position', 'address', 'lane', 'account', 'dueAt', 'until'),
    process,
    ...columnsOf(rows, 'notify', 'orcpt', 'wanted'),
  ]);
}

function sendOctets(send: Send, entries: readonly SpoolEntry[]): void {
  const parts: { readonly id: string; readonly part: number; readonly start: number; readonly length: number }[] = [];
  let offset = 0;
  for (const entry of entries) {
    const size = sizeOf(entry);
    for (let at = 0, part = 0; at < size; at += partOctets, part += 1) {
      // PostgreSQL counts octets from 1.
      parts.push({ id: entry.id, part, start: offset + at + 1, length: Math.min(partOctets, size - at) });
    }
    offset += size;
  }
  void send(addOctets, [
    Buffer.concat(
      entries.flatMap(({ head, body }) => [head, body]),
      offset,
    ),
    ...columnsOf(parts, 'id', 'part', 'start', 'length'),
  ]);
}

function sendKeys(send: Send, entries: readonly SpoolEntry[]): void {
  // In one order: whoever writes the same keys waits for one of them, and never for each other.
  const keyed = entries
    .flatMap((entry) => (entry.idempotency ? [{ ...entry, ...entry.idempotency }] : []))
    .toSorted((one, other) => (`${one.account} ${one.key}` < `${other.account} ${other.key}` ? -1 : 1));
  if (keyed.length === 0) return;
  void send(forgetOldKeys, columnsOf(keyed, 'account', 'key', 'acceptedAt'));
  void send(addKeys, [
    ...columnsOf(keyed, 'account', 'key', 'digest', 'messageId'),
    keyed.map(({ recipients }) => JSON.stringify(recipients)),
    ...columnsOf(keyed, 'acceptedAt'),
  ]);
}

function sendThreads(send: Send, entries: readonly SpoolEntry[], clock: DatabaseClock): void {
  const kept = entries.flatMap((entry) => {
    const clientId = keptClientId(entry);
    return clientId === undefined
      ? []
      : [{ ...entry, key: uuidOf(clientId), storedAt: clock.stored(entry.acceptedAt) }];
  });
  if (kept.length > 0) void send(addThreads, columnsOf(kept, 'account', 'key', 'messageId', 'storedAt'));
}
