// GET .../email/sending/messages and .../messages/{id}: messages with what became of them, without their bodies (D53).

import { Type } from 'typebox';
import { comparableMailbox } from '../../../mail/address/path.ts';
import { bareId } from '../../../mail/message-ids.ts';
import type { EventSearch, EventStore } from '../../../spool/events/event-store.ts';
import type { MailEvent } from '../../../spool/events/mail-event.ts';
import {
  countStates,
  eventJson,
  type HistoryState,
  historyOf,
  historyStates,
  kindsThatLeadTo,
  type MessageHistory,
  type RecipientHistory,
} from '../../../spool/events/message-history.ts';
import { component, endpoint, endpointsOf } from '../../http/endpoint.ts';
import { refusal, succeedWithPage } from '../../http/envelope.ts';
import type { V4Plugin } from '../../http/v4-app.ts';
import { closed, faultless, isoTime, isoTimeOrNull, mailPlace, textOrNull, time, timeOrNull } from '../schemas.ts';
import {
  addressParameter,
  eventSchema,
  messageParameter,
  pageParameters,
  queueIdOf,
  readPage,
} from './event-endpoints.ts';

/** Which messages of an account are wanted; all that is named must hold. The newest come first. */
interface MessageQuery extends Omit<EventSearch, 'order' | 'kinds'> {
  /** With a recipient in this state; where a recipient is named too, that one. The times are those of the acceptance. */
  readonly state?: HistoryState | undefined;
}

const eventsOfMessage = 2000;
/** Events that are read for one page of messages, after which it ends early. */
const eventsOfPage = 10_000;
const readAtOnce = 500;

/** Reads what became of an account's message; undefined where nothing is known. `isWhole` is false where it has more events. */
export async function readHistory(
  events: Pick<EventStore, 'read'>,
  { account, message }: { readonly account: string; readonly message: string },
): Promise<{ readonly history: MessageHistory; readonly isWhole: boolean; readonly events: number } | undefined> {
  const found: MailEvent[] = [];
  let isWhole = false;
  for (let after = 0; !isWhole && found.length < eventsOfMessage; ) {
    const page = await events.read({ after, limit: readAtOnce, account, message });
    for (const event of page.events) found.push(event);
    after = page.next;
    isWhole = !page.hasMore || page.events.length === 0;
  }
  const history = historyOf(message, found);
  return history && { history, isWhole, events: found.length };
}

/** Whether a message is one of those wanted; the index has seen to the rest. */
function isWanted(history: MessageHistory, { state, sender, recipient, since, until }: MessageQuery): boolean {
  const { accepted, recipients } = history;
  const at = accepted?.at ?? history.last.at;
  if (at < (since ?? Number.NEGATIVE_INFINITY) || at >= (until ?? Number.POSITIVE_INFINITY)) return false;
  if (sender !== undefined && comparableMailbox(accepted?.senderPath ?? '') !== comparableMailbox(sender)) return false;
  const wanted = recipient === undefined ? undefined : comparableMailbox(recipient);
  const fits = recipients.filter(({ address }) => wanted === undefined || comparableMailbox(address) === wanted);
  return fits.length > 0 && (state === undefined || fits.some((one) => one.state === state));
}

/** The search for the events that lead to the messages, each message by one of them. */
function leading(query: MessageQuery): EventSearch {
  const { account, limit, cursor, message, recipient, sender, clientMessageId, state, since, until } = query;
  const isNamed = [message, recipient, sender, clientMessageId].some((one) => one !== undefined);
  const byOutcome = state !== undefined && state !== 'queued' && !isNamed;
  return {
    ...{ account, limit, cursor, message, order: 'newest', since },
    kinds: byOutcome ? kindsThatLeadTo(state) : ['accepted'],
    // An outcome comes later than the acceptance, which the time is about.
    ...(byOutcome ? {} : { recipient, sender, clientMessageId, until }),
  };
}

/** Finds messages; a page is bounded by what it reads. @param show makes of each what the page keeps, so that its events need not stay */
async function findMessages<T>(
  events: Pick<EventStore, 'read' | 'search'>,
  query: MessageQuery,
  show: (history: MessageHistory) => T,
): Promise<{ readonly messages: readonly T[]; readonly next?: number | undefined }> {
  const search = leading(query);
  const page = await events.search(search);
  const messages: T[] = [];
  let read = 0;
  for (const event of page.events) {
    if (!('queueId' in event)) continue;
    const found = await readHistory(events, { account: query.account, message: event.queueId });
    if (!found) continue;
    read += found.events;
    const leads = found.history.recipients
      .flatMap((one) => one.events)
      .filter(({ kind }) => search.kinds?.includes(kind));
    // Of several events that lead to a message, the newest alone stands for it.
    const isNewest = event.kind === 'accepted' || leads.every(({ id }) => id <= event.id);
    if (isNewest && isWanted(found.history, query)) messages.push(show(found.history));
    if (read >= eventsOfPage && event !== page.events.at(-1)) return { messages, next: event.id };
  }
  return { messages, next: page.hasMore ? page.next : undefined };
}

const listedRecipients = 20;

const state = Type.Enum([...historyStates], { want: `one of ${historyStates.join(', ')}` });

const message = component('Message', {
  id: Type.String({ description: 'The queue id', example: '0199f3c1-1f0b-7c3a-9d8e-4f2a6b1c0d5e' }),
  message_id: textOrNull(),
  client_message_id: textOrNull("The client's own Message-ID"),
  credential: textOrNull(),
  sender: textOrNull('The reverse-path that the client gave'),
  size: Type.Union([Type.Integer(), Type.Null()], { description: 'Octets as it left' }),
  accepted_at: timeOrNull,
  last_event_at: time,
  recipient_count: Type.Integer(),
  states: Type.Record(Type.String(), Type.Integer(), { description: 'How many recipients are in which state' }),
  recipients: Type.Array(Type.Object({ address: Type.String(), state, since: time }), {
    description: `The first ${listedRecipients} in a list, all where one message is asked for`,
  }),
});

const wholeMessage = component('WholeMessage', {
  ...message.properties,
  recipients: Type.Array(Type.Object({ address: Type.String(), state, since: time, events: Type.Array(eventSchema) })),
  events: Type.Array(eventSchema, { description: 'Those about no single recipient' }),
  complete: Type.Boolean({ description: 'False: it has more events, which the endpoint of events pages through' }),
});

const query = closed({
  ...pageParameters,
  message_id: Type.Optional(messageParameter),
  client_message_id: Type.Optional({ ...messageParameter, description: "The client's own Message-ID" }),
  recipient: Type.Optional(addressParameter('Only messages to this recipient')),
  sender: Type.Optional(addressParameter('Only messages with this reverse-path')),
  state: Type.Optional({
    ...state,
    description: 'Only messages with a recipient (the one that is named) in this state',
  }),
});

/** Shows what became of a recipient, but for its events. */
export function shownRecipient({ address, state, since }: Omit<RecipientHistory, 'events'>) {
  return { address, state, since: isoTime(since) };
}

function shown(history: MessageHistory) {
  const { id, accepted, last, recipients } = history;
  const any = 'messageId' in last ? last : undefined;
  const messageId = accepted?.messageId ?? any?.messageId;
  return {
    id,
    message_id: messageId === undefined ? null : bareId(messageId),
    client_message_id: accepted?.clientMessageId === undefined ? null : bareId(accepted.clientMessageId),
    credential: accepted?.credential ?? any?.credential ?? null,
    sender: accepted?.senderPath ?? any?.senderPath ?? null,
    size: accepted?.sizeAsSent ?? null,
    accepted_at: isoTimeOrNull(accepted?.at),
    last_event_at: isoTime(last.at),
    recipient_count: Math.max(accepted?.recipientCount ?? 0, recipients.length),
    states: countStates(history),
    recipients: recipients.slice(0, listedRecipients).map(shownRecipient),
  };
}

interface Parts {
  readonly events: Pick<EventStore, 'read' | 'search'>;
}

const listMessages = endpoint({
  at: 'GET',
  operationId: 'listMessages',
  summary: 'Search messages, the newest first',
  description:
    'Those that wait and those that have ended, for as long as their events are kept. A page may have few messages or none while the cursor leads on.',
  query,
  result: Type.Array(message),
  async answer({ account, query: asked, inTurn, reply }, { events }: Parts) {
    const { message_id: messageId, client_message_id: clientMessageId, recipient, sender, state } = asked;
    const page = faultless((faults) => readPage(asked, faults));
    const wish = {
      ...page,
      ...{ account: account.name, clientMessageId, recipient, sender, state },
      message: messageId === undefined ? undefined : queueIdOf(messageId),
    };
    const found = await inTurn(() => findMessages(events, wish, shown));
    return succeedWithPage(reply, found.messages, { limit: page.limit, next: found.next });
  },
});

const getMessage = endpoint({
  at: 'GET /:id',
  operationId: 'getMessage',
  summary: 'Tell what became of one message',
  params: Type.Object({ id: messageParameter }),
  result: wholeMessage,
  async answer({ account, params: { id }, inTurn }, { events }: Parts) {
    const about = { account: account.name, message: queueIdOf(id) };
    const found = await inTurn(() => readHistory(events, about));
    const head = found && shown(found.history);
    const isMeant = !id.includes('@') || head?.message_id === bareId(id);
    if (!found || !head || !isMeant) {
      throw refusal('E_NOT_FOUND', 'The account has no such message, or its events are gone');
    }
    const { recipients, common: others } = found.history;
    return {
      ...head,
      recipients: recipients.map(({ events: own, ...recipient }) => ({
        ...shownRecipient(recipient),
        events: own.map(eventJson),
      })),
      events: others.map(eventJson),
      complete: found.isWhole,
    };
  },
});

/** The endpoints of messages. */
export function messageEndpoints(parts: Parts): V4Plugin {
  return endpointsOf(mailPlace('messages', 'Events', 'email:events'), parts, [listMessages, getMessage]);
}
