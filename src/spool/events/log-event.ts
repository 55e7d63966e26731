// Writes the log line of an event: one for each, with the ids that lead from a session to its deliveries.

import type { Logger } from '../../base/log.ts';
import {
  type AcceptedEvent,
  type EventFacts,
  eventKinds,
  isOfWord,
  type OutcomeEvent,
  type RefusedEvent,
  type ShadowedEvent,
  type WebhookDisabledEvent,
  wouldPass,
} from './mail-event.ts';

/** The characters of a next hop's reply that are logged. */
const loggedReply = 300;

const refusedTexts = {
  sender: 'sender refused',
  recipient: 'recipient refused',
  message: 'refused',
} as const satisfies Record<RefusedEvent['stage'], string>;

type Line = Readonly<Record<string, unknown>>;

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
    mappedSender: event.mappedSender,
    stripped: event.stripped,
    // Without the words of the reasons, which may be long and quote a value.
    observed: event.observed?.map(({ field, code }) => ({ field, code })),
    observedCount: event.observed && event.observedCount,
  };
}

function refusedLine(event: RefusedEvent | ShadowedEvent): Line {
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
    redirectedTo: event.redirectedTo,
    route: event.route,
    host: event.host,
    ...(event.tls ? { tls: event.tls.version ?? 'none', tlsPolicy: event.tls.policy } : {}),
    code: reply.code,
    enhanced: reply.enhanced,
    reply: reply.text.slice(0, loggedReply),
    attempts: event.attempts,
    delayMs: event.at - event.acceptedAt,
    ...(event.kind === 'deferred' ? { retryInMs: event.nextAttemptAt - event.at } : {}),
  };
}

/** The line of an event whose kind has no line of its own. */
function messageLine(
  event: Exclude<EventFacts, AcceptedEvent | RefusedEvent | ShadowedEvent | OutcomeEvent | WebhookDisabledEvent>,
): Line {
  const members: Line = { ...event };
  const own = Object.entries(eventKinds[event.kind].logged).map(([name, member]) => [name, members[member]]);
  return {
    session: event.sessionId,
    id: event.queueId,
    messageId: event.messageId,
    account: event.account,
    ...('recipients' in event ? { recipients: event.recipientCount } : { recipient: event.recipient }),
    ...Object.fromEntries(own),
    ...(event.kind === 'bounced' ? { diagnostic: event.diagnostic?.slice(0, loggedReply) } : {}),
  };
}

/** Writes the line of an event. */
export function logEvent(log: Logger, event: EventFacts): void {
  if (event.kind === 'refused') return log.info(refusedLine(event), refusedTexts[event.stage]);
  if (event.kind === 'shadowed')
    return log.info({ ...refusedLine(event), shadow: true, wouldPass: wouldPass(event) }, 'shadowed');
  if (event.kind === 'webhook_disabled') {
    const { sessionId: session, account, url, reason } = event;
    return log.warn({ session, account, url, reason }, 'webhook disabled');
  }
  const isOwn = isOfWord(event, 'logged', 'own');
  const line = !isOwn ? messageLine(event) : event.kind === 'accepted' ? acceptedLine(event) : outcomeLine(event);
  log[eventKinds[event.kind].level](line, event.kind);
}
