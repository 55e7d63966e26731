// Writes messages and recipients with all that follows from a change: the account's numbers, the list of messages kept as failed, body
// files to delete. What outcomes, retries and removals change is said by core/message-group.ts.

import type { Row } from '../../base/database/database.ts';
import {
  type ChangedRecipient,
  type GivenOutcome,
  type GroupMessage,
  type GroupRecipient,
  MessageGroup,
} from '../core/message-group.ts';
import { noteReports, type ReportTables } from '../core/report-steps.ts';
import type { EncodedEvent } from '../encoded-event.ts';
import type { EventFacts } from '../events/mail-event.ts';
import type { WrittenJournal } from '../journal/writer/journal-of-event.ts';
import type { ReportLimits } from '../reports/report.ts';
import type { RetryCount, RetryPick } from '../spool.ts';
import { type EntryMeta, entryOf, integer, messageValues, stateNumbers, stateOf, text } from '../stored-rows.ts';
import { addTally, emptyTally, tallyOfNew } from '../tally.ts';
import { inBlock, storedHead } from './file/settled-octets.ts';
import { envelopeOf, envelopeRows, leastClaimMs, readEnvelope } from './in-flight.ts';
import { SpoolPart, type SpoolTables } from './sqlite-tables.ts';

/** A message to add. */
export interface AddCall {
  readonly entry: EntryMeta;
  /** Of the acceptance. */
  readonly event: EncodedEvent;
  readonly claimUntil: number;
  readonly size: number;
  readonly head: Uint8Array;
  /** `undefined`: the body is in a file. */
  readonly body: Uint8Array | undefined;
  /** The row of the journal. */
  readonly journal?: WrittenJournal | undefined;
}

interface StoredRecipient extends GroupRecipient {
  readonly line: number;
  readonly claimedUntil: number;
}

/** A message as it was read here. */
export interface StoredMessage extends GroupMessage {
  readonly seq: number;
  readonly isBodyFile: boolean;
  readonly isInBlock: boolean;
  readonly recipients: readonly StoredRecipient[];
}

function storedRecipient(row: Row): StoredRecipient {
  const claimedUntil = integer(row, 'claimed_until');
  return {
    ...{ position: integer(row, 'position'), address: text(row, 'address'), state: stateOf(row) },
    ...{ attempts: integer(row, 'attempts'), wanted: integer(row, 'reports'), line: integer(row, 'line') },
    ...{ claim: claimedUntil > 0 ? 'own' : 'none', claimedUntil },
  };
}

/** The messages of one database. Every method runs in the caller's transaction. */
export class StoredMessages extends SpoolPart {
  /** Accounts that got a message kept as failed in this transaction, or are suspected, and may now have too many. */
  readonly grown = new Set<string>();
  /** Ids of messages with a body file that were removed in this transaction. */
  gone: string[] = [];
  /** The number of the next message that this transaction adds; undefined before the first. */
  #nextSeq: number | undefined;

  begin(): void {
    this.#nextSeq = undefined;
    this.gone = [];
    this.grown.clear();
  }

  /** Adds a message with its recipients: as an envelope where they are claimed for long, otherwise as rows. */
  add({ entry, claimUntil, size, head, body }: AddCall): void {
    const envelope = envelopeOf(entry, this.clock.stored(claimUntil));
    const isInFlight = claimUntil - entry.acceptedAt >= leastClaimMs;
    const seq = this.#nextSeq ?? integer(this.statements.nextSeq.get() ?? {}, 'seq');
    this.#nextSeq = seq + 1;
    const values = messageValues(entry, { size, expiresAt: this.clock.stored(entry.expiresAt) });
    const to = isInFlight ? JSON.stringify(envelope) : null;
    this.statements.addMessage.run(seq, body ? 0 : 1, ...values, head, body ?? null, to);
    const { id, account } = entry;
    if (isInFlight) this.inFlight.add({ id, seq, account, size, isBodyFile: !body }, envelope);
    else this.inFlight.writeRows(envelope, { seq, account, accepted_at: entry.acceptedAt });
    this.ledger.changes.add(account, tallyOfNew(size, envelope.to.length));
  }

  /** Removes a message in flight whose recipients are all delivered. @returns false where it is none, or not yet done */
  forgetInFlight(id: string, outcomes: readonly Pick<GivenOutcome, 'kind' | 'recipient'>[]): boolean {
    const delivered = outcomes.flatMap(({ kind, recipient }) => (kind === 'delivered' ? [recipient] : []));
    const message = this.inFlight.forget(id, new Set(delivered));
    if (!message) return false;
    const { account, size, recipients, isBodyFile } = message;
    this.ledger.changes.add(account, addTally(emptyTally, tallyOfNew(size, recipients.length), -1));
    if (isBodyFile) this.gone.push(id);
    return true;
  }

  /** Reads a message for a change. Its recipients get rows where they have none yet. @returns undefined where there is none */
  read(id: string): StoredMessage | undefined {
    const rows = this.states(id);
    const [row] = rows;
    if (!row) return undefined;
    return {
      ...{ id, seq: integer(row, 'seq'), account: text(row, 'account'), size: integer(row, 'size') },
      ...{ acceptedAt: integer(row, 'accepted_at'), begun: integer(row, 'begun') },
      isBodyFile: integer(row, 'body_in_file') === 1,
      isInBlock: integer(row, 'body_in_file') === inBlock,
      recipients: rows.map(storedRecipient),
    };
  }

  /** The rows of a message's recipients with their states; empty where there is no such message. */
  states(id: string): readonly Row[] {
    const rows = this.statements.states.all(id);
    return rows.length === 0 && this.inFlight.spread(id) ? this.statements.states.all(id) : rows;
  }

  /** The rows of the recipients of a message, also where they stand in its envelope. @param message a row with seq and envelope */
  recipients(message: Row): readonly Row[] {
    const envelope = readEnvelope(message['envelope']);
    if (!envelope) return this.statements.recipients.all(integer(message, 'seq'));
    return envelopeRows(envelope, this.clock.stored(integer(message, 'accepted_at')));
  }

  /** Writes what has changed, with the accounts' numbers and the list of messages kept as failed. */
  apply(changes: ReturnType<MessageGroup<StoredMessage>['changes']>): void {
    const { gone, recipients, failed, queuedAgain, extended, tallies } = changes;
    for (const { account, ...more } of tallies) this.ledger.changes.add(account, more);
    for (const { id, seq, isBodyFile, isInBlock } of gone) {
      this.statements.forgetFailure.run(seq);
      this.statements.forgetRecipients.run(seq);
      if (isInBlock) this.parts.settled.forget(seq);
      this.statements.forgetMessage.run(seq);
      if (isBodyFile) this.gone.push(id);
    }
    for (const { message, recipient, changed } of recipients) this.#change(message, recipient, changed);
    for (const { message, endedAt } of failed) {
      this.statements.keepFailure.run(message.seq, message.account, this.clock.stored(endedAt), message.size);
      this.grown.add(message.account);
    }
    for (const { seq } of queuedAgain) this.statements.forgetFailure.run(seq);
    for (const { message, expiresAt } of extended)
      this.statements.extend.run(this.clock.stored(expiresAt), message.seq);
  }

  #change({ seq }: StoredMessage, recipient: StoredRecipient, changed: ChangedRecipient): void {
    const { state, attempts, endedAt, isReleased, reply } = changed;
    const nextAttemptAt = this.clock.stored(changed.nextAttemptAt);
    const claimedUntil = isReleased ? 0 : recipient.claimedUntil;
    // One that had failed gets a line anew, when its transport is known.
    const line = state === 'queued' && recipient.state === 'failed' ? 0 : recipient.line;
    if (state === 'queued') this.lines.dueAt(line, Math.max(nextAttemptAt, claimedUntil));
    const ended = endedAt === null ? null : this.clock.stored(endedAt);
    const values = [stateNumbers[state], attempts, nextAttemptAt, claimedUntil, ended, line];
    if (!reply) this.statements.change.run(seq, recipient.position, ...values);
    else {
      const { code, enhanced = null, text: words } = reply.reply;
      this.statements.changeReplied.run(seq, recipient.position, ...values, code, enhanced, words, reply.host);
    }
  }
}

/** The outcome of an attempt: the values for the recipient's row, and the event. */
export type EncodedOutcome = GivenOutcome & { readonly event: EncodedEvent };

interface AttemptParts extends SpoolTables {
  readonly messages: StoredMessages;
  readonly reportLimits: ReportLimits;
  /** Writes an event in the transaction of the change that it reports. */
  readonly write: (event: EventFacts) => void;
}

const head = `coalesce(m.head_length, length(m.head)) AS head_length, ${storedHead} AS octets`;

/** The attempts on one database; the methods of the same names in `Spool` say what each method does. */
export class Attempts extends SpoolPart<AttemptParts> {
  readonly #reports: ReportTables<StoredMessage> = {
    ...{ times: this.clock, limits: this.parts.reportLimits, head },
    keyOf: ({ seq }) => seq,
  };

  /** @returns how many outcomes are not reported to their senders because of the limits */
  record(outcomes: readonly EncodedOutcome[], now: number): number {
    const [first] = outcomes;
    if (first && outcomes.length === 1 && this.parts.messages.forgetInFlight(first.queueId, outcomes)) return 0;
    const byMessage = Map.groupBy(outcomes, ({ queueId }) => queueId);
    const left = [...byMessage].flatMap(([id, own]) => (this.parts.messages.forgetInFlight(id, own) ? [] : own));
    if (left.length === 0) return 0;
    const group = this.#groupOf(left.map(({ queueId }) => queueId));
    group.record(left, now);
    const unreported = this.parts.steps(noteReports(this.#reports, group.noted, now));
    this.parts.messages.apply(group.changes());
    return unreported;
  }

  retryMany(picks: readonly RetryPick[], times: { readonly now: number; readonly expiresAt: number }): RetryCount {
    const group = this.#groupOf(picks.map(({ id }) => id));
    const { events, ...count } = group.retryMany(picks, times);
    for (const event of events) this.parts.write(event);
    this.parts.messages.apply(group.changes());
    return count;
  }

  drop(id: string, now: number): boolean {
    const group = this.#groupOf([id]);
    const event = group.drop(id, now);
    if (event) this.parts.write(event);
    this.parts.messages.apply(group.changes());
    return event !== undefined;
  }

  /** Reads all recipients of each message once, however many operations are about it. */
  #groupOf(ids: readonly string[]): MessageGroup<StoredMessage> {
    const group = new MessageGroup<StoredMessage>((id) => {
      const row = this.statements.entry.get(id);
      return row && entryOf(row, [], this.clock);
    });
    for (const id of ids) {
      const message = group.has(id) ? undefined : this.parts.messages.read(id);
      if (message) group.take(message);
    }
    return group;
  }
}
