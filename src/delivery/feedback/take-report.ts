// Takes a report whose token is ours: compares it with the message, classifies it, and writes the events. It is believed about recipients
// of its message alone, so that a forger can say no more than a recipient of that message could (D26, D51).

import { createKeyedQueues } from '../../base/keyed-queues.ts';
import { comparableMailbox } from '../../mail/address/path.ts';
import { cutText, eventBounds } from '../../spool/events/event-bounds.ts';
import type { EventStore } from '../../spool/events/event-store.ts';
import type { BouncedEvent, ComplainedEvent } from '../../spool/events/mail-event.ts';
import { classify } from './classify/classify.ts';
import { type FindMessage, type KnownMessage, returnKey } from './known-messages.ts';
import type { ComplaintReport, DeliveryReport, NamedRecipient, Report } from './report/report.ts';

/** A report and what is known of its way. */
export interface ArrivedReport {
  /** The id of the message that the token refers to. */
  readonly queueId: string;
  readonly report: Report;
  /** The IP address that it came from. */
  readonly reportedBy: string;
  /** Milliseconds since 1970. */
  readonly at: number;
}

/** What became of a report. */
export type ReportResult =
  /** Events are written. */
  | 'counted'
  /** All that it says had come back before. */
  | 'repeated'
  /** It says that the message arrived. */
  | 'confirmed'
  /** It names no recipient of the message. */
  | 'unmatched'
  /** An answer of a person or a program, no report. */
  | 'reply'
  /** Nothing is known of the message any more. */
  | 'unknown_message';

/** Makes the function that takes reports; it rejects where the events cannot be read or written. */
export function createTakeReport(parts: {
  readonly find: FindMessage;
  readonly events: Pick<EventStore, 'write'>;
}): (arrived: ArrivedReport) => Promise<ReportResult> {
  const { find, events } = parts;
  // Reports about one message are taken one after another, so that two of the same kind are not both counted.
  const queued = createKeyedQueues();
  const take = async (arrived: ArrivedReport): Promise<ReportResult> => {
    const { report } = arrived;
    if (report.kind === 'reply') return 'reply';
    const message = await find(arrived.queueId);
    if (!message) return 'unknown_message';
    const said = report.kind === 'complaint' ? complaints(report, message, arrived) : bounces(report, message, arrived);
    if (typeof said === 'string') return said;
    const fresh = new Map(said.map((event) => [returnKey(event), event]));
    for (const key of fresh.keys()) if (message.returned.has(key)) fresh.delete(key);
    if (fresh.size === 0) return 'repeated';
    await events.write([...fresh.values()]);
    for (const key of fresh.keys()) message.returned.add(key);
    return 'counted';
  };
  return (arrived) => queued(arrived.queueId, () => take(arrived));
}

/** The recipient of the message that an address of a report is. */
function recipientOf(message: KnownMessage, address: string | undefined): string | undefined {
  return address === undefined ? undefined : message.recipients.get(comparableMailbox(address));
}

function onlyRecipient({ recipients, recipientCount }: KnownMessage): string | undefined {
  return recipientCount === 1 ? [...recipients.values()][0] : undefined;
}

function bounces(
  { form, recipients, reportingMta }: DeliveryReport,
  message: KnownMessage,
  arrived: ArrivedReport,
): BouncedEvent[] | 'confirmed' | 'unmatched' {
  const found: BouncedEvent[] = [];
  let isConfirmed = false;
  for (const reported of recipients) {
    const named = recipientOf(message, reported.final) ?? recipientOf(message, reported.original);
    // A text that names nobody at all is about the only recipient that there is.
    const isNameless = form === 'text' && reported.final === undefined && found.length === 0;
    const recipient = named ?? (isNameless ? onlyRecipient(message) : undefined);
    if (recipient === undefined) continue;
    if (reported.action === 'failed' || reported.action === 'delayed') {
      const { reportedBy, at } = arrived;
      found.push({
        ...message.facts,
        kind: 'bounced',
        at,
        recipient,
        ...meaningOf(reported),
        reportedBy,
        reportingMta,
      });
    } else isConfirmed = true;
  }
  if (found.length > 0) return found;
  return isConfirmed ? 'confirmed' : 'unmatched';
}

/** What a report means for one recipient, and what it says of it. */
function meaningOf({ action, status, diagnostic, remoteMta }: NamedRecipient) {
  const decided = action === 'delayed' ? delayed : classify({ status, words: diagnostic ?? '' });
  const words = diagnostic === undefined ? undefined : cutText(diagnostic, eventBounds.name);
  return { bounceClass: decided.class, rule: decided.rule, status, diagnostic: words, remoteMta };
}

const delayed = { class: 'soft', rule: 'delayed' } as const;

function complaints(
  { feedbackType, userAgent, recipients }: ComplaintReport,
  message: KnownMessage,
  { at, reportedBy }: ArrivedReport,
): ComplainedEvent[] | 'reply' {
  // RFC 5965 §3.1 and its registry: "not-spam" takes a complaint back, and "auth-failure" and the like are none of a person's.
  if (feedbackType === 'not-spam' || feedbackType === 'auth-failure') return 'reply';
  const named = recipients.map((address) => recipientOf(message, address)).find((one) => one !== undefined);
  const recipient = named ?? onlyRecipient(message);
  return [{ ...message.facts, kind: 'complained', at, recipient, feedbackType, reportedBy, userAgent }];
}
