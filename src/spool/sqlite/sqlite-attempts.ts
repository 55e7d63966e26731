// Outcomes of attempts, retries and removals in SQLite: reads the messages, lets the rules (core/message-group.ts) work on them, and
// writes what has changed.

import { MessageGroup } from '../core/message-group.ts';
import { noteReports, type ReportTables } from '../core/report-steps.ts';
import type { EncodedEvent } from '../encoded-event.ts';
import type { EventFacts, OutcomeEvent } from '../events/mail-event.ts';
import type { ReportableOutcome, ReportLimits } from '../reports/report.ts';
import type { RetryCount, RetryPick } from '../spool.ts';
import { droppedEvent, requeuedEvent } from '../spool-events.ts';
import { storedHead } from './file/settled-octets.ts';
import type { StoredMessage, StoredMessages } from './sqlite-messages.ts';
import { SpoolPart, type SpoolTables } from './sqlite-tables.ts';

/** The outcome of an attempt: the values for the recipient's row, and the event. */
export interface EncodedOutcome
  extends Pick<OutcomeEvent, 'queueId' | 'recipient' | 'kind' | 'reply' | 'host'>,
    ReportableOutcome {
  readonly kind: OutcomeEvent['kind'];
  readonly nextAttemptAt?: number;
  /** The next hop was not reached, so that the attempt does not count. */
  readonly isUntried?: boolean;
  readonly event: EncodedEvent;
}

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
    const group = new MessageGroup<StoredMessage>();
    const [first] = outcomes;
    if (first && outcomes.length === 1 && this.parts.messages.forgetInFlight(first.queueId, outcomes)) return 0;
    const byMessage = Map.groupBy(outcomes, ({ queueId }) => queueId);
    const left = [...byMessage].flatMap(([id, own]) => (this.parts.messages.forgetInFlight(id, own) ? [] : own));
    if (left.length === 0) return 0;
    for (const { queueId } of left) this.#take(group, queueId);
    group.record(left, now);
    const unreported = this.parts.steps(noteReports(this.#reports, group.noted, now));
    this.parts.messages.apply(group.changes());
    return unreported;
  }

  retryMany(picks: readonly RetryPick[], times: { readonly now: number; readonly expiresAt: number }): RetryCount {
    const group = new MessageGroup<StoredMessage>();
    const sum = { messages: 0, recipients: 0, failed: 0 };
    for (const pick of picks) {
      this.#take(group, pick.id);
      const made = group.retry(pick, times);
      const entry = made && made.recipients > 0 ? this.statements.entry.get(pick.id) : undefined;
      if (!made || !entry) continue;
      sum.messages += 1;
      sum.recipients += made.recipients;
      sum.failed += made.failed;
      this.parts.write(
        requeuedEvent(this.parts.messages.entry(entry, []), made.due, { failed: made.failed, at: times.now }),
      );
    }
    this.parts.messages.apply(group.changes());
    return sum;
  }

  drop(id: string, now: number): boolean {
    const group = new MessageGroup<StoredMessage>();
    this.#take(group, id);
    const row = this.statements.entry.get(id);
    const recipients = row && group.drop(id);
    if (!recipients) return false;
    this.parts.write(droppedEvent(this.parts.messages.entry(row, []), recipients, now));
    this.parts.messages.apply(group.changes());
    return true;
  }

  /** Reads all recipients of a message once, however many operations are about it. */
  #take(group: MessageGroup<StoredMessage>, id: string): void {
    const message = group.has(id) ? undefined : this.parts.messages.read(id);
    if (message) group.take(message);
  }
}
