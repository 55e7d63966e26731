// Writes the outcomes of attempts to the recipients' rows, queues recipients for another attempt, and drops messages.

import type { EventFacts } from '../../events/mail-event.ts';
import type { RecipientState } from '../recipient-state.ts';
import type { SqliteReports } from '../reports/sqlite-reports.ts';
import type { RetryCount, RetryPick } from '../spool.ts';
import { droppedEvent, requeuedEvent } from '../spool-events.ts';
import { integer, recipientOf, stateAfter, stateNumbers, stateOf, text } from '../stored-rows.ts';
import { countStates } from '../tally.ts';
import type { SpoolClock } from './sqlite-clock.ts';
import type { Lines } from './sqlite-lines.ts';
import type { SpoolTables, StoredMessages } from './sqlite-messages.ts';
import type { OperationOf, PackedOutcome } from './sqlite-protocol.ts';
import type { Statements } from './sqlite-statements.ts';

/** The attempts on one database; the methods of the same names in `Spool` say what each method does. */
export class Attempts {
  readonly #statements: Statements;
  readonly #clock: SpoolClock;
  readonly #lines: Lines;
  readonly #messages: StoredMessages;
  readonly #reports: SqliteReports;
  readonly #write: (event: EventFacts) => void;

  /** @param parts.write writes an event in the transaction of the change that it reports */
  constructor(
    { statements, clock, lines }: SpoolTables,
    parts: {
      readonly messages: StoredMessages;
      readonly reports: SqliteReports;
      readonly write: (event: EventFacts) => void;
    },
  ) {
    this.#statements = statements;
    this.#clock = clock;
    this.#lines = lines;
    this.#messages = parts.messages;
    this.#reports = parts.reports;
    this.#write = parts.write;
  }

  /** @returns how many outcomes are not reported to their senders because of the limits */
  record({ outcomes, now }: OperationOf<'record'>): number {
    const byMessage = new Map<string, PackedOutcome[]>();
    for (const outcome of outcomes) {
      const others = byMessage.get(outcome.queueId);
      if (others) others.push(outcome);
      else byMessage.set(outcome.queueId, [outcome]);
    }
    let unreported = 0;
    for (const [id, group] of byMessage) unreported += this.#recordMessage(id, group, now);
    return unreported;
  }

  retry({ id, now, expiresAt }: OperationOf<'retry'>): boolean {
    return this.#retryMessage({ id }, { now, expiresAt }) !== undefined;
  }

  retryMany({ picks, now, expiresAt }: OperationOf<'retryMany'>): RetryCount {
    const sum = { messages: 0, recipients: 0, failed: 0 };
    for (const pick of picks) {
      const made = this.#retryMessage(pick, { now, expiresAt });
      if (!made || made.recipients === 0) continue;
      sum.messages += 1;
      sum.recipients += made.recipients;
      sum.failed += made.failed;
    }
    return sum;
  }

  drop({ id, now }: OperationOf<'drop'>): boolean {
    const row = this.#statements.entry.get(id);
    if (!row) return false;
    const rows = this.#messages.states(id).length === 0 ? [] : this.#statements.recipients.all(integer(row, 'seq'));
    this.#write(droppedEvent(this.#messages.entry(row, rows), rows.map(recipientOf), now));
    this.#messages.forget(row);
    return true;
  }

  #recordMessage(id: string, outcomes: readonly PackedOutcome[], now: number): number {
    const delivered = outcomes.flatMap(({ kind, recipient }) => (kind === 'delivered' ? [recipient] : []));
    if (this.#messages.forgetInFlight(id, new Set(delivered))) return 0;
    const rows = this.#messages.states(id);
    const [message] = rows;
    // A command beside the server has dropped the message meanwhile (D94).
    if (!message) return 0;
    const byAddress = new Map(outcomes.map((outcome) => [outcome.recipient, outcome]));
    const before = rows.map(stateOf);
    const after = rows.map((row, at): RecipientState => {
      const outcome = byAddress.get(text(row, 'address'));
      const state = before[at] ?? 'queued';
      return outcome && state !== 'delivered' ? stateAfter(outcome.kind) : state;
    });
    const left = countStates(after);
    const unreported = this.#reports.note(
      {
        id,
        seq: integer(message, 'seq'),
        acceptedAt: integer(message, 'accepted_at'),
        begun: integer(message, 'begun'),
      },
      rows.flatMap((row, at) => {
        const outcome = byAddress.get(text(row, 'address'));
        const wanted = integer(row, 'reports');
        if (!outcome || wanted === 0 || before[at] === 'delivered') return [];
        return [{ ...outcome, wanted, address: outcome.recipient, position: integer(row, 'position') }];
      }),
      { now, isLast: left.queued === 0 },
    );
    if (left.delivered === rows.length) {
      this.#messages.forget({ ...message, id }, countStates(before));
      return unreported;
    }
    for (const [at, row] of rows.entries()) {
      const outcome = byAddress.get(text(row, 'address'));
      if (!outcome || before[at] === 'delivered') continue;
      const { kind, reply, host } = outcome;
      const nextAttemptAt = this.#clock.stored(outcome.nextAttemptAt ?? now);
      if (kind === 'deferred') this.#lines.dueAt(integer(row, 'line'), nextAttemptAt);
      this.#statements.record.run(
        stateNumbers[stateAfter(kind)],
        outcome.isUntried ? 0 : 1,
        nextAttemptAt,
        kind === 'deferred' ? null : this.#clock.stored(now),
        reply.code,
        reply.enhanced ?? null,
        reply.text,
        host,
        integer(row, 'seq'),
        integer(row, 'position'),
      );
    }
    this.#messages.changed(message, { before: countStates(before), after: left, now });
    return unreported;
  }

  /** @returns how many recipients are due now; undefined when there is no such message */
  #retryMessage(
    { id, recipients, state }: RetryPick,
    { now, expiresAt }: { readonly now: number; readonly expiresAt: number },
  ): Omit<RetryCount, 'messages'> | undefined {
    const rows = this.#messages.states(id);
    const [message] = rows;
    if (!message) return undefined;
    const seq = integer(message, 'seq');
    const wanted = recipients && new Set(recipients);
    const before = rows.map(stateOf);
    const after = [...before];
    const due: string[] = [];
    for (const [at, row] of rows.entries()) {
      if (before[at] === 'delivered' || (state ?? before[at]) !== before[at]) continue;
      if (wanted?.has(text(row, 'address')) === false) continue;
      const statement = before[at] === 'failed' ? this.#statements.requeueOne : this.#statements.makeOneDue;
      const nextAttemptAt = this.#clock.stored(now);
      statement.run(nextAttemptAt, seq, integer(row, 'position'));
      // One that had failed gets a line anew, when its transport is known.
      if (before[at] === 'queued')
        this.#lines.dueAt(integer(row, 'line'), Math.max(nextAttemptAt, integer(row, 'claimed_until')));
      after[at] = 'queued';
      due.push(text(row, 'address'));
    }
    if (due.length === 0) return { recipients: 0, failed: 0 };
    this.#statements.extend.run(this.#clock.stored(expiresAt), seq);
    const [counts, left] = [countStates(before), countStates(after)];
    this.#messages.changed(message, { before: counts, after: left, now });
    const failed = counts.failed - left.failed;
    const entry = this.#statements.entry.get(id);
    if (entry) this.#write(requeuedEvent(this.#messages.entry(entry, []), due, { failed, at: now }));
    return { recipients: due.length, failed };
  }
}
