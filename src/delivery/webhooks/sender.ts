// Sends events to the webhooks of all accounts, a round of each in turn, so that a slow endpoint delays no other.

import type { MonotonicClock } from '../../base/clock.ts';
import type { Changes } from '../../base/database/database.ts';
import { errorMessage } from '../../base/errors.ts';
import { onceAtATime } from '../../base/load/once-at-a-time.ts';
import type { Logger } from '../../base/log.ts';
import { Part } from '../../base/part.ts';
import type { EventStore } from '../../spool/events/event-store.ts';
import type { EventFacts } from '../../spool/events/mail-event.ts';
import { type ActiveWebhook, type Leased, type LeaseStore, leaseMs } from './lease-store.ts';
import type { Poster } from './post.ts';
import { createSharedPages, type RoundResult, runRound } from './round.ts';
import {
  type DeliveryRecord,
  disableAfterMs,
  failuresToSlow,
  longestStepMs,
  slowPauseMs,
  type Webhook,
} from './webhook.ts';
import { type KnownWebhook, KnownWebhooks, WebhookTurns } from './webhook-turns.ts';

/** What sending needs. */
interface SenderParts {
  readonly leases: LeaseStore;
  readonly events: Pick<EventStore, 'read' | 'news' | 'listen' | 'write'>;
  readonly poster: Poster;
  /** Tells of webhooks and events that other processes have changed. */
  readonly changes: Changes;
  /** The name of an account by its id; undefined: it is not in the configuration. */
  readonly accountName: (id: string) => string | undefined;
  /** The secrets of a webhook of the file; undefined: the file does not have it. */
  readonly fileSecrets: (id: string) => readonly string[] | undefined;
  readonly clock: MonotonicClock & { now(): number };
  readonly log: Logger;
  readonly onRequest?: (result: 'delivered' | 'failed' | 'given_up') => void;
}

/** How often all webhooks are looked at, for what other processes changed or left, in milliseconds. */
const lookEveryMs = 2000;
/** How often events are looked for that other processes wrote, in milliseconds. */
const newsEveryMs = 750;
/** How long it is between two looks that other processes ask for, in milliseconds: they tell of each of their commits. */
const restMs = 500;
/** A refusal is heard at once and written within so many milliseconds. */
const refusedMs = 1000;
/** How often webhooks are woken whose time has come. */
const tickMs = 250;
/** How long a webhook waits after a fault of the database. */
const putOffMs = 3000;
/** Where the database is away, webhooks are put off again and again: a line tells of one, and of how many since the last line. */
const tellEveryMs = 10_000;
/** What the cursor may pass without being written: that much is looked at again after a restart. */
const unwrittenCursor = 1000;

/** Sends events to webhooks. */
export class WebhookSender extends Part<SenderParts> {
  readonly #known = new KnownWebhooks();
  readonly #pages = createSharedPages(this.parts.events);
  readonly #turns = new WebhookTurns({ run: (id) => this.#run(id) });
  readonly #ended = new AbortController();
  readonly #timers: NodeJS.Timeout[] = [];
  readonly #unlisten: (() => void)[] = [];
  #isEnding = false;
  #newest = 0;
  #lookedAt = Number.NEGATIVE_INFINITY;
  /** When all webhooks were looked at last; minus infinity: they are looked at next. */
  #sawAllAt = Number.NEGATIVE_INFINITY;
  #toldAt = Number.NEGATIVE_INFINITY;
  #untold = 0;
  #soon: NodeJS.Timeout | undefined;
  readonly #lookAgain = onceAtATime(() => this.#look());

  /** How many webhooks have their turn now, and how many wait for it. */
  get counts(): { readonly running: number; readonly waiting: number } {
    return this.#turns.counts;
  }

  /** How many webhooks are remembered as failing; those that were removed are not among them. */
  get failing(): number {
    return [...this.#known].filter(({ isSlow }) => isSlow).length;
  }

  async start(): Promise<void> {
    this.#unlisten.push(this.parts.events.listen((event) => this.#onEvent(event)));
    await this.#look();
    this.#timers.push(
      setInterval(() => this.#tick(), tickMs),
      setInterval(() => void this.#lookAgain(), newsEveryMs),
    );
    this.#unlisten.push(
      this.parts.changes.on('mail_events', () => this.#lookSoon()),
      this.parts.changes.on('webhooks', () => {
        this.#sawAllAt = Number.NEGATIVE_INFINITY;
        this.#lookSoon();
      }),
    );
  }

  /** Looks at once for what was changed in the database, where a webhook was made, changed or removed by this process. */
  async refresh(): Promise<void> {
    this.#sawAllAt = Number.NEGATIVE_INFINITY;
    await this.#look();
  }

  /** Begins nothing more, lets requests under way end for at most so long, and gives back what is held. */
  async stop(withinMs: number): Promise<void> {
    this.#isEnding = true;
    for (const end of this.#unlisten) end();
    for (const timer of this.#timers) clearInterval(timer);
    clearTimeout(this.#soon);
    const patience = setTimeout(() => this.#ended.abort(), withinMs);
    await this.#turns.end();
    // Waits for a look under way; none begins any more.
    await this.#lookAgain();
    clearTimeout(patience);
    this.parts.poster.close();
    // Where they cannot be given back, they end by themselves.
    await this.parts.leases.release().catch((error: unknown) => {
      this.parts.log.warn({ reason: errorMessage(error) }, 'webhooks cannot be read');
    });
  }

  #onEvent({ account, kind }: EventFacts): void {
    this.#pages.heard();
    for (const known of this.#known.wokenBy(account, kind)) {
      if (kind === 'refused') known.nextAt = Math.min(known.nextAt, this.parts.clock.monotonic() + refusedMs);
      else this.#ask(known);
    }
  }

  /** Asks for a turn, once it is this process's to send for the webhook. */
  #ask(known: KnownWebhook): void {
    if (known.isElsewhere) known.isWanted = true;
    else this.#turns.ask(known);
  }

  #tick(): void {
    const now = this.parts.clock.monotonic();
    for (const known of this.#known) {
      if (known.nextAt > now) continue;
      known.nextAt = Number.POSITIVE_INFINITY;
      this.#ask(known);
    }
  }

  /** Looks because another process has changed something: at once, or after a rest for all that comes during it. */
  #lookSoon(): void {
    if (this.#soon || this.#isEnding) return;
    const rest = this.#lookedAt + restMs - this.parts.clock.monotonic();
    const look = (): void => {
      this.#soon = undefined;
      void this.#lookAgain();
    };
    this.#soon = setTimeout(look, Math.max(0, Math.min(rest, restMs)));
  }

  /** Brings what is known up to date: now and then all webhooks, and each time events that others wrote. */
  async #look(): Promise<void> {
    if (this.#isEnding) return;
    const { clock, leases, events, log } = this.parts;
    this.#lookedAt = clock.monotonic();
    try {
      if (this.#lookedAt - this.#sawAllAt >= lookEveryMs) {
        const lookedAt = this.#lookedAt;
        this.#sawAllAt = lookedAt;
        this.#seeAll(await leases.active(clock.now()), lookedAt);
      }
      const { newest, told } = await events.news(this.#newest);
      this.#pages.heard();
      this.#newest = Math.max(this.#newest, newest);
      const woken = told?.flatMap(({ account, kind }) => this.#known.wokenBy(account, kind));
      for (const known of new Set(woken ?? [...this.#known].filter(({ isSlow }) => !isSlow))) this.#ask(known);
    } catch (error) {
      log.warn({ reason: errorMessage(error) }, 'webhooks cannot be read');
    }
  }

  /** Takes what a look at all webhooks found. @param lookedAt when it began, monotonic milliseconds */
  #seeAll(active: readonly ActiveWebhook[], lookedAt: number): void {
    const { accountName, fileSecrets } = this.parts;
    const ids = new Set(active.map(({ id }) => id));
    for (const { id } of [...this.#known]) if (!ids.has(id)) this.#known.forget(id);
    for (const { id, account, source, kinds, replay, failures, isElsewhere, isLeft } of active) {
      const name = accountName(account);
      // A webhook whose secrets the file here does not have is left to a process that has them.
      if (name === undefined || (source === 'file' && !fileSecrets(id)?.length)) {
        this.#known.forget(id);
        continue;
      }
      const isSlow = failures >= failuresToSlow;
      const before = this.#known.get(id);
      const known =
        before?.account === name ? before : this.#known.add({ id, account: name, kinds, isSlow, isElsewhere });
      const isRenewed = known.isSlow && !isSlow;
      // A round under way writes into the same object: in a copy its next time would be lost. What it leased since stays.
      Object.assign(known, { kinds, isSlow, isElsewhere: isElsewhere && known.leasedAt < lookedAt });
      const isWanted = known.isWanted || isRenewed || isLeft || (!isSlow && replay !== undefined);
      if (!isWanted) continue;
      known.isWanted = false;
      this.#ask(known);
    }
  }

  async #run(id: string): Promise<boolean> {
    const known = this.#known.get(id);
    if (!known || this.#isEnding) return false;
    try {
      return await this.#round(known);
    } catch (error) {
      if (!this.#isEnding) this.#tellPutOff(known, error);
      known.nextAt = this.parts.clock.monotonic() + putOffMs;
      return false;
    }
  }

  #tellPutOff({ id, account }: KnownWebhook, error: unknown): void {
    const now = this.parts.clock.monotonic();
    this.#untold += 1;
    if (now - this.#toldAt < tellEveryMs) return;
    const facts = { webhook: id, account, reason: errorMessage(error), count: this.#untold };
    this.parts.log.warn(facts, 'a webhook is put off');
    this.#toldAt = now;
    this.#untold = 0;
  }

  async #lease(known: KnownWebhook): Promise<Leased | undefined> {
    const { clock, leases } = this.parts;
    // It is written anew only when a third of it is over, since each write is a sync of the disk, or all of it, where the host slept.
    const isFresh = clock.monotonic() - known.leasedAt < leaseMs / 3;
    const held = isFresh ? await leases.held(known.id, clock.now()) : undefined;
    if (held) return held;
    known.leasedAt = clock.monotonic();
    return await leases.lease(known.id, clock.now());
  }

  /** @returns whether the webhook wants another turn at once */
  async #round(known: KnownWebhook): Promise<boolean> {
    const { clock, leases, poster, fileSecrets } = this.parts;
    const { id, account } = known;
    const leased = await this.#lease(known);
    const secrets = leased?.webhook.source === 'file' ? fileSecrets(id) : leased?.secrets;
    if (!leased || !secrets?.length) {
      Object.assign(known, { leasedAt: Number.NEGATIVE_INFINITY, isElsewhere: true, isWanted: true });
      return false;
    }
    const isSlow = leased.webhook.failures >= failuresToSlow;
    const mayProbe = isSlow && clock.monotonic() - known.probedAt >= slowPauseMs;
    if (mayProbe) known.probedAt = clock.monotonic();
    // A round may last longer than a lease. One whose lease is lost begins no more requests: another process makes them.
    let isLost = false;
    const renew = async (): Promise<void> => {
      isLost = !(await leases.renew(id, clock.now()));
    };
    const renewing = setInterval(() => {
      void renew().catch((error: unknown) => this.#tellPutOff(known, error));
    }, leaseMs / 3);
    const parts = {
      ...{ store: leases, events: this.#pages, poster, now: () => clock.now(), signal: this.#ended.signal },
      isEnding: () => this.#isEnding || isLost,
    };
    const round = runRound(parts, { ...leased, secrets }, { account, mayProbe });
    return await this.#finish(known, leased, await round.finally(() => clearInterval(renewing)));
  }

  /** Writes what a round did, and decides when the next one is. @returns whether that is at once */
  async #finish(known: KnownWebhook, { webhook, hasPending }: Leased, result: RoundResult): Promise<boolean> {
    const { clock, leases, onRequest } = this.parts;
    const { progress, hasMore, isGone } = result;
    const { id } = known;
    const isSame =
      progress.log.length === 0 &&
      progress.pending.length === 0 &&
      progress.done.length === 0 &&
      progress.replay?.left?.after === progress.replay?.before.after &&
      progress.cursor - webhook.cursor < unwrittenCursor &&
      !hasMore;
    if (!isSame && !(await leases.commit(id, progress, clock.now()))) {
      // Another process sends, or the webhook is gone: what this one sent may be sent again.
      this.#known.forget(id);
      return false;
    }
    for (const record of progress.log) {
      onRequest?.(record.result);
      if (record.result !== 'delivered') this.#tell(known, webhook, record);
    }
    known.isSlow = progress.failures >= failuresToSlow;
    const hasFailedForADay = progress.failingMs >= disableAfterMs;
    if (isGone || hasFailedForADay) {
      await this.#disable(known, webhook, isGone ? 'the endpoint answered 410' : 'every request has failed for a day');
      return false;
    }
    if (hasMore) return true;
    const ready = hasPending || progress.pending.length > 0 ? await leases.nextReady(id) : undefined;
    const left = ready === undefined ? Number.POSITIVE_INFINITY : ready - clock.now();
    // A time further ahead than the longest step was written before the clock was set back, and is due.
    const pause = ready !== undefined && left > longestStepMs ? 0 : left;
    const limit = known.isSlow ? slowPauseMs : Number.POSITIVE_INFINITY;
    // A refusal may have set an earlier time during the round.
    known.nextAt = Math.min(known.nextAt, clock.monotonic() + Math.max(0, Math.min(pause, limit)));
    return false;
  }

  async #disable({ id, account }: KnownWebhook, { url }: Webhook, reason: string): Promise<void> {
    const { events, leases, clock } = this.parts;
    // The event comes first: after a crash in between it is there twice rather than not at all.
    const facts = { kind: 'webhook_disabled', at: clock.now(), account, sessionId: id } as const;
    await events.write([{ ...facts, webhook: id, url: originOf(url), reason }]);
    await leases.disable(id, reason);
    this.#known.forget(id);
  }

  #tell({ id, account }: KnownWebhook, { url }: Webhook, record: Omit<DeliveryRecord, 'id'>): void {
    const { event, attempt, status, error: reason, result } = record;
    const facts = { webhook: id, account, url: originOf(url), event, attempt, status, reason, result };
    this.parts.log.info(facts, 'webhook request failed');
  }
}

/** What of a URL may be told: path and query may hold a secret of the endpoint's. */
function originOf(url: string): string {
  return URL.canParse(url) ? new URL(url).origin : '';
}
