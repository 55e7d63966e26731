// What is known of a message that a report is about, read from the events: the spool forgets it once it is delivered.

import { RecentMap } from '../../base/recent-map.ts';
import { comparableMailbox } from '../../mail/address/path.ts';
import type { EventStore } from '../../spool/events/event-store.ts';
import type { BouncedEvent, ComplainedEvent, MailEvent, ReturnEventBase } from '../../spool/events/mail-event.ts';

type ReturnedFacts = Omit<ReturnEventBase, 'at' | 'reportedBy'>;
type MessageFacts = Omit<ReturnedFacts, 'acceptedAt'>;

/** Takes out of an event what all events of its message share. */
export function messageFacts(event: MessageFacts): MessageFacts {
  const { account, credential, sessionId, via, clientAddress, helo, senderPath, queueId, messageId } = event;
  return { account, credential, sessionId, via, clientAddress, helo, senderPath, queueId, messageId };
}

/** A message and what came back of it. */
export interface KnownMessage {
  readonly facts: ReturnedFacts;
  /** Recipients by their comparable spelling, each as the message has it. */
  readonly recipients: ReadonlyMap<string, string>;
  /** All recipients, also those that the events do not name. */
  readonly recipientCount: number;
  /** What has come back, by `returnKey`. */
  readonly returned: Set<string>;
}

/** What may come back once of a recipient: a bounce of each class, and a complaint. */
export function returnKey(
  event: Pick<BouncedEvent, 'kind' | 'bounceClass' | 'recipient'> | Pick<ComplainedEvent, 'kind' | 'recipient'>,
): string {
  const what = event.kind === 'bounced' ? event.bounceClass : event.kind;
  return `${what} ${comparableMailbox(event.recipient ?? '')}`;
}

/** Finds a message by its id in the spool. @returns undefined where no event tells of its acceptance */
export type FindMessage = (queueId: string) => Promise<KnownMessage | undefined>;

const readAtOnce = 500;
/** Events read at most for one message: of a thousand recipients with some attempts each. */
const mostEvents = 20_000;
/** Messages remembered, and for how long, in milliseconds: of one message to many, many reports come at once. */
const rememberedMessages = 100;
const rememberedMs = 5000;

/** Makes the search. @param events where events are read @param now milliseconds of a clock that is never set */
export function createFindMessage(events: Pick<EventStore, 'read'>, now: () => number): FindMessage {
  const remembered = new RecentMap<string, { readonly message: KnownMessage; readonly at: number }>(rememberedMessages);
  return async (queueId) => {
    const last = remembered.get(queueId);
    if (last && now() - last.at < rememberedMs) return last.message;
    remembered.delete(queueId);
    const message = await readMessage(events, queueId);
    if (message) remembered.set(queueId, { message, at: now() });
    return message;
  };
}

type Building = KnownMessage & { readonly recipients: Map<string, string> };

async function readMessage(events: Pick<EventStore, 'read'>, message: string): Promise<KnownMessage | undefined> {
  let known: Building | undefined;
  for (let after = 0, read = 0, hasMore = true; hasMore && read < mostEvents; ) {
    const page = await events.read({ after, limit: readAtOnce, message });
    for (const event of page.events) known = withEvent(known, event);
    read += page.events.length;
    hasMore = page.hasMore && page.events.length > 0;
    after = page.next;
  }
  return known;
}

function withEvent(known: Building | undefined, event: MailEvent): Building | undefined {
  if (event.kind === 'accepted') {
    return {
      facts: { ...messageFacts(event), acceptedAt: event.at },
      recipients: new Map(event.recipients.map((recipient) => [comparableMailbox(recipient), recipient])),
      recipientCount: event.recipientCount,
      returned: new Set(),
    };
  }
  if (!known) return undefined;
  if (event.kind === 'bounced' || event.kind === 'complained') known.returned.add(returnKey(event));
  // The acceptance names as many recipients as fit; the outcomes name the others.
  else if (event.kind === 'delivered' || event.kind === 'deferred' || event.kind === 'failed') {
    known.recipients.set(comparableMailbox(event.recipient), event.recipient);
  }
  return known;
}
