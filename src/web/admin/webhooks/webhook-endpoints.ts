// .../email/sending/webhooks, their deliveries and replays (D54). Those of the configuration file are shown and not changed.

import { type Static, Type } from 'typebox';
import type { Clock } from '../../../base/clock.ts';
import { createRestingQueues } from '../../../base/keyed-queues.ts';
import type { Logger } from '../../../base/log.ts';
import { makeSecret } from '../../../delivery/webhooks/secret.ts';
import { type DeliveryRecord, type Webhook, webhooksPerAccount } from '../../../delivery/webhooks/webhook.ts';
import { replayRange, type WebhookStore } from '../../../delivery/webhooks/webhook-store.ts';
import type { EventStore } from '../../../spool/events/event-store.ts';
import { type EventKind, isEventKind, toldKinds } from '../../../spool/events/mail-event.ts';
import { type AskedOf, bodyOf, component, endpoint, endpointsOf } from '../../http/endpoint.ts';
import { type Fault, Refusal, refusal, succeedWithPage } from '../../http/envelope.ts';
import type { V4Plugin } from '../../http/v4-app.ts';
import * as schema from '../schemas.ts';

interface WebhookEndpointsParts {
  readonly store: WebhookStore;
  readonly events: Pick<EventStore, 'newest' | 'search'>;
  /** What is wrong with a URL; undefined where nothing is. */
  readonly urlFault: (url: string) => string | undefined;
  readonly refresh: () => Promise<void>;
  readonly clock: Clock;
  readonly log: Logger;
}

/** A request to a webhook in answers. */
export const delivery = component('WebhookDelivery', {
  id: Type.String({ example: '17' }),
  event: Type.String({ description: '`id` of the event' }),
  kind: Type.String(),
  attempt: Type.Integer(),
  at: schema.time,
  duration_ms: Type.Integer(),
  result: Type.Enum(['delivered', 'failed', 'given_up'], { description: '`failed` is tried again' }),
  status: Type.Union([Type.Integer(), Type.Null()]),
  error: schema.textOrNull(),
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
    ...{ id: String(id), event: String(event), kind, attempt, at: schema.isoTime(at), duration_ms: durationMs, result },
    ...{ status: status ?? null, error: error ?? null },
  };
}

function noWebhook(): Refusal {
  return refusal('E_NOT_FOUND', 'The account has no such webhook');
}

type AskedOfOne = Pick<AskedOf<Static<typeof schema.entryPath>>, 'account' | 'params' | 'request'>;

async function webhookOf({ store }: WebhookEndpointsParts, { account, params }: AskedOfOne): Promise<Webhook> {
  const found = await store.find(account.id, params.id);
  if (found) return found;
  throw noWebhook();
}

const listDeliveries = endpoint({
  at: 'GET /:id/deliveries',
  operationId: 'listWebhookDeliveries',
  summary: 'List the last requests of a webhook, the newest first',
  description: 'The last 1,000 of at most 30 days.',
  params: schema.entryPath,
  query: schema.closed({ cursor: schema.numberCursor, per_page: schema.perPage(1000, usualDeliveries) }),
  result: Type.Array(delivery),
  async answer(asked, parts: WebhookEndpointsParts) {
    const { id } = await webhookOf(parts, asked);
    const { cursor, per_page: perPageText = usualDeliveries } = asked.query;
    const page = { limit: Number(perPageText), before: cursor === undefined ? undefined : Number(cursor) };
    const { deliveries, next } = await parts.store.deliveries(id, page);
    return succeedWithPage(asked.reply, deliveries.map(deliveryJson), { limit: page.limit, next });
  },
});

const replayEvents = endpoint({
  at: 'POST /:id/replay',
  operationId: 'replayWebhook',
  summary: 'Send events once more',
  description:
    'One event, or all of a time, of the kinds that the webhook is told of. They have the `webhook-id` that they had before. A replay under way is widened to hold both.',
  params: schema.entryPath,
  body: replay,
  result: Type.Object({ after: Type.String(), until: Type.String() }),
  async answer(asked, parts: WebhookEndpointsParts) {
    const { store, events, refresh } = parts;
    const { id } = await webhookOf(parts, asked);
    const { account, body } = asked;
    const { event, since, until } = body;
    const faults: Fault[] = [];
    const from = schema.readTime(since, 'since', { faults, isOfBody: true });
    const to = schema.readTime(until, 'until', { faults, isOfBody: true });
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
});

const kind = Type.Enum([...toldKinds], { want: `one of ${toldKinds.join(', ')}` });
const url = Type.String({
  want: 'the URL of an endpoint',
  description: 'https; no user name, no fragment, and no address that is not public unless the operator allows it',
  example: 'https://hooks.example.com/postern',
});
const kinds = Type.Array(kind, {
  description: 'Which events it is told of; empty or absent: all',
  example: ['delivered', 'failed'],
});

/** A webhook in answers. */
export const webhook = component('Webhook', {
  id: Type.String({ pattern: '^[0-9a-f]{32}$' }),
  url: Type.String(),
  kinds: Type.Array(Type.String(), { description: 'Empty: all' }),
  note: Type.String(),
  source: Type.Enum(['api', 'file'], { description: 'Those of the file are changed in the file alone' }),
  enabled: Type.Boolean(),
  disabled_reason: schema.textOrNull(),
  failures: Type.Integer({ description: 'Requests that failed since the last one that did not' }),
  created_at: schema.time,
  replaying: Type.Boolean(),
});

/** The answer that makes a webhook, or a secret. */
export const madeWebhook = component('MadeWebhook', {
  ...webhook.properties,
  secret: Type.String({ description: 'What signs its requests, shown this once' }),
});

const newWebhook = bodyOf('NewWebhook', { url, kinds: Type.Optional(kinds), note: Type.Optional(schema.words) });

const changedWebhook = bodyOf('ChangedWebhook', {
  url: Type.Optional(url),
  kinds: Type.Optional(kinds),
  note: Type.Optional(schema.words),
  enabled: Type.Optional(Type.Boolean({ description: 'One that is enabled again goes on where it stopped' })),
});

/** Shows a webhook, never its secret. */
function shownWebhook({ id, url: to, kinds: told, note, source, createdAt, ...rest }: Webhook) {
  return {
    ...{ id, url: to, kinds: told ?? [], note, source },
    enabled: rest.isEnabled,
    disabled_reason: rest.disabledReason ?? null,
    failures: rest.failures,
    created_at: schema.isoTime(createdAt),
    replaying: rest.replay !== undefined,
  };
}

/** Does something to the webhook of the path, logs and tells it. @throws Refusal where there is none, or the file has it */
async function actOn(
  parts: WebhookEndpointsParts,
  asked: AskedOfOne,
  act: { readonly said: string; readonly to: (account: string, id: string) => Promise<Webhook | undefined> },
): Promise<Webhook> {
  const { id, source, note } = await webhookOf(parts, asked);
  const { account, request } = asked;
  if (source === 'file') {
    const message = `The configuration file has this webhook (${note}), and it is changed there alone`;
    throw refusal('E_FORBIDDEN', message);
  }
  const done = await act.to(account.id, id);
  if (!done) throw noWebhook();
  parts.log.info({ session: request.id, account: account.name, webhook: id }, act.said);
  await parts.refresh();
  return done;
}

/** Refuses a URL that may not be told anything. @throws Refusal */
function judgeUrl({ urlFault }: WebhookEndpointsParts, to: string | undefined): void {
  const fault = to === undefined ? undefined : urlFault(to);
  if (fault !== undefined)
    throw new Refusal([{ token: 'E_VALIDATION_ERROR', message: `url ${fault}`, pointer: '/url' }]);
}

function kindsOf(given: readonly string[] | undefined): readonly EventKind[] | undefined {
  return given === undefined || given.length === 0 ? undefined : [...new Set(given.filter(isEventKind))];
}

const listWebhooks = endpoint({
  at: 'GET',
  operationId: 'listWebhooks',
  summary: 'List webhooks',
  result: Type.Array(webhook),
  answer: async ({ account }, { store }: WebhookEndpointsParts) => (await store.list(account.id)).map(shownWebhook),
});

const getWebhook = endpoint({
  at: 'GET /:id',
  operationId: 'getWebhook',
  summary: 'Show a webhook',
  params: schema.entryPath,
  result: webhook,
  answer: async (asked, parts: WebhookEndpointsParts) => shownWebhook(await webhookOf(parts, asked)),
});

const createWebhook = endpoint({
  at: 'POST',
  operationId: 'createWebhook',
  summary: 'Make a webhook',
  description: `It is told of what happens from now on. The answer shows its secret, this once. An account has at most ${webhooksPerAccount}.`,
  body: newWebhook,
  result: madeWebhook,
  async answer({ account, body: { url: to, kinds: told, note = '' }, request }, parts: WebhookEndpointsParts) {
    const { store, events, refresh } = parts;
    judgeUrl(parts, to);
    const secret = makeSecret();
    const wanted = { account: account.id, url: to, kinds: kindsOf(told), note, secret };
    const made = await store.create(wanted, await events.newest());
    if (!made) {
      const message = `The account has ${webhooksPerAccount} webhooks, and may not have more`;
      throw refusal('E_VALIDATION_ERROR', message);
    }
    await refresh();
    parts.log.info({ session: request.id, account: account.name, webhook: made.id }, 'webhook made');
    return { ...shownWebhook(made), secret };
  },
});

const changeWebhook = endpoint({
  at: 'PATCH /:id',
  operationId: 'changeWebhook',
  summary: 'Change a webhook',
  description: 'What is left out stays. Enabled again, or with another URL, it tries at once what waits.',
  params: schema.entryPath,
  body: changedWebhook,
  result: webhook,
  async answer(asked, parts: WebhookEndpointsParts) {
    const { url: to, kinds: told, note, enabled } = asked.body;
    const kinds = told === undefined ? {} : { kinds: kindsOf(told) };
    const change = (account: string, id: string) => {
      judgeUrl(parts, to);
      return parts.store.change(account, id, { url: to, ...kinds, note, isEnabled: enabled });
    };
    return shownWebhook(await actOn(parts, asked, { said: 'webhook changed', to: change }));
  },
});

const rotateSecret = endpoint({
  at: 'POST /:id/rotate',
  operationId: 'rotateWebhookSecret',
  summary: "Replace a webhook's secret",
  description: 'The answer shows the new one, this once. For a day requests are signed with both.',
  params: schema.entryPath,
  result: madeWebhook,
  async answer(asked, parts: WebhookEndpointsParts) {
    const secret = makeSecret();
    const rotate = (account: string, id: string) => parts.store.rotate(account, id, secret);
    return { ...shownWebhook(await actOn(parts, asked, { said: 'webhook changed', to: rotate })), secret };
  },
});

const deleteWebhook = endpoint({
  at: 'DELETE /:id',
  operationId: 'deleteWebhook',
  summary: 'Remove a webhook with its log',
  params: schema.entryPath,
  result: schema.removed,
  async answer(asked, parts: WebhookEndpointsParts) {
    const remove = (account: string, id: string) => parts.store.remove(account, id);
    await actOn(parts, asked, { said: 'webhook removed', to: remove });
    return { id: asked.params.id };
  },
});

/** The endpoints of webhooks. */
export function webhookEndpoints(parts: WebhookEndpointsParts): V4Plugin {
  const place = schema.mailPlace('webhooks', 'Webhooks', 'email:webhooks');
  return endpointsOf({ ...place, pace: createRestingQueues(parts.clock) }, parts, [
    ...[listWebhooks, getWebhook, createWebhook, changeWebhook, rotateSecret, deleteWebhook],
    ...[listDeliveries, replayEvents],
  ]);
}
