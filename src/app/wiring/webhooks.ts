// Connects the webhooks: the database they are kept in, the events they are told of, and the settings in force.

import { randomUUID } from 'node:crypto';
import type { Clock } from '../../base/clock.ts';
import type { Database } from '../../base/database/database.ts';
import { ConfigurationError, errorMessage } from '../../base/errors.ts';
import { isBoundTo } from '../../base/net/own-doors.ts';
import { LeaseStore } from '../../delivery/webhooks/lease-store.ts';
import { Poster } from '../../delivery/webhooks/post.ts';
import { readSecretOctets } from '../../delivery/webhooks/secret.ts';
import { WebhookSender } from '../../delivery/webhooks/sender.ts';
import type { DeliveryRecord } from '../../delivery/webhooks/webhook.ts';
import { openWebhookStore } from '../../delivery/webhooks/webhook-store.ts';
import { createAddressGuard, urlFault } from '../../delivery/webhooks/webhook-url.ts';
import type { EventStore } from '../../spool/events/event-store.ts';
import { counter, gauge } from '../../web/http/metrics.ts';
import type { Config } from '../config/config.ts';
import { madeOf, type Shared } from './in-force.ts';
import type { Running } from './running.ts';

/** How long a request may take, with its answer, in milliseconds. */
const requestMs = 10_000;

/** The webhooks of a gateway. */
export type Webhooks = Awaited<ReturnType<typeof openWebhooks>>;

/** @throws ConfigurationError where a secret of the file cannot be read or is none */
export function checkWebhookSecrets({ webhooks }: Pick<Config, 'webhooks'>): void {
  for (const { note, secrets } of webhooks.configured) {
    if (secrets().every((secret) => readSecretOctets(secret))) continue;
    throw new ConfigurationError(
      `The secret of the webhook ${note} is not whsec_ and base64 of 24 to 64 octets; postern webhook secret makes one`,
    );
  }
}

function familiesOf(sender: WebhookSender, count: Readonly<Record<DeliveryRecord['result'], number>>) {
  return [
    gauge('postern_webhooks_running', 'Webhooks that are sending now', () => sender.counts.running),
    counter('postern_webhook_delivered_total', 'Events that endpoints of webhooks have taken', () => count.delivered),
    counter(
      'postern_webhook_failed_total',
      'Requests to endpoints of webhooks that failed and are tried again',
      () => count.failed,
    ),
    counter(
      'postern_webhook_given_up_total',
      'Events that endpoints of webhooks did not take within a day',
      () => count.given_up,
    ),
  ];
}

/** The clock that all processes on a database share: waits are compared with those that others wrote. */
async function sharedClock(database: Pick<Database, 'aheadMs'>, clock: Clock): Promise<Clock> {
  let ahead = await database.aheadMs();
  return {
    monotonic: () => clock.monotonic(),
    now: () => {
      // Where the database is away, what was known goes on counting.
      database.aheadMs().then(
        (now) => (ahead = now),
        () => undefined,
      );
      return clock.now() - ahead;
    },
  };
}

/** Opens the webhooks. Nothing is sent before `start`. @throws ConfigurationError where a secret of the file is none */
export async function openWebhooks(
  { live, database, ownDoors, clock, log }: Shared,
  events: EventStore,
  running: Running,
) {
  checkWebhookSecrets(live.current.config);
  const store = await openWebhookStore(database, clock);
  const isOwn = (address: string, port: number): boolean =>
    ownDoors().some((door) => door.port === port && isBoundTo(door.host, address));
  const guard = madeOf(live, ({ config }) =>
    createAddressGuard({ allowNetworks: config.webhooks.allowNetworks, isOwn }),
  );
  const names = madeOf(live, ({ config }) => new Map(config.accounts.map(({ id, name }) => [id, name])));
  const secrets = madeOf(live, ({ config }) => new Map(config.webhooks.configured.map((one) => [one.id, one.secrets])));
  const count = { delivered: 0, failed: 0, given_up: 0 };
  const refuse = (address: string, port: number): string | undefined => guard()(address, port);
  const sender = new WebhookSender({
    leases: new LeaseStore({ database, holder: randomUUID() }),
    changes: database.changes,
    events,
    poster: new Poster({ refuse, timeoutMs: requestMs }),
    accountName: (id) => names().get(id),
    fileSecrets: (id) => secrets().get(id)?.(),
    clock: await sharedClock(database, clock),
    log,
    onRequest: (result) => (count[result] += 1),
  });
  running.webhooks = sender;
  return {
    store,
    urlFault: (url: string) => urlFault(url, { allowHttp: live.current.config.webhooks.allowHttp, refuse }),
    /** Has changes of the store noticed at once. */
    refresh: () => sender.refresh(),
    /** Makes the file's webhooks those of the configuration in force. */
    async configure(): Promise<void> {
      try {
        await store.configure(live.current.config.webhooks.configured, await events.newest());
      } catch (error) {
        log.error({ reason: errorMessage(error) }, 'webhooks cannot be read');
      }
      await sender.refresh();
    },
    start: () => sender.start(),
    families: familiesOf(sender, count),
  };
}
