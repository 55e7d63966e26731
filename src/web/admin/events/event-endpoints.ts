// GET .../email/sending/events: what happened to an account's mail (D53).

import { Type } from 'typebox';
import { bareId } from '../../../mail/message-ids.ts';
import type { EventStore } from '../../../spool/events/event-store.ts';
import { type EventKind, isEventKind, kindNames } from '../../../spool/events/mail-event.ts';
import { type EventJson, eventJson } from '../../../spool/events/message-history.ts';
import { endpoint, endpointsOf } from '../../http/endpoint.ts';
import { type Fault, succeedWithPage } from '../../http/envelope.ts';
import type { V4Plugin } from '../../http/v4-app.ts';
import { closed, faultless, mailPlace, numberCursor, perPage, readTime, time, timeParameter } from '../schemas.ts';

/** A query parameter that names a message. */
export const messageParameter = Type.String({
  minLength: 1,
  maxLength: 998,
  want: 'a Message-ID or the id of a message',
  description: 'Message-ID as it left, with or without brackets, or the id of the message',
  example: '0199f3c1-1f0b-7c3a-9d8e-4f2a6b1c0d5e@platform.example',
});

/** A query parameter that is an address. */
export function addressParameter(description: string) {
  return Type.String({
    minLength: 1,
    maxLength: 320,
    want: 'an address such as you@example.net',
    description: `${description}, in any spelling`,
    example: 'you@example.net',
  });
}

/** The id in the spool of a message that is named by that id or by its Message-ID, whose left side the id is (D23). */
export function queueIdOf(text: string): string {
  const [id = ''] = bareId(text).split('@', 1);
  return id.toLowerCase();
}

const defaultPage = 100;

/** The parameters. */
export const pageParameters = {
  cursor: numberCursor,
  per_page: perPage(1000, defaultPage),
  since: timeParameter('Only from this time on (RFC 3339)'),
  until: timeParameter('Only before this time (RFC 3339)'),
};

/** Reads the parameters. @param faults gets what is wrong with the times */
export function readPage(query: Partial<Record<keyof typeof pageParameters, string>>, faults: Fault[]) {
  return {
    limit: Number(query.per_page ?? defaultPage),
    cursor: query.cursor === undefined ? undefined : Number(query.cursor),
    since: readTime(query.since, 'since', { faults }),
    until: readTime(query.until, 'until', { faults }),
  };
}

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

interface EventParts {
  readonly events: Pick<EventStore, 'search'>;
}

const listEvents = endpoint({
  at: 'GET',
  operationId: 'listEvents',
  summary: 'List what happened to mail',
  description:
    '`result_info.cursor` leads to the next page. It is null where there is none, but never with `order=oldest`: who asks with it again later gets what has come since. A page may have few events or none while the cursor leads on.',
  query,
  result: Type.Array(eventSchema),
  async answer({ account, query, inTurn, reply }, { events }: EventParts) {
    const { kind, recipient, message_id: messageId, order = 'newest', ...paging } = query;
    const { kinds, ...page } = faultless((faults) => ({
      ...readPage(paging, faults),
      kinds: readKinds(kind, faults),
    }));
    const search = {
      ...{ ...page, account: account.name, order, kinds, recipient },
      message: messageId === undefined ? undefined : queueIdOf(messageId),
    };
    const found = await inTurn(() => events.search(search));
    const next = found.hasMore || order === 'oldest' ? found.next : undefined;
    const shown: EventJson[] = found.events.map(eventJson);
    return succeedWithPage(reply, shown, { limit: page.limit, next });
  },
});

/** The endpoint of events. */
export function eventEndpoints(parts: EventParts): V4Plugin {
  return endpointsOf(mailPlace('events', 'Events', 'email:events'), parts, [listEvents]);
}
