// GET .../webhooks/{id}/deliveries and POST .../webhooks/{id}/replay (D54).

import { Type } from 'typebox';
import type { DeliveryRecord } from '../../../delivery/webhooks/webhook.ts';
import { replayRange, type WebhookStore } from '../../../delivery/webhooks/webhook-store.ts';
import type { EventStore } from '../../../spool/events/event-store.ts';
import { bodyOf, component, type Register } from '../../http/endpoint.ts';
import { type Fault, Refusal, refusal, succeedWithPage } from '../../http/envelope.ts';
import { closed, entryPath, isoTime, numberCursor, perPage, readTime, textOrNull, time } from '../schemas.ts';

interface DeliveryEndpointsParts {
  readonly store: Pick<WebhookStore, 'find' | 'deliveries' | 'replay'>;
  readonly events: Pick<EventStore, 'newest' | 'search'>;
  readonly refresh: () => Promise<void>;
}

/** A request to a webhook in answers. */
export const delivery = component('WebhookDelivery', {
  id: Type.String({ example: '17' }),
  event: Type.String({ description: '`id` of the event' }),
  kind: Type.String(),
  attempt: Type.Integer(),
  at: time,
  duration_ms: Type.Integer(),
  result: Type.Enum(['delivered', 'failed', 'given_up'], { description: '`failed` is tried again' }),
  status: Type.Union([Type.Integer(), Type.Null()]),
  error: textOrNull(),
});

const usualDeliveries = 100;

const replay = bodyOf('Replay', {
  event: Type.Optional(Type.String({ pattern: '^[1-9][0-9]{0,14}$', want: 'the id of an event' })),
  since: Type.Optional(Type.String({ description: 'All events from this time on', example: '2026-11-21T12:00:00Z' })),
  until: Type.Optional(Type.String({ description: 'Before this time; absent: until now' })),
});

/** Shows a request to a webhook. */
export function deliveryJson({ id, event, kind, attempt, at, durationMs, result, status, error }: DeliveryRecord) {
  return {
    ...{ id: String(id), event: String(event), kind, attempt, at: isoTime(at), duration_ms: durationMs, result },
    ...{ status: status ?? null, error: error ?? null },
  };
}

/** The answer where nothing of the account's has this id. */
export function noWebhook(): Refusal {
  return refusal('E_NOT_FOUND', 'The account has no such webhook');
}

function listDeliveries(register: Register, { store }: DeliveryEndpointsParts): void {
  register(
    'GET /:id/deliveries',
    {
      operationId: 'listWebhookDeliveries',
      summary: 'List the last requests of a webhook, the newest first',
      description: 'The last 1,000 of at most 30 days.',
      params: entryPath,
      query: closed({ cursor: numberCursor, per_page: perPage(1000, usualDeliveries) }),
      result: Type.Array(delivery),
    },
    async ({ account, params, query, reply }) => {
      if (!(await store.find(account.id, params.id))) throw noWebhook();
      const { cursor, per_page: asked = usualDeliveries } = query;
      const limit = Number(asked);
      const found = await store.deliveries(params.id, {
        limit,
        before: cursor === undefined ? undefined : Number(cursor),
      });
      return succeedWithPage(reply, found.deliveries.map(deliveryJson), { limit, next: found.next });
    },
  );
}

function replayEvents(register: Register, { store, events, refresh }: DeliveryEndpointsParts): void {
  register(
    'POST /:id/replay',
    {
      operationId: 'replayWebhook',
      summary: 'Send events once more',
      description:
        'One event, or all of a time, of the kinds that the webhook is told of. They have the `webhook-id` that they had before. A replay under way is widened to hold both.',
      params: entryPath,
      body: replay,
      result: Type.Object({ after: Type.String(), until: Type.String() }),
    },
    async ({ account, params: { id }, body: { event, since, until } }) => {
      if (!(await store.find(account.id, id))) throw noWebhook();
      const faults: Fault[] = [];
      const from = readTime(since, 'since', { faults, isOfBody: true });
      const to = readTime(until, 'until', { faults, isOfBody: true });
      if ((event === undefined) === (since === undefined)) {
        faults.push({ token: 'E_VALIDATION_ERROR', message: 'want one of event and since' });
      }
      if (faults.length > 0) throw new Refusal(faults);
      const one = event === undefined ? undefined : Number(event);
      const range = await replayRange(events, account.name, { event: one, since: from, until: to });
      if (!range) throw refusal('E_NOT_FOUND', 'There is no such event');
      if (!(await store.replay(account.id, id, range))) throw noWebhook();
      await refresh();
      return { after: String(range.after), until: String(range.until) };
    },
  );
}

/** Registers the endpoints. */
export function deliveryEndpoints(register: Register, parts: DeliveryEndpointsParts): void {
  listDeliveries(register, parts);
  replayEvents(register, parts);
}
