// GET .../webhooks/{id}/deliveries and POST .../webhooks/{id}/replay (D54).

import { Type } from 'typebox';
import type { EventStore } from '../../events/event-store.ts';
import { Refusal, succeed } from '../../http/envelope.ts';
import { submitterOf, type V4App } from '../../http/v4-app.ts';
import { replayRange } from '../../webhooks/replay-range.ts';
import type { DeliveryRecord } from '../../webhooks/webhook.ts';
import type { WebhookStore } from '../../webhooks/webhook-store.ts';
import { cursorAbout, entryPath, isoTime, pageInfo, perPage, readTime, time } from '../schemas.ts';
import { noWebhook, webhookRoute } from './webhook-route.ts';

const { path, reads, edits, tags } = webhookRoute;

/** What these endpoints need. */
export interface DeliveryEndpointsParts {
  readonly store: Pick<WebhookStore, 'find' | 'deliveries' | 'replay'>;
  readonly events: Pick<EventStore, 'newest' | 'search'>;
  readonly refresh: () => Promise<void>;
}

const delivery = Type.Object(
  {
    id: Type.String({ example: '17' }),
    event: Type.String({ description: '`id` of the event' }),
    kind: Type.String(),
    attempt: Type.Integer(),
    at: time,
    duration_ms: Type.Integer(),
    result: Type.Enum(['delivered', 'failed', 'given_up'], { description: '`failed` is tried again' }),
    status: Type.Union([Type.Integer(), Type.Null()]),
    error: Type.Union([Type.String(), Type.Null()]),
  },
  { title: 'WebhookDelivery' },
);

const usualDeliveries = 100;

const page = Type.Object(
  {
    cursor: Type.Optional(
      Type.String({ pattern: '^[0-9]{1,15}$', want: 'the cursor of an earlier answer', description: cursorAbout }),
    ),
    per_page: perPage(1000, usualDeliveries),
  },
  { additionalProperties: false },
);

const replay = Type.Object(
  {
    event: Type.Optional(Type.String({ pattern: '^[1-9][0-9]{0,14}$', want: 'the id of an event' })),
    since: Type.Optional(Type.String({ description: 'All events from this time on', example: '2026-11-21T12:00:00Z' })),
    until: Type.Optional(Type.String({ description: 'Before this time; absent: until now' })),
  },
  { additionalProperties: false, title: 'Replay' },
);

function shown({ id, event, kind, attempt, at, durationMs, result, status, error }: DeliveryRecord) {
  return {
    ...{ id: String(id), event: String(event), kind, attempt, at: isoTime(at), duration_ms: durationMs, result },
    ...{ status: status ?? null, error: error ?? null },
  };
}

function listDeliveries(app: V4App, { store }: DeliveryEndpointsParts): void {
  app.get(
    `${path}/:id/deliveries`,
    {
      config: reads,
      schema: {
        operationId: 'listWebhookDeliveries',
        summary: 'List the last requests of a webhook, the newest first',
        description: 'The last 1,000 of at most 30 days.',
        tags,
        params: entryPath,
        querystring: page,
        response: { 200: Type.Array(delivery) },
      },
    },
    async (request, reply) => {
      const { id } = request.params;
      if (!(await store.find(submitterOf(request).account.id, id))) throw noWebhook();
      const { cursor, per_page: asked = usualDeliveries } = request.query;
      const limit = Number(asked);
      const found = await store.deliveries(id, { limit, before: cursor === undefined ? undefined : Number(cursor) });
      const info = pageInfo(found.deliveries.length, limit, found.next);
      return succeed(reply, found.deliveries.map(shown), { result_info: info });
    },
  );
}

function replayEvents(app: V4App, { store, events, refresh }: DeliveryEndpointsParts): void {
  app.post(
    `${path}/:id/replay`,
    {
      config: edits,
      schema: {
        operationId: 'replayWebhook',
        summary: 'Send events once more',
        description:
          'One event, or all of a time, of the kinds that the webhook is told of. They have the `webhook-id` that they had before. A replay under way is widened to hold both.',
        tags,
        params: entryPath,
        body: replay,
        response: { 200: Type.Object({ after: Type.String(), until: Type.String() }) },
      },
    },
    async (request, reply) => {
      const { account } = submitterOf(request);
      const { id } = request.params;
      if (!(await store.find(account.id, id))) throw noWebhook();
      const { event, since, until } = request.body;
      const from = since === undefined ? undefined : readTime(since, 'since');
      const to = until === undefined ? undefined : readTime(until, 'until');
      const faults = [from, to].filter((read) => typeof read === 'object');
      if ((event === undefined) === (since === undefined)) {
        faults.push({ token: 'E_VALIDATION_ERROR', message: 'want one of event and since' });
      }
      if (faults.length > 0) throw new Refusal(faults);
      const range = await replayRange(events, account.name, {
        ...(event === undefined ? {} : { event: Number(event) }),
        ...(typeof from === 'number' ? { since: from } : {}),
        ...(typeof to === 'number' ? { until: to } : {}),
      });
      if (!range) throw new Refusal([{ token: 'E_NOT_FOUND', message: 'There is no such event' }]);
      if (!(await store.replay(account.id, id, range))) throw noWebhook();
      await refresh();
      return succeed(reply, { after: String(range.after), until: String(range.until) });
    },
  );
}

/** Registers the endpoints. */
export function deliveryEndpoints(app: V4App, parts: DeliveryEndpointsParts): void {
  listDeliveries(app, parts);
  replayEvents(app, parts);
}
