// The schemas of the queue's endpoints.

import { type Static, Type } from 'typebox';
import { holdKinds } from '../../../spool/hold.ts';
import { component } from '../../http/endpoint.ts';
import { closed, cursorAbout, perPage, textOrNull, time, timeOrNull } from '../schemas.ts';
import { queueActions } from './queue-actions.ts';

const hold = Type.Object({
  kind: Type.Enum([...holdKinds]),
  since: time,
  by: textOrNull(),
  why: textOrNull(),
  releasable: Type.Boolean({ description: 'Whether who asks can release it here' }),
});

/** A group of the queue. */
export const group = component('QueueGroup', {
  account: Type.String(),
  destination: textOrNull('A recipient domain; null where all domains of the route wait together'),
  route: textOrNull('Null for mail that was set aside by a hold before it had a route'),
  depth: Type.Integer({ description: 'Recipients that wait, those held among them' }),
  held: Type.Integer(),
  hold: {
    ...Type.Union([hold, Type.Null()]),
    description: 'The rule that holds all of them and what comes later; it also stands here while nothing waits',
  },
  oldest_at: { ...timeOrNull, description: 'Null where nothing waits' },
  state: {
    ...textOrNull(),
    description: '`served`, why the next hop gets less, or what mail waits for; null where this process has not met it',
  },
  next_at: { ...timeOrNull, description: 'When the next hop is tried again' },
  last_reply: textOrNull('What the next hop said last; for the scope admin alone'),
});

const state = Type.Enum(['queued', 'deferred', 'held', 'failed'], { want: 'queued, deferred, held or failed' });

const waiting = {
  state,
  attempts: Type.Integer(),
  next_at: timeOrNull,
  last_reply: textOrNull(),
  hold: Type.Union([hold, Type.Null()]),
};

/** A message of the queue. */
export const message = component('QueuedMessage', {
  id: Type.String({ description: 'Its id in the queue and in the journal' }),
  account: Type.String(),
  sender: Type.String({ description: 'Empty for a report' }),
  recipient: Type.String({ description: 'The first one that is selected; the members beside it are about it' }),
  destination: Type.String(),
  route: Type.String(),
  ...waiting,
  recipient_count: Type.Integer({ description: 'Recipients that are selected' }),
  states: Type.Object(
    { queued: Type.Integer(), deferred: Type.Integer(), held: Type.Integer(), failed: Type.Integer() },
    { description: 'How many of them are in each state' },
  ),
  recipients: Type.Array(Type.Object({ address: Type.String(), ...waiting })),
  accepted_at: time,
  expires_at: time,
  size: Type.Integer({ description: 'Octets as it leaves' }),
});

const id = Type.String({ pattern: '^[0-9A-Fa-f-]{36}$', want: 'the id of a message' });

const selection = {
  destination: Type.Optional(Type.String({ description: 'Only recipients at exactly this domain' })),
  route: Type.Optional(
    Type.String({ description: 'Only recipients that take this route by the configuration as it is now' }),
  ),
  state: Type.Optional(state),
  search: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 200,
      want: '1 to 200 characters',
      description: 'Part of an id, a sender or a recipient',
    }),
  ),
};

/** Messages of a page where nobody asks for another number. */
export const usualMessages = 50;

/** What a selection is read from. */
export type SelectionQuery = {
  readonly [Name in keyof typeof selection]?: Static<(typeof selection)[Name]>;
};

/** The parameters of a list of messages. */
export const messagesQuery = closed({
  ...selection,
  id: Type.Optional({
    ...id,
    description: 'Only the message with this id; the list is empty where it waits no more',
  }),
  cursor: Type.Optional({ ...id, description: cursorAbout }),
  per_page: perPage(100, usualMessages),
});

/** The body of an action. */
export const action = Type.Object(
  {
    action: Type.Enum([...queueActions], { want: `one of ${queueActions.join(', ')}` }),
    ids: Type.Optional(Type.Array(id, { minItems: 1, maxItems: 500, want: 'a list of 1 to 500 ids of messages' })),
    filter: Type.Optional(
      Type.Object(selection, {
        additionalProperties: false,
        description: 'An empty one is everything that waits; what has failed is taken where `state` is `failed`',
      }),
    ),
    state: Type.Optional({
      ...state,
      description:
        'Beside `ids`: recipients in this state alone. Absent: `retry` and `hold` take what waits and is not held',
    }),
    after: Type.Optional({ ...id, description: '`next` of the answer before' }),
  },
  {
    additionalProperties: false,
    title: 'QueueAction',
    examples: [{ action: 'retry', filter: { destination: 'example.net' } }],
  },
);

/** What an action did. */
export const done = component('QueueActionDone', {
  action: Type.String(),
  done: Type.Integer({ description: 'Messages that it was done to; a rule counts as one' }),
  recipients: Type.Integer({ description: 'Recipients that it was done to' }),
  rule: Type.Boolean({ description: 'Whether a rule was made or lifted, which also holds what comes later' }),
  skipped: Type.Integer({ description: 'Messages that are gone, or to which it does not apply' }),
  next: textOrNull('Where a filter goes on'),
});
