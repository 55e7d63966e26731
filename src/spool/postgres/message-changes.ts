// Changes messages that are in the spool: outcomes, retries, removals. A transaction reads the messages that it may change,
// changes them here, and writes what has changed with one statement for each table.

import type { Row } from '../../base/database/database.ts';
import type { DroppedEvent, OutcomeEvent, RequeuedEvent } from '../../events/mail-event.ts';
import type { RecipientState } from '../recipient-state.ts';
import type { RetryCount, RetryPick } from '../spool.ts';
import { droppedEvent, requeuedEvent } from '../spool-events.ts';
import { type EntryMeta, entryOf, integer, stateAfter, stateNumbers, stateOf, text } from '../stored-rows.ts';
import { countStates, type StateCounts, tallyOf } from '../tally.ts';
import type { AccountChanges } from './account-changes.ts';
import { entryColumns } from './postgres-queue.ts';
import type { NotedMail, RecordedOutcome } from './postgres-reports.ts';
import type { DatabaseClock } from './server/database-clock.ts';
import type { Send } from './server/postgres-session.ts';
import { inLines } from './spool-lines.ts';

/** The columns of a recipient's row that a change sets, as they are stored. */
interface Changed {
  readonly state: RecipientState;
  readonly attempts: number;
  readonly nextAttemptAt: number;
  readonly endedAt: number | null;
  /** Nobody holds it any more. */
  readonly isReleased: boolean;
  /** undefined leaves what is there. */
  readonly reply?: Pick<OutcomeEvent, 'reply' | 'host'>;
}

interface ReadRecipient {
  readonly position: number;
  readonly address: string;
  readonly before: RecipientState;
  readonly attempts: number;
  readonly claimedBy: number | null;
  /** Which reports its sender wants. */
  readonly wanted: number;
  state: RecipientState;
  changed?: Changed;
}

interface ReadMessage {
  readonly id: string;
  readonly account: string;
  readonly size: number;
  readonly acceptedAt: number;
  /** How many reports about it were begun. */
  readonly begun: number;
  readonly recipients: ReadRecipient[];
  /** Outcomes that may have to be reported. */
  readonly noted: RecordedOutcome[];
  readonly byAddress: Map<string, ReadRecipient>;
  expiresAt?: number;
  isGone: boolean;
}

const readEntries = `SELECT ${entryColumns} FROM spool_messages m WHERE m.id = ANY ($1::uuid[])`;
const readStates = `SELECT m.id, m.account, m.size, r.position, r.address, r.state, r.attempts, r.claimed_by,
    m.accepted_at, m.reports AS begun, r.reports
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

/** The messages that one transaction has read and changes. */
export class MessageChanges {
  readonly #messages = new Map<string, ReadMessage>();
  readonly #entries = new Map<string, EntryMeta>();
  readonly #accounts: AccountChanges;
  readonly #clock: DatabaseClock;
  readonly #process: number;

  /** @param parts.process the number of this process */
  constructor(parts: { readonly accounts: AccountChanges; readonly clock: DatabaseClock; readonly process: number }) {
    this.#accounts = parts.accounts;
    this.#clock = parts.clock;
    this.#process = parts.process;
  }

  /** Reads messages; the caller's transaction must have its turn to write already. */
  async read(send: Send, ids: readonly string[]): Promise<void> {
    const wanted = [...new Set(ids)].filter((id) => !this.#messages.has(id));
    if (wanted.length === 0) return;
    for (const row of await send(readStates, [wanted])) this.#take(row);
  }

  /** Reads also what the events of commands tell about messages. */
  async readEntries(send: Send, ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    for (const row of await send(readEntries, [ids])) this.#entries.set(text(row, 'id'), entryOf(row, []));
  }

  #take(row: Row): void {
    const id = text(row, 'id');
    let message = this.#messages.get(id);
    if (!message) {
      const [account, size] = [text(row, 'account'), integer(row, 'size')];
      const [acceptedAt, begun] = [integer(row, 'accepted_at'), integer(row, 'begun')];
      const lists = { recipients: [], byAddress: new Map<string, ReadRecipient>(), noted: [] };
      message = { id, account, size, acceptedAt, begun, ...lists, isGone: false };
      this.#messages.set(id, message);
    }
    const state = stateOf(row);
    const recipient: ReadRecipient = {
      position: integer(row, 'position'),
      address: text(row, 'address'),
      before: state,
      state,
      attempts: integer(row, 'attempts'),
      claimedBy: row['claimed_by'] === null ? null : integer(row, 'claimed_by'),
      wanted: integer(row, 'reports'),
    };
    message.recipients.push(recipient);
    message.byAddress.set(recipient.address, recipient);
  }

  /** Writes down the outcomes of attempts; see `Spool.record`. @param now wall time, milliseconds since 1970 */
  record(outcomes: readonly OutcomeEvent[], now: number): void {
    const touched = new Set<ReadMessage>();
    for (const outcome of outcomes) {
      const message = this.#find(outcome.queueId);
      // A command beside the server has dropped the message meanwhile (D94).
      const recipient = message?.byAddress.get(outcome.recipient);
      if (!message || !recipient || recipient.state === 'delivered') continue;
      const { kind } = outcome;
      const isUntried = kind === 'deferred' && outcome.isUntried === true;
      // Another process has taken the recipient over: it alone says when the next attempt is.
      const isTaken = recipient.claimedBy !== null && recipient.claimedBy !== this.#process;
      if (kind === 'deferred' && isTaken) continue;
      recipient.state = stateAfter(kind);
      const next = kind === 'deferred' ? outcome.nextAttemptAt : now;
      recipient.changed = {
        state: recipient.state,
        attempts: (recipient.changed?.attempts ?? recipient.attempts) + (isUntried ? 0 : 1),
        nextAttemptAt: this.#clock.stored(next),
        endedAt: kind === 'deferred' ? null : this.#clock.stored(now),
        isReleased: true,
        reply: outcome,
      };
      touched.add(message);
      const { position, address, wanted } = recipient;
      if (wanted > 0) message.noted.push({ ...outcome, position, address, wanted });
    }
    for (const message of touched) message.isGone = message.recipients.every(({ state }) => state === 'delivered');
  }

  /**
   * Makes recipients due; see `Spool.retryMany`. The message's entry must have been read.
   * @returns how many, and the event; undefined when there is no such message
   */
  retry(
    { id, recipients, state }: RetryPick,
    times: { readonly now: number; readonly expiresAt: number },
  ): (Omit<RetryCount, 'messages'> & { readonly event?: RequeuedEvent }) | undefined {
    const message = this.#find(id);
    if (!message) return undefined;
    const wanted = recipients && new Set(recipients);
    const due: string[] = [];
    let failed = 0;
    for (const recipient of message.recipients) {
      if (recipient.state === 'delivered' || (state ?? recipient.state) !== recipient.state) continue;
      if (wanted?.has(recipient.address) === false) continue;
      due.push(recipient.address);
      const hasFailed = recipient.state === 'failed';
      if (hasFailed) failed += 1;
      recipient.state = 'queued';
      const { reply } = recipient.changed ?? {};
      recipient.changed = {
        state: 'queued',
        attempts: recipient.changed?.attempts ?? recipient.attempts,
        nextAttemptAt: this.#clock.stored(times.now),
        endedAt: null,
        // A claim is left alone: its holder may be speaking to the next hop right now.
        isReleased: hasFailed || recipient.claimedBy === null || recipient.changed?.isReleased === true,
        ...(reply ? { reply } : {}),
      };
    }
    const entry = this.#entries.get(id);
    if (due.length === 0 || !entry) return { recipients: 0, failed: 0 };
    message.expiresAt = this.#clock.stored(times.expiresAt);
    return { recipients: due.length, failed, event: requeuedEvent(entry, due, { failed, at: times.now }) };
  }

  /** Removes a message, whose entry must have been read. @returns the event; undefined when there is no such message */
  drop(id: string, now: number): DroppedEvent | undefined {
    const [message, entry] = [this.#find(id), this.#entries.get(id)];
    if (!message || !entry) return undefined;
    message.isGone = true;
    return droppedEvent(entry, message.recipients, now);
  }

  /** Removes a message unless a recipient of it is queued. @returns its octets; undefined where it stays */
  forgetEnded(id: string): number | undefined {
    const message = this.#find(id);
    if (!message || message.recipients.some(({ state }) => state === 'queued')) return undefined;
    message.isGone = true;
    return message.size;
  }

  /** The outcomes that may have to be reported, by message. */
  get noted(): readonly NotedMail[] {
    return [...this.#messages.values()].flatMap(({ noted, recipients, ...message }) => {
      if (noted.length === 0) return [];
      const isLast = !recipients.some(({ state }) => state === 'queued');
      return [{ ...message, isLast, outcomes: noted }];
    });
  }

  /** Sends what has changed, and notes it for the accounts' numbers. */
  write(send: Send): void {
    const gone: ReadMessage[] = [];
    const kept: ReadMessage[] = [];
    for (const message of this.#messages.values()) (message.isGone ? gone : kept).push(message);
    for (const message of gone)
      this.#accounts.change(message.account, tallyOf(message.size, countsOf(message)), tallyOf(0, undefined));
    if (gone.length > 0) for (const sql of forget) void send(sql, [gone.map(({ id }) => id)]);
    this.#writeRecipients(send, kept);
    this.#writeFailures(send, kept);
    const extended = kept.filter(({ expiresAt }) => expiresAt !== undefined);
    if (extended.length > 0)
      void send(extend, [extended.map(({ id }) => id), extended.map(({ expiresAt = 0 }) => expiresAt)]);
  }

  #writeRecipients(send: Send, messages: readonly ReadMessage[]): void {
    const rows = messages.flatMap(({ id, recipients }) =>
      recipients.flatMap(({ position, changed }) => (changed ? [{ id, position, ...changed }] : [])),
    );
    if (rows.length === 0) return;
    void send(changeRecipients, [
      rows.map(({ id }) => id),
      rows.map(({ position }) => position),
      rows.map(({ state }) => stateNumbers[state]),
      rows.map(({ attempts }) => attempts),
      rows.map(({ nextAttemptAt }) => nextAttemptAt),
      rows.map(({ endedAt }) => endedAt),
      rows.map(({ isReleased }) => (isReleased ? 1 : 0)),
      rows.map(({ reply }) => (reply ? 1 : 0)),
      rows.map(({ reply }) => reply?.reply.code ?? null),
      rows.map(({ reply }) => reply?.reply.enhanced ?? null),
      rows.map(({ reply }) => reply?.reply.text ?? null),
      rows.map(({ reply }) => reply?.host ?? null),
    ]);
  }

  #writeFailures(send: Send, messages: readonly ReadMessage[]): void {
    const failed: { readonly id: string; readonly account: string; readonly endedAt: number }[] = [];
    const queuedAgain: string[] = [];
    for (const message of messages) {
      const { id, account, size, recipients } = message;
      if (!recipients.some(({ changed }) => changed)) continue;
      const [before, after] = [countsOf(message), countStates(recipients.map(({ state }) => state))];
      this.#accounts.change(account, tallyOf(size, before), tallyOf(size, after));
      if (after.queued === 0) {
        const endedAt = recipients.reduce((last, { changed }) => Math.max(last, changed?.endedAt ?? 0), 0);
        failed.push({ id, account, endedAt });
      } else if (before.queued === 0) queuedAgain.push(id);
    }
    if (failed.length > 0) {
      void send(keepFailures, [
        failed.map(({ id }) => id),
        failed.map(({ account }) => account),
        failed.map(({ endedAt }) => endedAt),
      ]);
    }
    if (queuedAgain.length > 0) void send(forgetFailures, [queuedAgain]);
  }

  #find(id: string): ReadMessage | undefined {
    const message = this.#messages.get(id);
    return message?.isGone === true ? undefined : message;
  }
}

function countsOf({ recipients }: ReadMessage): StateCounts {
  return countStates(recipients.map(({ before }) => before));
}
