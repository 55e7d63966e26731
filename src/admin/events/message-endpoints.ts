// GET .../email/sending/messages and .../messages/{id}: messages with what became of them, without their bodies (D53).

import { Type } from 'typebox';
import { eventJson } from '../../events/event-json.ts';
import type { EventStore } from '../../events/event-store.ts';
import { countStates, type HistoryState, historyStates, type MessageHistory } from '../../events/message-history.ts';
import { Refusal, succeed } from '../../http/envelope.ts';
import { submitterOf, type V4App, type V4Plugin } from '../../http/v4-app.ts';
import { accountPath, isoTime, pageInfo, time, timeOrNull } from '../schemas.ts';
import { eventSchema } from './event-endpoints.ts';
import { findMessages, readHistory } from './find-messages.ts';
import { addressParameter, bareId, messageParameter, queueIdOf } from './message-id.ts';
import { pageParameters, readPage } from './paging.ts';
import { createSearchTurns, type SearchTurns } from './search-turns.ts';

/** Recipients that a list shows of one message. */
const listedRecipients = 20;

const textOrNull = Type.Union([Type.String(), Type.Null()]);
const state = Type.Enum([...historyStates], { want: `one of ${historyStates.join(', ')}` });

const message = Type.Object(
  {
    id: Type.String({ description: 'The queue id', example: '0199f3c1-1f0b-7c3a-9d8e-4f2a6b1c0d5e' }),
    message_id: textOrNull,
    client_message_id: Type.Union([Type.String(), Type.Null()], { description: "The client's own Message-ID" }),
    credential: textOrNull,
    sender: Type.Union([Type.String(), Type.Null()], { description: 'The reverse-path that the client gave' }),
    size: Type.Union([Type.Integer(), Type.Null()], { description: 'Octets as it left' }),
    accepted_at: timeOrNull,
    last_event_at: time,
    recipient_count: Type.Integer(),
    states: Type.Record(Type.String(), Type.Integer(), { description: 'How many recipients are in which state' }),
    recipients: Type.Array(Type.Object({ address: Type.String(), state, since: time }), {
      description: `The first ${listedRecipients} in a list, all where one message is asked for`,
    }),
  },
  { title: 'Message' },
);

const wholeMessage = Type.Object(
  {
    ...message.properties,
    recipients: Type.Array(
      Type.Object({ address: Type.String(), state, since: time, events: Type.Array(eventSchema) }),
    ),
    events: Type.Array(eventSchema, { description: 'Those about no single recipient' }),
    complete: Type.Boolean({ description: 'False: it has more events, which the endpoint of events pages through' }),
  },
  { title: 'WholeMessage' },
);

const query = Type.Object(
  {
    ...pageParameters,
    message_id: Type.Optional(messageParameter),
    client_message_id: Type.Optional({ ...messageParameter, description: "The client's own Message-ID" }),
    recipient: Type.Optional(addressParameter('Only messages to this recipient')),
    sender: Type.Optional(addressParameter('Only messages with this reverse-path')),
    state: Type.Optional({
      ...state,
      description: 'Only messages with a recipient (the one that is named) in this state',
    }),
  },
  { additionalProperties: false },
);

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
    accepted_at: accepted ? isoTime(accepted.at) : null,
    last_event_at: isoTime(last.at),
    recipient_count: Math.max(accepted?.recipientCount ?? 0, recipients.length),
    states: countStates(history),
    recipients: recipients.slice(0, listedRecipients).map(({ address, state: now, since }) => ({
      ...{ address, state: now },
      since: isoTime(since),
    })),
  };
}

const path = '/accounts/:account_id/email/sending/messages';
const common = { config: { scope: ['email:events', 'console:read'] }, tags: ['Events'] } as const;

interface Parts {
  readonly events: Pick<EventStore, 'read' | 'search'>;
}

interface PartsInTurn extends Parts {
  readonly inTurn: SearchTurns;
}

function listMessages(app: V4App, { events, inTurn }: PartsInTurn): void {
  app.get(
    path,
    {
      config: common.config,
      schema: {
        operationId: 'listMessages',
        summary: 'Search messages, the newest first',
        description:
          'Those that wait and those that have ended, for as long as their events are kept. A page may have few messages or none while the cursor leads on.',
        tags: common.tags,
        params: accountPath,
        querystring: query,
        response: { 200: Type.Array(message) },
      },
    },
    async (request, reply) => {
      const {
        message_id: messageId,
        client_message_id: clientMessageId,
        recipient,
        sender,
        state: wanted,
      } = request.query;
      const page = readPage(request.query);
      if (!('limit' in page)) throw new Refusal(page);
      const { account } = submitterOf(request);
      const wish = {
        ...page,
        ...{ account: account.name, clientMessageId, recipient, sender },
        message: messageId === undefined ? undefined : queueIdOf(messageId),
        state: historyStates.find((one: HistoryState) => one === wanted),
      };
      const found = await inTurn(account.name, () => findMessages(events, wish, shown));
      return succeed(reply, found.messages, { result_info: pageInfo(found.messages.length, page.limit, found.next) });
    },
  );
}

function getMessage(app: V4App, { events, inTurn }: PartsInTurn): void {
  app.get(
    `${path}/:id`,
    {
      config: common.config,
      schema: {
        operationId: 'getMessage',
        summary: 'Tell what became of one message',
        tags: common.tags,
        params: Type.Object({ ...accountPath.properties, id: messageParameter }),
        response: { 200: wholeMessage },
      },
    },
    async (request, reply) => {
      const { account } = submitterOf(request);
      const { id } = request.params;
      const about = { account: account.name, message: queueIdOf(id) };
      const found = await inTurn(account.name, () => readHistory(events, about));
      const head = found && shown(found.history);
      const isMeant = !id.includes('@') || head?.message_id === bareId(id);
      if (!found || !head || !isMeant) {
        throw new Refusal([
          { token: 'E_NOT_FOUND', message: 'The account has no such message, or its events are gone' },
        ]);
      }
      const { recipients, common: others } = found.history;
      return succeed(reply, {
        ...head,
        recipients: recipients.map(({ address, state: now, since, events: own }) => ({
          ...{ address, state: now },
          since: isoTime(since),
          events: own.map(eventJson),
        })),
        events: others.map(eventJson),
        complete: found.isWhole,
      });
    },
  );
}

/** The endpoints of messages. */
export function messageEndpoints(parts: Parts): V4Plugin {
  const inTurn = createSearchTurns();
  return (app) => {
    listMessages(app, { ...parts, inTurn });
    getMessage(app, { ...parts, inTurn });
  };
}
