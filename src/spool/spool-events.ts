// Makes the events that the spool writes in one commit with what they report.

import { cutText, eventBounds, firstAddresses, reasonWithoutQuotes } from './events/event-bounds.ts';
import type { AcceptedEvent, DeferredEvent, DroppedEvent, OutcomeEvent, RequeuedEvent } from './events/mail-event.ts';
import type { DueMessage, Outcome, SpoolEntry, SpooledRecipient } from './spool.ts';

const cutName = (text: string): string => cutText(text, eventBounds.name);

function factsOf(entry: DueMessage['entry']) {
  const { via, clientAddress, helo } = entry.origin ?? {};
  return {
    account: entry.account,
    credential: entry.credential,
    sessionId: entry.sessionId,
    via,
    clientAddress,
    helo: helo === undefined ? undefined : cutName(helo),
    senderPath: cutName(entry.senderPath),
    queueId: entry.id,
    messageId: entry.messageId,
  };
}

/** Makes the event of an accepted message. */
export function acceptedEvent(entry: SpoolEntry): AcceptedEvent {
  const { clientMessageId, received, recipients } = entry;
  const { mappedSender, stripped = [], observed: removed = [] } = received ?? {};
  const first = removed.slice(0, eventBounds.violations);
  const observed = (entry.journal?.content ?? 'none') === 'none' ? first.map(reasonWithoutQuotes) : first;
  return {
    kind: 'accepted',
    at: entry.acceptedAt,
    ...factsOf(entry),
    clientMessageId: clientMessageId === undefined ? undefined : cutName(clientMessageId),
    recipients: firstAddresses(recipients, eventBounds.acceptedRecipients),
    recipientCount: recipients.length,
    size: received?.size,
    sizeAsSent: entry.head.length + entry.body.length,
    mappedSender: mappedSender && {
      given: cutName(mappedSender.given),
      address: mappedSender.address,
      pattern: cutName(mappedSender.pattern),
    },
    stripped: stripped.length > 0 ? stripped.slice(0, eventBounds.violations) : undefined,
    ...(observed.length > 0
      ? {
          observed: observed.map(({ name, code, message }) => ({
            field: cutText(name, eventBounds.fieldName),
            code,
            message: cutText(message, eventBounds.violationMessage),
          })),
          observedCount: removed.length,
          mailer: received?.mailer,
        }
      : {}),
  };
}

/** One attempt for one recipient, and its outcome. */
export interface DeliveryAttempt
  extends Pick<OutcomeEvent, 'recipient' | 'at' | 'redirectedTo' | 'route' | 'attempts'>,
    Pick<DeferredEvent, 'isUntried'> {
  readonly outcome: Outcome;
  /** Octets of head and body. */
  readonly size: number;
  /** Milliseconds since 1970; a deferral without it is due now. */
  readonly nextAttemptAt?: number;
}

/** Makes the event of an attempt that has ended. */
export function outcomeEvent(entry: DueMessage['entry'], attempt: DeliveryAttempt): OutcomeEvent {
  const { recipient, outcome, at, route, attempts } = attempt;
  const { kind, reply, host, tls } = outcome;
  const facts = {
    at,
    ...factsOf(entry),
    recipient,
    redirectedTo: attempt.redirectedTo,
    route,
    host,
    tls,
    reply,
    attempts,
    acceptedAt: entry.acceptedAt,
    sizeAsSent: attempt.size,
  };
  switch (kind) {
    case 'deferred':
      return {
        kind,
        ...facts,
        nextAttemptAt: attempt.nextAttemptAt ?? at,
        isUntried: attempt.isUntried ? true : undefined,
      };
    case 'delivered':
      return { kind, ...facts, handover: outcome.handover };
    case 'failed':
      return { kind, ...facts };
  }
  return kind satisfies never;
}

function aboutRecipients(entry: DueMessage['entry'], recipients: readonly string[], at: number) {
  return {
    at,
    ...factsOf(entry),
    recipients: firstAddresses(recipients, eventBounds.acceptedRecipients),
    recipientCount: recipients.length,
  };
}

/** Makes the event of a message removed from the queue. @param recipients all; it names the undelivered ones @param at milliseconds since 1970 */
export function droppedEvent(
  entry: DueMessage['entry'],
  recipients: readonly Pick<SpooledRecipient, 'address' | 'state'>[],
  at: number,
): DroppedEvent {
  const lost = recipients.filter(({ state }) => state !== 'delivered').map(({ address }) => address);
  return { kind: 'dropped', ...aboutRecipients(entry, lost, at) };
}

/** Makes the event of recipients that were made due. @param made.failed how many had failed @param made.at milliseconds since 1970 */
export function requeuedEvent(
  entry: DueMessage['entry'],
  recipients: readonly string[],
  { failed, at }: { readonly failed: number; readonly at: number },
): RequeuedEvent {
  return { kind: 'requeued', ...aboutRecipients(entry, recipients, at), failedCount: failed };
}
