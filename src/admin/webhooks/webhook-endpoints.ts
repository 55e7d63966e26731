// GET, POST, PATCH and DELETE .../email/sending/webhooks (D54). Those of the configuration file are shown and not changed.

import { Type } from 'typebox';
import type { Clock } from '../../base/clock.ts';
import type { Logger } from '../../base/log.ts';
import type { EventStore } from '../../events/event-store.ts';
import { type EventKind, eventKinds, isEventKind } from '../../events/mail-event.ts';
import { type Fault, Refusal, succeed } from '../../http/envelope.ts';
import { submitterOf, type V4App, type V4Plugin } from '../../http/v4-app.ts';
import { makeSecret } from '../../webhooks/secret.ts';
import { type Webhook, webhooksPerAccount } from '../../webhooks/webhook.ts';
import type { WebhookStore } from '../../webhooks/webhook-store.ts';
import { accountPath, entryPath, isoTime, removed, time, words } from '../schemas.ts';
import { deliveryEndpoints } from './delivery-endpoints.ts';
import { noWebhook, webhookRoute } from './webhook-route.ts';

/** What the endpoints need. */
export interface WebhookEndpointsParts {
  readonly store: WebhookStore;
  readonly events: Pick<EventStore, 'newest' | 'search'>;
  /** What is wrong with a URL; undefined where nothing is. */
  readonly urlFault: (url: string) => string | undefined;
  /** Has a change noticed at once. */
  readonly refresh: () => Promise<void>;
  readonly clock: Clock;
  readonly log: Logger;
}

const allKinds = Object.keys(eventKinds);
const kind = Type.Enum([...allKinds], { want: `one of ${allKinds.join(', ')}` });
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
const webhook = Type.Object(
  {
    id: Type.String({ pattern: '^[0-9a-f]{32}$' }),
    url: Type.String(),
    kinds: Type.Array(Type.String(), { description: 'Empty: all' }),
    note: Type.String(),
    source: Type.Enum(['api', 'file'], { description: 'Those of the file are changed in the file alone' }),
    enabled: Type.Boolean(),
    disabled_reason: Type.Union([Type.String(), Type.Null()]),
    failures: Type.Integer({ description: 'Requests that failed since the last one that did not' }),
    created_at: time,
    replaying: Type.Boolean(),
  },
  { title: 'Webhook' },
);

const madeWebhook = Type.Object(
  { ...webhook.properties, secret: Type.String({ description: 'What signs its requests, shown this once' }) },
  { title: 'MadeWebhook' },
);

const newWebhook = Type.Object(
  { url, kinds: Type.Optional(kinds), note: Type.Optional(words) },
  { additionalProperties: false, title: 'NewWebhook' },
);

const changedWebhook = Type.Object(
  {
    url: Type.Optional(url),
    kinds: Type.Optional(kinds),
    note: Type.Optional(words),
    enabled: Type.Optional(Type.Boolean({ description: 'One that is enabled again goes on where it stopped' })),
  },
  { additionalProperties: false, title: 'ChangedWebhook' },
);

/** Shows a webhook, never its secret. */
function shownWebhook({ id, url: to, kinds: told, note, source, createdAt, ...rest }: Webhook) {
  return {
    ...{ id, url: to, kinds: told ?? [], note, source },
    enabled: rest.isEnabled,
    disabled_reason: rest.disabledReason ?? null,
    failures: rest.failures,
    created_at: isoTime(createdAt),
    replaying: rest.replay !== undefined,
  };
}

const { path, reads, edits, tags } = webhookRoute;

/** Finds a webhook that the API may change. @throws Refusal where there is none, or the file has it */
async function changeable(store: WebhookStore, account: string, id: string): Promise<Webhook> {
  const found = await store.find(account, id);
  if (!found) throw noWebhook();
  if (found.source === 'api') return found;
  const message = `The configuration file has this webhook (${found.note}), and it is changed there alone`;
  throw new Refusal([{ token: 'E_FORBIDDEN', message }]);
}

function faultsOf(parts: WebhookEndpointsParts, to: string | undefined): readonly Fault[] {
  const fault = to === undefined ? undefined : parts.urlFault(to);
  return fault === undefined ? [] : [{ token: 'E_VALIDATION_ERROR', message: `url ${fault}`, pointer: '/url' }];
}

function kindsOf(given: readonly string[] | undefined): readonly EventKind[] | undefined {
  return given === undefined || given.length === 0 ? undefined : [...new Set(given.filter(isEventKind))];
}

function listWebhooks(app: V4App, { store }: WebhookEndpointsParts): void {
  app.get(
    path,
    {
      config: reads,
      schema: {
        operationId: 'listWebhooks',
        summary: 'List webhooks',
        tags,
        params: accountPath,
        response: { 200: Type.Array(webhook) },
      },
    },
    async (request, reply) => succeed(reply, (await store.list(submitterOf(request).account.id)).map(shownWebhook)),
  );
  app.get(
    `${path}/:id`,
    {
      config: reads,
      schema: {
        operationId: 'getWebhook',
        summary: 'Show a webhook',
        tags,
        params: entryPath,
        response: { 200: webhook },
      },
    },
    async (request, reply) => {
      const found = await store.find(submitterOf(request).account.id, request.params.id);
      if (!found) throw noWebhook();
      return succeed(reply, shownWebhook(found));
    },
  );
}

function createWebhook(app: V4App, parts: WebhookEndpointsParts): void {
  const { store, events, refresh, log } = parts;
  app.post(
    path,
    {
      config: edits,
      schema: {
        operationId: 'createWebhook',
        summary: 'Make a webhook',
        description: `It is told of what happens from now on. The answer shows its secret, this once. An account has at most ${webhooksPerAccount}.`,
        tags,
        params: accountPath,
        body: newWebhook,
        response: { 200: madeWebhook },
      },
    },
    async (request, reply) => {
      const { url: to, kinds: told, note = '' } = request.body;
      const faults = faultsOf(parts, to);
      if (faults.length > 0) throw new Refusal(faults);
      const { account } = submitterOf(request);
      const secret = makeSecret();
      const made = await store.create(
        { account: account.id, url: to, kinds: kindsOf(told), note, secret },
        await events.newest(),
      );
      if (!made) {
        const message = `The account has ${webhooksPerAccount} webhooks, and may not have more`;
        throw new Refusal([{ token: 'E_VALIDATION_ERROR', message }]);
      }
      await refresh();
      log.info({ session: request.id, account: account.name, webhook: made.id }, 'webhook made');
      return succeed(reply.header('Cache-Control', 'no-store'), { ...shownWebhook(made), secret });
    },
  );
}

function changeWebhook(app: V4App, parts: WebhookEndpointsParts): void {
  const { store, refresh, log } = parts;
  app.patch(
    `${path}/:id`,
    {
      config: edits,
      schema: {
        operationId: 'changeWebhook',
        summary: 'Change a webhook',
        description: 'What is left out stays. Enabled again, or with another URL, it tries at once what waits.',
        tags,
        params: entryPath,
        body: changedWebhook,
        response: { 200: webhook },
      },
    },
    async (request, reply) => {
      const { account } = submitterOf(request);
      const { id } = request.params;
      await changeable(store, account.id, id);
      const { url: to, kinds: told, note, enabled } = request.body;
      const faults = faultsOf(parts, to);
      if (faults.length > 0) throw new Refusal(faults);
      const changed = await store.change(account.id, id, {
        ...(to === undefined ? {} : { url: to }),
        ...(told === undefined ? {} : { kinds: kindsOf(told) }),
        ...(note === undefined ? {} : { note }),
        ...(enabled === undefined ? {} : { isEnabled: enabled }),
      });
      if (!changed) throw noWebhook();
      await refresh();
      log.info({ session: request.id, account: account.name, webhook: id }, 'webhook changed');
      return succeed(reply, shownWebhook(changed));
    },
  );
}

function rotateSecret(app: V4App, { store, log }: WebhookEndpointsParts): void {
  app.post(
    `${path}/:id/rotate`,
    {
      config: edits,
      schema: {
        operationId: 'rotateWebhookSecret',
        summary: "Replace a webhook's secret",
        description: 'The answer shows the new one, this once. For a day requests are signed with both.',
        tags,
        params: entryPath,
        response: { 200: madeWebhook },
      },
    },
    async (request, reply) => {
      const { account } = submitterOf(request);
      const { id } = request.params;
      await changeable(store, account.id, id);
      const secret = makeSecret();
      const changed = await store.rotate(account.id, id, secret);
      if (!changed) throw noWebhook();
      log.info({ session: request.id, account: account.name, webhook: id }, 'webhook changed');
      return succeed(reply.header('Cache-Control', 'no-store'), { ...shownWebhook(changed), secret });
    },
  );
}

function deleteWebhook(app: V4App, { store, refresh, log }: WebhookEndpointsParts): void {
  app.delete(
    `${path}/:id`,
    {
      config: edits,
      schema: {
        operationId: 'deleteWebhook',
        summary: 'Remove a webhook with its log',
        tags,
        params: entryPath,
        response: { 200: removed },
      },
    },
    async (request, reply) => {
      const { account } = submitterOf(request);
      const { id } = request.params;
      await changeable(store, account.id, id);
      if (!(await store.remove(account.id, id))) throw noWebhook();
      await refresh();
      log.info({ session: request.id, account: account.name, webhook: id }, 'webhook removed');
      return succeed(reply, { id });
    },
  );
}

/** The endpoints of webhooks. */
export function webhookEndpoints(parts: WebhookEndpointsParts): V4Plugin {
  return (app) => {
    listWebhooks(app, parts);
    createWebhook(app, parts);
    changeWebhook(app, parts);
    rotateSecret(app, parts);
    deleteWebhook(app, parts);
    deliveryEndpoints(app, parts);
  };
}
