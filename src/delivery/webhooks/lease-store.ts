// What sending keeps in the database: who sends for a webhook now, how far it is, what is tried again, and the log. A process
// may change a webhook's progress only while it holds the lease, so that two never send the same (D54, D91).

import {
  type Change,
  type Database,
  placeholders,
  type Row,
  type SharedTime,
  type SqlValue,
  sharedTimeOf,
} from '../../base/database/database.ts';
import { orNull, rowReader } from '../../base/database/row-reader.ts';
import { Part } from '../../base/part.ts';
import {
  type DeliveryRecord,
  failuresToSlow,
  longestStepMs,
  type Replay,
  slowPauseMs,
  type Webhook,
} from './webhook.ts';
import { webhookOf } from './webhook-store.ts';

/** How long a lease holds unless it is renewed, in milliseconds: as long others wait for what a killed process held. */
export const leaseMs = 10_000;
/** Milliseconds that a lease may end later than one taken now: one that ends later was written before the clock was set back. */
const clockSkewMs = 10_000;
/** A retry is left where its time came so long ago, in milliseconds: who sends for a webhook begins within a second. */
const leftMs = 5000;
/** Rows of the log that are kept of one webhook, for how long, how often what is older is looked for, and of how many that is known. */
const loggedDeliveries = 1000;
const loggedMs = 30 * 86_400_000;
const ageEveryMs = 60_000;
const mostAged = 10_000;

/** A webhook that is enabled, as a process that looks at all of them sees it. */
export interface ActiveWebhook extends Webhook {
  /** Another process holds its lease. */
  readonly isElsewhere: boolean;
  /** Something has waited so long that who sent for it seems gone: a retry that is due, or the next event for one that fails. */
  readonly isLeft: boolean;
}

/** A webhook whose lease this process holds. */
export interface Leased {
  readonly webhook: Webhook;
  /** The secrets of one that the API made; none of the file's, whose secrets are not in the database. */
  readonly secrets: readonly string[];
  readonly failingMs: number;
  readonly lastFailureAt: number | undefined;
  /** Events of it wait to be tried again; only who holds the lease changes which. */
  readonly hasPending: boolean;
}

/** An event that is tried again. */
export interface PendingEvent {
  readonly event: number;
  /** Events of the same message have the same; events without a message each their own. */
  readonly message: string;
  readonly attempts: number;
  /** Milliseconds since 1970; undefined: an earlier event of its message comes first. */
  readonly readyAt: number | undefined;
}

/** What a round has done. */
export interface RoundProgress {
  readonly cursor: number;
  /** The replay that the round began with, and what is left of it, undefined: nothing; undefined: there was none. */
  readonly replay: { readonly before: Replay; readonly left: Replay | undefined } | undefined;
  readonly failures: number;
  readonly failingMs: number;
  readonly lastFailureAt: number | undefined;
  /** Pending events that are through or given up. */
  readonly done: readonly PendingEvent[];
  /** Pending events whose next attempt has moved. */
  readonly again: readonly PendingEvent[];
  /** Events that are pending from now on; one that is already stays as it is. */
  readonly pending: readonly PendingEvent[];
  readonly log: readonly Omit<DeliveryRecord, 'id'>[];
  /** Whether everything that waits for its time is tried now, since the endpoint answers again. */
  readonly retryAll: boolean;
}

const firstPending = '(SELECT min(event) FROM webhook_pending WHERE webhook = $1) AS first_pending';

const leaseStatements = ({ sql: now }: SharedTime) =>
  ({
    active: `SELECT webhooks.*, ${now(1)} AS now, (SELECT min(ready_at) FROM webhook_pending
        WHERE webhook = webhooks.id AND ready_at IS NOT NULL) AS ready_at FROM webhooks WHERE enabled = 1 ORDER BY id`,
    lease: `UPDATE webhooks SET lease_holder = $2, lease_until = ${now(3)} + ${leaseMs}
      WHERE id = $1 AND enabled = 1 AND (lease_holder = $2 OR lease_until <= ${now(3)} OR
        lease_until > ${now(3)} + ${leaseMs + clockSkewMs}) RETURNING *, ${firstPending}`,
    renew: `UPDATE webhooks SET lease_until = ${now(3)} + ${leaseMs} WHERE id = $1 AND lease_holder = $2 AND enabled = 1`,
    held: `SELECT *, ${firstPending} FROM webhooks
      WHERE id = $1 AND lease_holder = $2 AND enabled = 1 AND lease_until > ${now(3)}`,
  }) as const;

const sql = {
  release: 'UPDATE webhooks SET lease_holder = NULL, lease_until = 0 WHERE lease_holder = $1',
  due: `SELECT event, message, attempts, ready_at FROM webhook_pending
    WHERE webhook = $1 AND ready_at IS NOT NULL AND (ready_at <= $2 OR ready_at > $3) ORDER BY ready_at LIMIT $4`,
  nextReady: 'SELECT min(ready_at) AS ready_at FROM webhook_pending WHERE webhook = $1 AND ready_at IS NOT NULL',
  waiting: 'SELECT count(*) AS events FROM (SELECT 1 FROM webhook_pending WHERE webhook = $1 LIMIT $2) AS counted',
  progress: `UPDATE webhooks SET cursor = $3, failures = $4, failing_ms = $5, last_failure_at = $6
    WHERE id = $1 AND lease_holder = $2`,
  // One that was asked for or widened meanwhile stays. Other processes are told of each change of these columns.
  replayed: `UPDATE webhooks SET replay_after = $4, replay_until = $5
    WHERE id = $1 AND replay_after = $2 AND replay_until = $3`,
  done: 'DELETE FROM webhook_pending WHERE webhook = $1 AND event = $2',
  again: 'UPDATE webhook_pending SET attempts = $3, ready_at = $4 WHERE webhook = $1 AND event = $2',
  promote: `UPDATE webhook_pending SET ready_at = $3 WHERE webhook = $1 AND ready_at IS NULL
    AND event = (SELECT min(event) FROM webhook_pending WHERE webhook = $1 AND message = $2)`,
  retryAll: 'UPDATE webhook_pending SET ready_at = $2 WHERE webhook = $1 AND ready_at > $2',
  // Apart, since the two together would read all rows of the webhook each time.
  shortenLog: `DELETE FROM webhook_deliveries WHERE webhook = $1 AND id <=
    (SELECT id FROM webhook_deliveries WHERE webhook = $1 ORDER BY id DESC LIMIT 1 OFFSET ${loggedDeliveries})`,
  ageLog: 'DELETE FROM webhook_deliveries WHERE webhook = $1 AND at < $2',
  disable: 'UPDATE webhooks SET enabled = 0, disabled_reason = $3 WHERE id = $1 AND lease_holder = $2',
} as const;

/** Adds rows, if there are any. @param table with the names of its columns */
function insert(table: string, rows: readonly (readonly SqlValue[])[], onConflict = ''): Change[] {
  const [first] = rows;
  if (!first) return [];
  const values = placeholders(rows.length, first.length);
  return [{ sql: `INSERT INTO ${table} VALUES ${values} ${onConflict}`, params: rows.flat() }];
}

function keepPending(webhook: string, pending: readonly PendingEvent[]): Change[] {
  return insert(
    'webhook_pending (webhook, event, message, attempts, ready_at)',
    pending.map(({ event, message, attempts, readyAt = null }) => [webhook, event, message, attempts, readyAt]),
    'ON CONFLICT (webhook, event) DO NOTHING',
  );
}

function keepLog(webhook: string, log: RoundProgress['log']): Change[] {
  const rows = log.map(({ event, kind, attempt, at, durationMs, result, status = null, error = null }) => [
    ...[webhook, event, kind, attempt, at, durationMs, result, status, error],
  ]);
  const added = insert(
    'webhook_deliveries (webhook, event, kind, attempt, at, duration_ms, result, status, error)',
    rows,
  );
  return added.length > 0 ? [...added, { sql: sql.shortenLog, params: [webhook] }] : [];
}

/** What a round writes besides how far it is. */
function changesOf(id: string, progress: RoundProgress, now: number): Change[] {
  const { replay, pending, again, done, retryAll, log } = progress;
  const { before, left } = replay ?? {};
  const replayed = before && [id, before.after, before.until, left?.after ?? null, left?.until ?? null];
  return [
    ...(replayed ? [{ sql: sql.replayed, params: replayed }] : []),
    ...keepPending(id, pending),
    ...again.map(({ event, attempts, readyAt = null }) => ({ sql: sql.again, params: [id, event, attempts, readyAt] })),
    ...done.map(({ event }) => ({ sql: sql.done, params: [id, event] })),
    ...done.map(({ message }) => ({ sql: sql.promote, params: [id, message, now] })),
    ...(retryAll ? [{ sql: sql.retryAll, params: [id, now] }] : []),
    ...keepLog(id, log),
  ];
}

const secretsOf = rowReader({ secret: orNull(String), previousSecret: orNull(String), previousUntil: Number });
const failingOf = rowReader({ failingMs: Number, lastFailureAt: orNull(Number) });

function leasedOf(row: Row, now: number): Leased {
  const { secret: current, previousSecret, previousUntil } = secretsOf(row);
  const before = previousUntil > now ? previousSecret : undefined;
  const secrets = [current, before].filter((secret) => secret !== undefined);
  return { webhook: webhookOf(row), secrets, ...failingOf(row), hasPending: row['first_pending'] !== null };
}

const lookOf = rowReader({ now: Number, leaseUntil: Number, leaseHolder: orNull(String), readyAt: orNull(Number) });
const pendingOf: (row: Row) => PendingEvent = rowReader({
  ...{ event: Number, message: String, attempts: Number },
  readyAt: orNull(Number),
});

function activeOf(row: Row, holder: string): ActiveWebhook {
  const webhook = webhookOf(row);
  const { now, leaseUntil: until, leaseHolder, readyAt: ready } = lookOf(row);
  // So long a lease was written before the clock was set back, and so was a later time of a retry.
  const isLeased = until > now && until <= now + leaseMs + clockSkewMs;
  const isLate = ready !== undefined && (ready < now - leftMs || ready > now + longestStepMs);
  const isSilent = webhook.failures >= failuresToSlow && until < now - slowPauseMs;
  return {
    ...webhook,
    isElsewhere: isLeased && leaseHolder !== holder,
    isLeft: !isLeased && (isLate || isSilent),
  };
}

/** The progress of webhooks, held by the process whose name `holder` is. Every method rejects when the database cannot be used. */
export class LeaseStore extends Part<{ readonly database: Database; readonly holder: string }> {
  readonly #time = sharedTimeOf(this.parts.database);
  readonly #leases: ReturnType<typeof leaseStatements> = leaseStatements(this.#time);
  /** When old rows of the log of a webhook were removed last; of webhooks that this process has sent for. */
  readonly #agedAt = new Map<string, number>();

  /** Every webhook that is enabled. One question for all of them. @param now the time where the database has none of its own */
  async active(now: number): Promise<readonly ActiveWebhook[]> {
    const rows = await this.parts.database.query(this.#leases.active, this.#time.values(now));
    return rows.map((row) => activeOf(row, this.parts.holder));
  }

  /** Takes the lease, maybe anew. @param now as for `active` @returns undefined where another holds it, or the webhook is off */
  async lease(id: string, now: number): Promise<Leased | undefined> {
    const [row] = await this.parts.database.query(this.#leases.lease, this.#time.values(now, id, this.parts.holder));
    return row && leasedOf(row, now);
  }

  /** Lengthens the lease during a round; takes none from others. @returns false where it is lost, or the webhook is off */
  async renew(id: string, now: number): Promise<boolean> {
    return (await this.parts.database.run(this.#leases.renew, this.#time.values(now, id, this.parts.holder))) > 0;
  }

  /** Reads a webhook whose lease this process holds; undefined where it is over, or the webhook is disabled or gone. */
  async held(id: string, now: number): Promise<Leased | undefined> {
    const [row] = await this.parts.database.query(this.#leases.held, this.#time.values(now, id, this.parts.holder));
    return row && leasedOf(row, now);
  }

  /** Gives back every lease that this process holds. */
  async release(): Promise<void> {
    await this.parts.database.run(sql.release, [this.parts.holder]);
  }

  /** The pending events whose time has come, and those whose time the clock was set back from. */
  async due(id: string, now: number, limit: number): Promise<readonly PendingEvent[]> {
    return (await this.parts.database.query(sql.due, [id, now, now + longestStepMs, limit])).map(pendingOf);
  }

  /** When the next pending event is due, milliseconds since 1970; undefined: none is pending. */
  async nextReady(id: string): Promise<number | undefined> {
    const [row] = await this.parts.database.query(sql.nextReady, [id]);
    return row && orNull(Number)(row['ready_at']);
  }

  /** How many events are pending, counted up to `most`. */
  async waiting(id: string, most: number): Promise<number> {
    const [row] = await this.parts.database.query(sql.waiting, [id, most]);
    return Number(row?.['events'] ?? 0);
  }

  /** Which of some messages have an event pending. */
  async blocked(id: string, messages: readonly string[]): Promise<ReadonlySet<string>> {
    if (messages.length === 0) return new Set();
    const list = placeholders(1, messages.length, 2);
    const text = `SELECT DISTINCT message FROM webhook_pending WHERE webhook = $1 AND message IN ${list}`;
    return new Set((await this.parts.database.query(text, [id, ...messages])).map((row) => String(row['message'])));
  }

  /** Writes what a round has done, all of it or nothing. @returns false where the lease is lost, or the webhook is gone */
  async commit(id: string, progress: RoundProgress, now: number): Promise<boolean> {
    const { cursor, failures, failingMs, lastFailureAt } = progress;
    const params = [id, this.parts.holder, cursor, failures, failingMs, lastFailureAt ?? null];
    const changes = changesOf(id, progress, now);
    if (progress.log.length > 0 && Math.abs(now - (this.#agedAt.get(id) ?? 0)) >= ageEveryMs) {
      if (this.#agedAt.size >= mostAged) this.#agedAt.clear();
      this.#agedAt.set(id, now);
      changes.push({ sql: sql.ageLog, params: [id, now - loggedMs] });
    }
    return (await this.parts.database.runWith({ sql: sql.progress, params }, changes)) !== undefined;
  }

  /** Disables a webhook. @returns false where the lease is lost, or the webhook is gone */
  async disable(id: string, reason: string): Promise<boolean> {
    return (await this.parts.database.run(sql.disable, [id, this.parts.holder, reason])) > 0;
  }
}
