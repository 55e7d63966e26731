// GET .../email/sending/events: what happened to an account's mail (D53).

import { Type } from 'typebox';
import { type EventJson, eventJson } from '../../events/event-json.ts';
import type { EventStore } from '../../events/event-store.ts';
import { eventKinds, isEventKind } from '../../events/mail-event.ts';
import { Refusal, succeed } from '../../http/envelope.ts';
import { submitterOf, type V4Plugin } from '../../http/v4-app.ts';
import { accountPath, pageInfo, time } from '../schemas.ts';
import { addressParameter, messageParameter, queueIdOf } from './message-id.ts';
import { pageParameters, readPage, readWords } from './paging.ts';
import { createSearchTurns } from './search-turns.ts';

const kinds = Object.keys(eventKinds);

/** An event in answers. */
export const eventSchema = Type.Object(
  {
    id: Type.String({ description: 'A later event has a greater number', example: '4711' }),
    kind: Type.String({ description: `One of ${kinds.join(', ')}`, example: 'delivered' }),
    at: time,
    account: Type.String({ description: 'Name of the account', example: 'dev' }),
    credential: Type.Optional(Type.String({ example: 'default' })),
    session_id: Type.Optional(Type.String({ description: 'The `session` of the log lines' })),
    queue_id: Type.Optional(Type.String({ description: 'The message; `id` of the message endpoints' })),
    message_id: Type.Optional(Type.String({ description: 'Message-ID as it left, without brackets' })),
    recipient: Type.Optional(Type.String({ description: 'Whom the event is about', example: 'you@example.net' })),
    reply: Type.Optional(
      Type.Object(
        {
          code: Type.Integer({ example: 250 }),
          enhanced: Type.Optional(Type.String()),
          text: Type.Optional(Type.String()),
        },
        { description: 'What the next hop answered, or Postern' },
      ),
    ),
  },
  { title: 'MailEvent', additionalProperties: true, description: 'Further members depend on the kind' },
);

const query = Type.Object(
  {
    ...pageParameters,
    kind: Type.Optional(
      Type.String({ description: `Only these, separated by commas: ${kinds.join(', ')}`, example: 'failed,deferred' }),
    ),
    recipient: Type.Optional(addressParameter('Only events that name this recipient')),
    message_id: Type.Optional(messageParameter),
    order: Type.Optional(Type.Enum(['newest', 'oldest'], { description: 'Which come first; newest where absent' })),
  },
  { additionalProperties: false },
);

/** The endpoint of events. */
export function eventEndpoints({ events }: { readonly events: Pick<EventStore, 'search'> }): V4Plugin {
  const inTurn = createSearchTurns();
  return (app) => {
    app.get(
      '/accounts/:account_id/email/sending/events',
      {
        config: { scope: ['email:events', 'console:read'] },
        schema: {
          operationId: 'listEvents',
          summary: 'List what happened to mail',
          description:
            '`result_info.cursor` leads to the next page. It is null where there is none, but never with `order=oldest`: who asks with it again later gets what has come since. A page may have few events or none while the cursor leads on.',
          tags: ['Events'],
          params: accountPath,
          querystring: query,
          response: { 200: Type.Array(eventSchema) },
        },
      },
      async (request, reply) => {
        const { kind, recipient, message_id: messageId, order = 'newest', ...paging } = request.query;
        const page = readPage(paging);
        const wanted = readWords(kind, isEventKind, { name: 'kind', known: kinds });
        const faults = [...('limit' in page ? [] : page), ...(wanted && 'message' in wanted ? [wanted] : [])];
        if (!('limit' in page) || (wanted && 'message' in wanted)) throw new Refusal(faults);
        const { account } = submitterOf(request);
        const query = {
          ...{ ...page, account: account.name, order, kinds: wanted, recipient },
          message: messageId === undefined ? undefined : queueIdOf(messageId),
        };
        const found = await inTurn(account.name, () => events.search(query));
        const next = found.hasMore || order === 'oldest' ? found.next : undefined;
        const shown: EventJson[] = found.events.map(eventJson);
        return succeed(reply, shown, { result_info: pageInfo(shown.length, page.limit, next) });
      },
    );
  };
}
