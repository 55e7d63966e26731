// Reads the messages that a transaction may change, and writes what core/message-group.ts makes of them.

import type { Row } from '../../base/database/database.ts';
import { type GroupMessage, type GroupRecipient, MessageGroup } from '../core/message-group.ts';
import { type EntryMeta, entryOf, integer, stateNumbers, stateOf, text } from '../stored-rows.ts';
import type { TallyChanges } from '../tally.ts';
import { entryColumns } from './postgres-queue.ts';
import type { DatabaseClock } from './server/database-clock.ts';
import { columnsOf, type Send } from './server/postgres-session.ts';
import { inLines, sendLinesShared } from './spool-lines.ts';

/** A recipient as it was read here, with the line that it waits in, which may have become another since. */
interface LinedRecipient extends GroupRecipient {
  readonly lane: string;
  readonly lineAccount: string;
}

interface LinedMessage extends GroupMessage {
  readonly recipients: readonly LinedRecipient[];
}

const readEntries = `SELECT ${entryColumns} FROM spool_messages m WHERE m.id = ANY ($1::uuid[])`;
// Whoever changes recipients of a message holds its row, so that two gateways never both miss that nobody waits any more. What they
// find is read by a statement that begins when the rows are theirs.
const lockMessages = 'SELECT id FROM spool_messages WHERE id = ANY ($1::uuid[]) ORDER BY id FOR UPDATE';
const readStates = `SELECT m.id, m.account, m.size, r.position, r.address, r.state, r.attempts, r.claimed_by, r.lane,
    r.account AS line_account, m.accepted_at, m.reports AS begun, r.reports
  FROM spool_messages m JOIN spool_recipients r ON r.message = m.id
  WHERE m.id = ANY ($1::uuid[]) ORDER BY m.id, r.position`;

const changeRecipients = inLines(`UPDATE spool_recipients r SET state = new.state, attempts = new.attempts,
    next_attempt_at = new.next_attempt_at, ended_at = new.ended_at,
    due_at = CASE WHEN new.released = 1 THEN new.next_attempt_at ELSE r.due_at END,
    claimed_by = CASE WHEN new.released = 1 THEN NULL ELSE r.claimed_by END,
    reply_code = CASE WHEN new.replied = 1 THEN new.reply_code ELSE r.reply_code END,
    reply_enhanced = CASE WHEN new.replied = 1 THEN new.reply_enhanced ELSE r.reply_enhanced END,
    reply_text = CASE WHEN new.replied = 1 THEN new.reply_text ELSE r.reply_text END,
    host = CASE WHEN new.replied = 1 THEN new.host ELSE r.host END
  FROM unnest($1::uuid[], $2::integer[], $3::smallint[], $4::integer[], $5::bigint[], $6::bigint[], $7::smallint[],
      $8::smallint[], $9::integer[], $10::text[], $11::text[], $12::text[])
    AS new (message, position, state, attempts, next_attempt_at, ended_at, released, replied, reply_code, reply_enhanced,
      reply_text, host)
  WHERE r.message = new.message AND r.position = new.position
  RETURNING r.lane, r.account, r.state, r.hold, r.due_at`);

const extend = `UPDATE spool_messages m SET expires_at = new.expires_at
  FROM unnest($1::uuid[], $2::bigint[]) AS new (id, expires_at) WHERE m.id = new.id`;
const keepFailures = `INSERT INTO spool_failures (message, account, ended_at)
  SELECT * FROM unnest($1::uuid[], $2::text[], $3::bigint[])
  ON CONFLICT (message) DO UPDATE SET ended_at = excluded.ended_at`;
const forgetRows = ['spool_failures WHERE message', 'spool_recipients WHERE message', 'spool_octets WHERE message'];
const forgetFailures = `DELETE FROM ${forgetRows[0]} = ANY ($1::uuid[])`;
const forget = [...forgetRows, 'spool_messages WHERE id'].map((rows) => `DELETE FROM ${rows} = ANY ($1::uuid[])`);

interface ChangingParts {
  readonly accounts: TallyChanges;
  readonly clock: DatabaseClock;
  readonly process: number;
}

/** The messages that one transaction has read and changes; the rules are those of every engine. */
export class MessageChanges extends MessageGroup<LinedMessage> {
  readonly #entries: Map<string, EntryMeta>;
  readonly #parts: ChangingParts;

  constructor(parts: ChangingParts) {
    const entries = new Map<string, EntryMeta>();
    super((id) => entries.get(id));
    this.#entries = entries;
    this.#parts = parts;
  }

  /** Reads messages, and keeps others from changing them until the transaction ends. */
  async read(send: Send, ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    const wanted = [...new Set(ids)];
    void send(lockMessages, [wanted]);
    const found = Map.groupBy(await send(readStates, [wanted]), (row) => text(row, 'id'));
    for (const [id, rows] of found) {
      const [row = {}] = rows;
      const [account, size] = [text(row, 'account'), integer(row, 'size')];
      const [acceptedAt, begun] = [integer(row, 'accepted_at'), integer(row, 'begun')];
      const recipients = rows.map((one) => this.#recipientOf(one));
      this.take({ id, account, size, acceptedAt, begun, recipients });
    }
  }

  #recipientOf(row: Row): LinedRecipient {
    const holder = row['claimed_by'] === null ? undefined : integer(row, 'claimed_by');
    return {
      position: integer(row, 'position'),
      address: text(row, 'address'),
      state: stateOf(row),
      attempts: integer(row, 'attempts'),
      claim: holder === undefined ? 'none' : holder === this.#parts.process ? 'own' : 'other',
      wanted: integer(row, 'reports'),
      lane: text(row, 'lane'),
      lineAccount: text(row, 'line_account'),
    };
  }

  /** Reads also what the events of commands tell about messages. */
  async readEntries(send: Send, ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    for (const row of await send(readEntries, [ids]))
      this.#entries.set(text(row, 'id'), entryOf(row, [], this.#parts.clock));
  }

  /** Sends what has changed, and notes it for the accounts' numbers. */
  write(send: Send): void {
    const { gone, recipients, failed, queuedAgain, extended, tallies } = this.changes();
    for (const { account, ...more } of tallies) this.#parts.accounts.add(account, more);
    if (gone.length > 0) for (const sql of forget) void send(sql, [gone.map(({ id }) => id)]);
    this.#writeRecipients(send, recipients);
    const { clock } = this.#parts;
    const kept = failed.map(({ message, endedAt }) => ({ ...message, endedAt: clock.stored(endedAt) }));
    if (kept.length > 0) void send(keepFailures, columnsOf(kept, 'id', 'account', 'endedAt'));
    if (queuedAgain.length > 0) void send(forgetFailures, [queuedAgain.map(({ id }) => id)]);
    const longer = extended.map(({ message: { id }, expiresAt }) => ({ id, expiresAt: clock.stored(expiresAt) }));
    if (longer.length > 0) void send(extend, columnsOf(longer, 'id', 'expiresAt'));
  }

  #writeRecipients(send: Send, rows: ReturnType<MessageChanges['changes']>['recipients']): void {
    if (rows.length === 0) return;
    sendLinesShared(
      send,
      rows.map(({ recipient: { lane, lineAccount: account } }) => ({ lane, account })),
    );
    const { clock } = this.#parts;
    const values = rows.map(({ message: { id }, recipient: { position }, changed: { reply, ...changed } }) => ({
      ...{ id, position, state: stateNumbers[changed.state], attempts: changed.attempts },
      nextAttemptAt: clock.stored(changed.nextAttemptAt),
      endedAt: changed.endedAt === null ? null : clock.stored(changed.endedAt),
      ...{ released: changed.isReleased ? 1 : 0, replied: reply ? 1 : 0 },
      ...{ code: reply?.reply.code, enhanced: reply?.reply.enhanced, text: reply?.reply.text, host: reply?.host },
    }));
    void send(changeRecipients, [
      ...columnsOf(values, 'id', 'position', 'state', 'attempts', 'nextAttemptAt', 'endedAt', 'released', 'replied'),
      ...columnsOf(values, 'code', 'enhanced', 'text', 'host'),
    ]);
  }
}
