// Writes the log line of an event: one for each, with the ids that lead from a session to its deliveries.

import type { Logger } from '../base/log.ts';
import type {
  AcceptedEvent,
  BouncedEvent,
  ComplainedEvent,
  EventFacts,
  OutcomeEvent,
  QueueEvent,
  RefusedEvent,
  SuppressedEvent,
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

function queueLine(event: QueueEvent): Line {
  return {
    session: event.sessionId,
    id: event.queueId,
    messageId: event.messageId,
    account: event.account,
    recipients: event.recipientCount,
    ...(event.kind === 'requeued' ? { failed: event.failedCount } : {}),
  };
}

function returnLine(event: BouncedEvent | ComplainedEvent | SuppressedEvent): Line {
  const facts = {
    session: event.sessionId,
    id: event.queueId,
    messageId: event.messageId,
    account: event.account,
    recipient: event.recipient,
  };
  if (event.kind === 'complained') {
    return { ...facts, feedbackType: event.feedbackType, userAgent: event.userAgent, client: event.reportedBy };
  }
  if (event.kind === 'suppressed') return { ...facts, reason: event.reason, source: event.source, rule: event.rule };
  return {
    ...facts,
    class: event.bounceClass,
    rule: event.rule,
    status: event.status,
    diagnostic: event.diagnostic?.slice(0, loggedReply),
    remoteMta: event.remoteMta,
    reportingMta: event.reportingMta,
    client: event.reportedBy,
  };
}

/** Writes the line of an event. */
export function logEvent(log: Logger, event: EventFacts): void {
  switch (event.kind) {
    case 'accepted':
      log.info(acceptedLine(event), event.kind);
      return;
    case 'refused':
      log.info(refusedLine(event), refusedTexts[event.stage]);
      return;
    case 'failed':
      log.warn(outcomeLine(event), event.kind);
      return;
    case 'delivered':
    case 'deferred':
      log.info(outcomeLine(event), event.kind);
      return;
    case 'webhook_disabled':
      log.warn(
        { session: event.sessionId, account: event.account, url: event.url, reason: event.reason },
        'webhook disabled',
      );
      return;
    case 'dropped':
      log.warn(queueLine(event), event.kind);
      return;
    case 'requeued':
      log.info(queueLine(event), event.kind);
      return;
    case 'bounced':
    case 'complained':
    case 'suppressed':
      log.info(returnLine(event), event.kind);
      return;
    default:
      event satisfies never;
  }
}
