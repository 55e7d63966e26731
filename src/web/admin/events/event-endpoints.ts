// GET .../email/sending/events: what happened to an account's mail (D53).

import { Type } from 'typebox';
import { createKeyedQueues } from '../../../base/keyed-queues.ts';
import { type EventJson, eventJson } from '../../../spool/events/event-json.ts';
import type { EventStore } from '../../../spool/events/event-store.ts';
import { type EventKind, isEventKind, kindNames } from '../../../spool/events/mail-event.ts';
import { endpointsAt } from '../../http/endpoint.ts';
import { type Fault, succeedWithPage } from '../../http/envelope.ts';
import type { V4Plugin } from '../../http/v4-app.ts';
import { closed, faultless, mailPlace, time } from '../schemas.ts';
import { addressParameter, messageParameter, pageParameters, queueIdOf, readPage } from './parameters.ts';

/** An event in answers. */
export const eventSchema = Type.Object(
  {
    id: Type.String({ description: 'A later event has a greater number', example: '4711' }),
    kind: Type.String({ description: `One of ${kindNames.join(', ')}`, example: 'delivered' }),
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

const query = closed({
  ...pageParameters,
  kind: Type.Optional(
    Type.String({
      description: `Only these, separated by commas: ${kindNames.join(', ')}`,
      example: 'failed,deferred',
    }),
  ),
  recipient: Type.Optional(addressParameter('Only events that name this recipient')),
  message_id: Type.Optional(messageParameter),
  order: Type.Optional(Type.Enum(['newest', 'oldest'], { description: 'Which come first; newest where absent' })),
});

/** Splits `a,b` into kinds. @param faults gets the first that is none */
function readKinds(text: string | undefined, faults: Fault[]): readonly EventKind[] | undefined {
  const words = text?.split(',').map((word) => word.trim());
  const unknown = words?.find((word) => !isEventKind(word));
  if (unknown === undefined) return words?.filter(isEventKind);
  const message = `kind must be some of ${kindNames.join(', ')}, got ${JSON.stringify(unknown.slice(0, 60))}`;
  faults.push({ token: 'E_VALIDATION_ERROR', message });
  return undefined;
}

/** The endpoint of events. */
export function eventEndpoints({ events }: { readonly events: Pick<EventStore, 'search'> }): V4Plugin {
  const inAccountQueue = createKeyedQueues();
  return (app) =>
    endpointsAt(app, mailPlace('events', 'Events', 'email:events'))(
      'GET',
      {
        operationId: 'listEvents',
        summary: 'List what happened to mail',
        description:
          '`result_info.cursor` leads to the next page. It is null where there is none, but never with `order=oldest`: who asks with it again later gets what has come since. A page may have few events or none while the cursor leads on.',
        query,
        result: Type.Array(eventSchema),
      },
      async ({ account, query, reply }) => {
        const { kind, recipient, message_id: messageId, order = 'newest', ...paging } = query;
        const { kinds, ...page } = faultless((faults) => ({
          ...readPage(paging, faults),
          kinds: readKinds(kind, faults),
        }));
        const search = {
          ...{ ...page, account: account.name, order, kinds, recipient },
          message: messageId === undefined ? undefined : queueIdOf(messageId),
        };
        const found = await inAccountQueue(account.name, () => events.search(search));
        const next = found.hasMore || order === 'oldest' ? found.next : undefined;
        const shown: EventJson[] = found.events.map(eventJson);
        return succeedWithPage(reply, shown, { limit: page.limit, next });
      },
    );
}
