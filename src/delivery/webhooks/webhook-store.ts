// The webhooks in the database, as the API, the commands and the configuration change them (D54, D94).

import type { Clock } from '../../base/clock.ts';
import type { Database, Migrations, Row, Transaction } from '../../base/database/database.ts';
import { orNull, rowReader } from '../../base/database/row-reader.ts';
import { uuidv7 } from '../../base/ids.ts';
import type { EventSearch, EventStore } from '../../spool/events/event-store.ts';
import { isEventKind } from '../../spool/events/mail-event.ts';
import {
  type ConfiguredWebhook,
  type DeliveryRecord,
  type NewWebhook,
  type Replay,
  rotationMs,
  type Webhook,
  type WebhookChange,
  webhooksPerAccount,
} from './webhook.ts';

/** The tables. Times are milliseconds since 1970. */
export const webhookMigrations: Migrations = {
  owner: 'webhooks',
  steps: [
    `-- A webhook of the file has no secret here. lease_holder: the process that sends now, until lease_until.
     -- failing_ms: for how long every request has failed, up to last_failure_at.
     CREATE TABLE webhooks (
       id TEXT NOT NULL PRIMARY KEY,
       account TEXT NOT NULL,
       source TEXT NOT NULL,
       url TEXT NOT NULL,
       kinds TEXT,
       note TEXT NOT NULL,
       secret TEXT,
       previous_secret TEXT,
       previous_until INTEGER,
       created_at INTEGER NOT NULL,
       enabled INTEGER NOT NULL,
       disabled_reason TEXT,
       failures INTEGER NOT NULL DEFAULT 0,
       failing_ms INTEGER NOT NULL DEFAULT 0,
       last_failure_at INTEGER,
       cursor INTEGER NOT NULL,
       replay_after INTEGER,
       replay_until INTEGER,
       lease_holder TEXT,
       lease_until INTEGER NOT NULL DEFAULT 0
     ) STRICT, WITHOUT ROWID;
     CREATE INDEX webhooks_of_account ON webhooks (account, id);

     -- Events that the cursor has passed and that are not through. ready_at: NULL while an earlier event of the same message is here.
     CREATE TABLE webhook_pending (
       webhook TEXT NOT NULL,
       event INTEGER NOT NULL,
       message TEXT NOT NULL,
       attempts INTEGER NOT NULL,
       ready_at INTEGER,
       PRIMARY KEY (webhook, event)
     ) STRICT, WITHOUT ROWID;
     CREATE INDEX webhook_pending_ready ON webhook_pending (webhook, ready_at) WHERE ready_at IS NOT NULL;
     CREATE INDEX webhook_pending_of_message ON webhook_pending (webhook, message, event);

     CREATE TABLE webhook_deliveries (
       id INTEGER PRIMARY KEY AUTOINCREMENT,
       webhook TEXT NOT NULL,
       event INTEGER NOT NULL,
       kind TEXT NOT NULL,
       attempt INTEGER NOT NULL,
       at INTEGER NOT NULL,
       duration_ms INTEGER NOT NULL,
       result TEXT NOT NULL,
       status INTEGER,
       error TEXT
     ) STRICT;
     CREATE INDEX webhook_deliveries_of_webhook ON webhook_deliveries (webhook, id);`,
  ],
  told: [{ table: 'webhooks', columns: ['url', 'kinds', 'secret', 'enabled', 'replay_until'] }],
};

const columnsOf = rowReader({
  ...{ id: String, account: String, url: String, note: String, createdAt: Number, failures: Number, cursor: Number },
  source: (column) => (column === 'file' ? ('file' as const) : ('api' as const)),
  // Kinds that a newer program knows are passed over.
  kinds: orNull((column) => String(column).split(',').filter(isEventKind)),
  disabledReason: orNull(String),
});
const replayOf = rowReader({ replayAfter: orNull(Number), replayUntil: orNull(Number) });

/** Makes a webhook of its row. */
export function webhookOf(row: Row): Webhook {
  const { replayAfter: after, replayUntil: until = after } = replayOf(row);
  const replay = after === undefined || until === undefined ? undefined : { after, until };
  return { ...columnsOf(row), isEnabled: row['enabled'] === 1, replay };
}

/** The webhooks of all accounts. `account` is always an account's id; another account's webhook is not found. */
export type WebhookStore = Awaited<ReturnType<typeof openWebhookStore>>;

const sql = {
  count: 'SELECT count(*) AS webhooks FROM webhooks WHERE account = $1',
  create: `INSERT INTO webhooks (id, account, source, url, kinds, note, secret, created_at, enabled, cursor)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 1, $9) RETURNING *`,
  list: 'SELECT * FROM webhooks WHERE account = $1 ORDER BY id',
  find: 'SELECT * FROM webhooks WHERE account = $1 AND id = $2',
  // A change of the endpoint is a new start: what was said of the old one no longer holds.
  change: `UPDATE webhooks SET url = $3, kinds = $4, note = $5, enabled = $6, disabled_reason = $7,
      failures = CASE WHEN $8 = 1 THEN 0 ELSE failures END,
      failing_ms = CASE WHEN $8 = 1 THEN 0 ELSE failing_ms END,
      last_failure_at = CASE WHEN $8 = 1 THEN NULL ELSE last_failure_at END
    WHERE account = $1 AND id = $2 AND source = 'api' RETURNING *`,
  rotate: `UPDATE webhooks SET previous_secret = secret, previous_until = $4, secret = $3
    WHERE account = $1 AND id = $2 AND source = 'api' RETURNING *`,
  remove: "DELETE FROM webhooks WHERE account = $1 AND id = $2 AND source = 'api' RETURNING *",
  forgetPending: 'DELETE FROM webhook_pending WHERE webhook = $1',
  forgetLog: 'DELETE FROM webhook_deliveries WHERE webhook = $1',
  retryNow: 'UPDATE webhook_pending SET ready_at = $2 WHERE webhook = $1 AND ready_at > $2',
  replay: `UPDATE webhooks SET replay_after = CASE WHEN replay_after < $3 THEN replay_after ELSE $3 END,
      replay_until = CASE WHEN replay_until > $4 THEN replay_until ELSE $4 END
    WHERE account = $1 AND id = $2 RETURNING *`,
  deliveries: 'SELECT * FROM webhook_deliveries WHERE webhook = $1 AND id < $2 ORDER BY id DESC LIMIT $3',
  ofFile: "SELECT id, account FROM webhooks WHERE source = 'file'",
  configured: `UPDATE webhooks SET url = $2, kinds = $3, note = $4, enabled = 1, disabled_reason = NULL, failures = 0,
    failing_ms = 0, last_failure_at = NULL WHERE id = $1 AND source = 'file'`,
  removeOfFile: "DELETE FROM webhooks WHERE id = $1 AND source = 'file'",
} as const;

const deliveryOf: (row: Row) => DeliveryRecord = rowReader({
  ...{ id: Number, event: Number, kind: String, attempt: Number, at: Number, durationMs: Number },
  result: (column) => (column === 'delivered' || column === 'given_up' ? column : 'failed'),
  status: orNull(Number),
  error: orNull(String),
});

async function forget(transaction: Transaction, id: string): Promise<void> {
  await transaction.run(sql.forgetPending, [id]);
  await transaction.run(sql.forgetLog, [id]);
}

async function change(
  transaction: Transaction,
  { account, id, now }: { readonly account: string; readonly id: string; readonly now: number },
  wanted: WebhookChange,
): Promise<Webhook | undefined> {
  const [row] = await transaction.query(sql.find, [account, id]);
  if (!row) return undefined;
  const before = webhookOf(row);
  const kinds = 'kinds' in wanted ? wanted.kinds : before.kinds;
  const isEnabled = wanted.isEnabled ?? before.isEnabled;
  const isRenewed = (wanted.url !== undefined && wanted.url !== before.url) || (isEnabled && !before.isEnabled);
  const [changed] = await transaction.query(sql.change, [
    account,
    id,
    wanted.url ?? before.url,
    kinds?.join(',') ?? null,
    wanted.note ?? before.note,
    isEnabled ? 1 : 0,
    isEnabled ? null : (before.disabledReason ?? null),
    isRenewed ? 1 : 0,
  ]);
  if (changed && isRenewed) await transaction.run(sql.retryNow, [id, now]);
  return changed && webhookOf(changed);
}

async function configure(
  transaction: Transaction,
  webhooks: readonly ConfiguredWebhook[],
  { cursor, now }: { readonly cursor: number; readonly now: number },
): Promise<void> {
  const wanted = new Set(webhooks.map(({ id }) => id));
  const known = new Set((await transaction.query(sql.ofFile)).map((row) => String(row['id'])));
  for (const id of known) {
    if (wanted.has(id)) continue;
    await transaction.run(sql.removeOfFile, [id]);
    await forget(transaction, id);
  }
  for (const { id, account, url, kinds, note } of webhooks) {
    const listed = kinds?.join(',') ?? null;
    if (known.has(id)) await transaction.run(sql.configured, [id, url, listed, note]);
    else await transaction.query(sql.create, [id, account, 'file', url, listed, note, null, now, cursor]);
  }
}

/** Opens the webhooks and updates the tables of the database. */
export async function openWebhookStore(database: Database, clock: Clock) {
  await database.migrate(webhookMigrations);

  async function one(statement: string, values: readonly (string | number | null)[]): Promise<Webhook | undefined> {
    const [row] = await database.query(statement, values);
    return row && webhookOf(row);
  }

  return {
    /** Makes a webhook that is told of the events behind `cursor`; undefined where the account has as many as it may. */
    create: ({ account, url, kinds, note, secret }: NewWebhook, cursor: number) =>
      database.transaction(async (transaction) => {
        const [counted] = await transaction.query(sql.count, [account]);
        if (Number(counted?.['webhooks']) >= webhooksPerAccount) return undefined;
        const now = clock.now();
        const id = uuidv7(now).replaceAll('-', '');
        const listed = kinds?.join(',') ?? null;
        const [row] = await transaction.query(sql.create, [id, account, 'api', url, listed, note, secret, now, cursor]);
        return row && webhookOf(row);
      }),
    /** Lists the webhooks of an account, the oldest first. */
    list: async (account: string): Promise<readonly Webhook[]> =>
      (await database.query(sql.list, [account])).map(webhookOf),
    find: (account: string, id: string) => one(sql.find, [account, id]),
    /** Changes a webhook of the API. One that is enabled again goes on where it stopped. @returns undefined for none */
    change: (account: string, id: string, wanted: WebhookChange) =>
      database.transaction((transaction) => change(transaction, { account, id, now: clock.now() }, wanted)),
    /** Gives a webhook of the API another secret; the one before signs as well for a day. */
    rotate: (account: string, id: string, secret: string) =>
      one(sql.rotate, [account, id, secret, clock.now() + rotationMs]),
    /** Removes a webhook of the API with its log. */
    remove: (account: string, id: string) =>
      database.transaction(async (transaction) => {
        const [row] = await transaction.query(sql.remove, [account, id]);
        if (!row) return undefined;
        await forget(transaction, id);
        return webhookOf(row);
      }),
    /** Sends the events behind `after` up to `until` once more, or widens the replay under way. @returns undefined where none is */
    replay: (account: string, id: string, { after, until }: Replay) => one(sql.replay, [account, id, after, until]),
    /** One page of the delivery log, the newest first, and the `before` of the next; undefined on the last one. */
    async deliveries(id: string, page: { readonly limit: number; readonly before?: number | undefined }) {
      const { limit, before = Number.MAX_SAFE_INTEGER } = page;
      const rows = await database.query(sql.deliveries, [id, before, limit + 1]);
      const deliveries = rows.slice(0, limit).map(deliveryOf);
      return { deliveries, next: rows.length > limit ? deliveries.at(-1)?.id : undefined };
    },
    /** Takes the configuration's webhooks: new ones begin at `cursor`, others are enabled again, and those not in it are removed. */
    configure: (webhooks: readonly ConfiguredWebhook[], cursor: number) =>
      database.transaction((transaction) => configure(transaction, webhooks, { cursor, now: clock.now() })),
  };
}

/** The first id in an order of an account's events of a time. */
async function firstId(
  events: Pick<EventStore, 'search'>,
  query: Pick<EventSearch, 'account' | 'order' | 'since' | 'until'>,
): Promise<number | undefined> {
  for (let cursor: number | undefined; ; ) {
    const page = await events.search({ ...query, limit: 1, cursor });
    const [found] = page.events;
    if (found) return found.id;
    if (!page.hasMore) return undefined;
    cursor = page.next;
  }
}

/** What is to be replayed: one event, or those of a time (milliseconds since 1970). */
interface ReplayWish {
  readonly event?: number | undefined;
  readonly since?: number | undefined;
  readonly until?: number | undefined;
}

/** Finds the range of a replay: events behind `after`, up to `until`. @param account its name @returns undefined where there are none */
export async function replayRange(
  events: Pick<EventStore, 'search'>,
  account: string,
  { event, since, until }: ReplayWish,
): Promise<Replay | undefined> {
  if (event !== undefined) {
    const page = await events.search({ account, order: 'oldest', limit: 1, cursor: event - 1 });
    return page.events[0]?.id === event ? { after: event - 1, until: event } : undefined;
  }
  const first = await firstId(events, { account, order: 'oldest', since, until });
  const last = await firstId(events, { account, order: 'newest', since, until });
  return first === undefined || last === undefined ? undefined : { after: first - 1, until: last };
}
