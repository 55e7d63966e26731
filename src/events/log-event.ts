// Writes the log line of an event: one for each, with the ids that lead from a session to its deliveries.

import type { Logger } from '../base/log.ts';
import {
  type AcceptedEvent,
  type BouncedEvent,
  type EventFacts,
  eventKinds,
  type OutcomeEvent,
  type RefusedEvent,
  type WebhookDisabledEvent,
} from './mail-event.ts';

/** The characters of a next hop's reply that are logged. */
const loggedReply = 300;

const refusedTexts = {
  sender: 'sender refused',
  recipient: 'recipient refused',
  message: 'refused',
} as const satisfies Record<RefusedEvent['stage'], string>;

type Line = Readonly<Record<string, unknown>>;

/** A removed header in the log, without the words of the reason, which may be long and quote a value. */
function removedHeader({ field, code }: { readonly field: string; readonly code: string }): Line {
  return { field, code };
}

function acceptedLine(event: AcceptedEvent): Line {
  return {
    session: event.sessionId,
    id: event.queueId,
    messageId: event.messageId,
    clientMessageId: event.clientMessageId,
    account: event.account,
    credential: event.credential,
    via: event.via,
    client: event.clientAddress,
    helo: event.helo,
    from: event.senderPath,
    recipients: event.recipientCount,
    size: event.size,
    ...(event.stripped ? { stripped: event.stripped } : {}),
    ...(event.observed ? { observed: event.observed.map(removedHeader), observedCount: event.observedCount } : {}),
  };
}

function refusedLine(event: RefusedEvent): Line {
  const isSmtp = event.via === 'smtp';
  return {
    session: event.sessionId,
    ...(isSmtp ? { listener: event.listener } : { via: event.via }),
    client: event.clientAddress,
    ...(isSmtp ? { helo: event.helo } : {}),
    account: event.account,
    credential: event.credential,
    ...(event.stage === 'recipient'
      ? { to: event.recipients[0] }
      : { from: event.senderPath, recipients: event.recipientCount, size: event.size }),
    ...(event.reason === undefined ? { codes: event.violations.map(({ code }) => code) } : { reason: event.reason }),
  };
}

function outcomeLine(event: OutcomeEvent): Line {
  const { reply } = event;
  return {
    session: event.sessionId,
    id: event.queueId,
    messageId: event.messageId,
    account: event.account,
    recipient: event.recipient,
    ...(event.redirectedTo === undefined ? {} : { redirectedTo: event.redirectedTo }),
    route: event.route,
    host: event.host,
    ...(event.tls ? { tls: event.tls.version ?? 'none', tlsPolicy: event.tls.policy } : {}),
    code: reply.code,
    ...(reply.enhanced === undefined ? {} : { enhanced: reply.enhanced }),
    reply: reply.text.slice(0, loggedReply),
    attempts: event.attempts,
    delayMs: event.at - event.acceptedAt,
    ...(event.kind === 'deferred' ? { retryInMs: event.nextAttemptAt - event.at } : {}),
  };
}

function bouncedLine(event: BouncedEvent): Line {
  return {
    class: event.bounceClass,
    rule: event.rule,
    status: event.status,
    diagnostic: event.diagnostic?.slice(0, loggedReply),
    remoteMta: event.remoteMta,
    reportingMta: event.reportingMta,
    client: event.reportedBy,
  };
}

/** What the line of an event has beside what all events of a message have. */
function ownLine(event: Exclude<EventFacts, AcceptedEvent | RefusedEvent | OutcomeEvent | WebhookDisabledEvent>): Line {
  if (event.kind === 'requeued') return { failed: event.failedCount };
  if (event.kind === 'complained')
    return { feedbackType: event.feedbackType, userAgent: event.userAgent, client: event.reportedBy };
  if (event.kind === 'suppressed') return { reason: event.reason, source: event.source, rule: event.rule };
  return event.kind === 'bounced' ? bouncedLine(event) : {};
}

function messageLine(event: Parameters<typeof ownLine>[0]): Line {
  return {
    session: event.sessionId,
    id: event.queueId,
    messageId: event.messageId,
    account: event.account,
    ...('recipients' in event ? { recipients: event.recipientCount } : { recipient: event.recipient }),
    ...ownLine(event),
  };
}

/** Writes the line of an event. One of a kind that has no words of its own has what all events of a message have. */
export function logEvent(log: Logger, event: EventFacts): void {
  if (event.kind === 'refused') return log.info(refusedLine(event), refusedTexts[event.stage]);
  if (event.kind === 'webhook_disabled') {
    const { sessionId: session, account, url, reason } = event;
    return log.warn({ session, account, url, reason }, 'webhook disabled');
  }
  const line =
    event.kind === 'accepted' ? acceptedLine(event) : 'route' in event ? outcomeLine(event) : messageLine(event);
  return eventKinds[event.kind].level === 'warn' ? log.warn(line, event.kind) : log.info(line, event.kind);
}
