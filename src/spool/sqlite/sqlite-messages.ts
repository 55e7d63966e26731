// Writes messages and their recipients to the spool's tables, with everything that follows from a change: the account's
// numbers, the list of messages kept as failed, and body files to delete.

import type { Row } from '../../base/database/database.ts';
import { type EntryMeta, entryOf, integer, stateOf, text } from '../stored-rows.ts';
import { type StateCounts, tallyOf } from '../tally.ts';
import { envelopeOf, envelopeRows, leastClaimMs, type MessagesInFlight, readEnvelope } from './in-flight.ts';
import type { SpoolClock } from './sqlite-clock.ts';
import type { Ledger } from './sqlite-ledger.ts';
import type { Lines } from './sqlite-lines.ts';
import type { OperationOf } from './sqlite-protocol.ts';
import type { Statements } from './sqlite-statements.ts';

/** Shared by all that works on the spool's tables: one connection, and one time for a whole transaction. */
export interface SpoolTables {
  readonly statements: Statements;
  readonly clock: SpoolClock;
  readonly ledger: Ledger;
  readonly lines: Lines;
  readonly inFlight: MessagesInFlight;
}

/** The messages of one database. Every method runs in the caller's transaction. */
export class StoredMessages {
  readonly #statements: Statements;
  readonly #clock: SpoolClock;
  readonly #ledger: Ledger;
  readonly #inFlight: MessagesInFlight;
  readonly #grown = new Set<string>();
  #gone: string[] = [];

  constructor({ statements, clock, ledger, inFlight }: SpoolTables) {
    this.#statements = statements;
    this.#clock = clock;
    this.#ledger = ledger;
    this.#inFlight = inFlight;
  }

  /** Accounts that got a message kept as failed in this transaction, and may now have too many. */
  get grown(): ReadonlySet<string> {
    return this.#grown;
  }

  /** Ids of messages with a body file that were removed in this transaction. */
  get gone(): readonly string[] {
    return this.#gone;
  }

  /** To be called at the beginning of a transaction. */
  begin(): void {
    this.#gone = [];
    this.#grown.clear();
  }

  /** Adds a message with its recipients: as an envelope where they are claimed for long, otherwise as rows. */
  add({ entry, claimUntil, size, head, body }: OperationOf<'add'>): void {
    const envelope = envelopeOf(entry, this.#clock.stored(claimUntil));
    const isInFlight = claimUntil - entry.acceptedAt >= leastClaimMs;
    const { lastInsertRowid } = this.#statements.addMessage.run(
      entry.id,
      entry.account,
      entry.credential,
      entry.sessionId,
      entry.messageId,
      entry.clientMessageId ?? null,
      entry.reversePath,
      entry.senderPath,
      entry.smtputf8 ? 1 : 0,
      entry.requireTls ? 1 : entry.tlsOptional ? 2 : 0,
      entry.acceptedAt,
      this.#clock.stored(entry.expiresAt),
      entry.platformSignature?.start ?? null,
      entry.platformSignature?.end ?? null,
      size,
      body ? 0 : 1,
      head,
      body ?? null,
      entry.origin?.via ?? null,
      entry.origin?.clientAddress ?? null,
      entry.origin?.helo ?? null,
      entry.dsn?.ret ?? null,
      entry.dsn?.envid ?? null,
      isInFlight ? JSON.stringify(envelope) : null,
    );
    const { id, account } = entry;
    const seq = Number(lastInsertRowid);
    if (isInFlight) this.#inFlight.add({ id, seq, account, size, isBodyFile: !body }, envelope);
    else this.#inFlight.writeRows(envelope, { seq, account, accepted_at: entry.acceptedAt });
    const counts = { queued: envelope.to.length, delivered: 0, failed: 0 };
    this.#ledger.change(account, tallyOf(size, undefined), tallyOf(size, counts));
  }

  /** Removes a message in flight whose recipients are all delivered. @returns false where it is none, or not yet done */
  forgetInFlight(id: string, delivered: ReadonlySet<string>): boolean {
    const message = this.#inFlight.forget(id, delivered);
    if (!message) return false;
    const { account, size, recipients, isBodyFile } = message;
    const counts = { queued: recipients.length, delivered: 0, failed: 0 };
    this.#ledger.change(account, tallyOf(size, counts), tallyOf(size, undefined));
    if (isBodyFile) this.#gone.push(id);
    return true;
  }

  /** The states of a message's recipients, which get rows where they have none yet; empty where there is no such message. */
  states(id: string): readonly Row[] {
    const rows = this.#statements.states.all(id);
    return rows.length === 0 && this.#inFlight.spread(id) ? this.#statements.states.all(id) : rows;
  }

  /** The rows of the recipients of a message, also where they stand in its envelope. @param message a row with seq and envelope */
  recipients(message: Row): readonly Row[] {
    const envelope = readEnvelope(message['envelope']);
    if (!envelope) return this.#statements.recipients.all(integer(message, 'seq'));
    return envelopeRows(envelope, this.#clock.stored(integer(message, 'accepted_at')));
  }

  /**
   * Updates the account's numbers and the list of messages kept as failed, after recipients changed state.
   * @param message a row with seq, account and size
   */
  changed(
    message: Row,
    { before, after, now }: { readonly before: StateCounts; readonly after: StateCounts; readonly now: number },
  ): void {
    const [seq, account, size] = [integer(message, 'seq'), text(message, 'account'), integer(message, 'size')];
    this.#ledger.change(account, tallyOf(size, before), tallyOf(size, after));
    if (after.queued === 0) {
      this.#statements.keepFailure.run(seq, account, this.#clock.stored(now), size);
      this.#grown.add(account);
    }
    if (after.queued > 0 && before.queued === 0) this.#statements.forgetFailure.run(seq);
  }

  /** Removes a message. @param message a row with id, seq, account, size and body_in_file */
  forget(message: Row, states = this.#stateCounts(integer(message, 'seq'))): void {
    const seq = integer(message, 'seq');
    if (states.queued === 0) this.#statements.forgetFailure.run(seq);
    this.#statements.forgetRecipients.run(seq);
    this.#statements.forgetMessage.run(seq);
    const size = integer(message, 'size');
    this.#ledger.change(text(message, 'account'), tallyOf(size, states), tallyOf(size, undefined));
    if (integer(message, 'body_in_file') === 1) this.#gone.push(text(message, 'id'));
  }

  /** Marks an account, so that it is checked after the transaction's other changes for too many failed messages. */
  suspect(account: string): void {
    this.#grown.add(account);
  }

  /** Makes the message of a row of spool_messages and those of its recipients, its times turned into wall times. */
  entry(row: Row, recipients: readonly Row[]): EntryMeta {
    const stored = entryOf(row, recipients);
    return { ...stored, expiresAt: this.#clock.wall(stored.expiresAt) };
  }

  #stateCounts(seq: number): StateCounts {
    const counts = { queued: 0, delivered: 0, failed: 0 };
    for (const row of this.#statements.stateCounts.all(seq)) counts[stateOf(row)] = integer(row, 'recipients');
    return counts;
  }
}
