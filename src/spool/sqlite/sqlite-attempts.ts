// Outcomes of attempts, retries and removals in SQLite: reads the messages, lets the rules (core/message-group.ts) work on them, and
// writes what has changed.

import { type GivenOutcome, MessageGroup } from '../core/message-group.ts';
import { noteReports, type ReportTables } from '../core/report-steps.ts';
import type { EncodedEvent } from '../encoded-event.ts';
import type { EventFacts } from '../events/mail-event.ts';
import type { ReportLimits } from '../reports/report.ts';
import type { RetryCount, RetryPick } from '../spool.ts';
import { storedHead } from './file/settled-octets.ts';
import type { StoredMessage, StoredMessages } from './sqlite-messages.ts';
import { SpoolPart, type SpoolTables } from './sqlite-tables.ts';

/** The outcome of an attempt: the values for the recipient's row, and the event. */
export type EncodedOutcome = GivenOutcome & { readonly event: EncodedEvent };

/** What the attempts work on. */
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
      return row && this.parts.messages.entry(row, []);
    });
    for (const id of ids) {
      const message = group.has(id) ? undefined : this.parts.messages.read(id);
      if (message) group.take(message);
    }
    return group;
  }
}
