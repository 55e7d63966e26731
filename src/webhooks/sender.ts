// Sends events to the webhooks of all accounts: wakes a webhook when there is something for it, and gives each one round after
// another, all in turn, so that a slow endpoint delays no other.

import type { MonotonicClock } from '../base/clock.ts';
import type { Changes } from '../base/database/database.ts';
import { errorMessage } from '../base/errors.ts';
import type { Logger } from '../base/log.ts';
import type { EventStore } from '../events/event-store.ts';
import type { EventFacts, EventKind } from '../events/mail-event.ts';
import { type Leased, type LeaseStore, leaseMs } from './lease-store.ts';
import type { Poster } from './post.ts';
import { disableAfterMs, failuresToSlow, longestStepMs, slowPauseMs } from './retry-steps.ts';
import { type RoundResult, runRound } from './round.ts';
import { WebhookTurns } from './webhook-turns.ts';

/** What sending needs. */
export interface SenderParts {
  readonly leases: LeaseStore;
  readonly events: Pick<EventStore, 'read' | 'newest' | 'listen' | 'write'>;
  readonly poster: Poster;
  /** Tells of webhooks and events that other processes have changed. */
  readonly changes: Changes;
  /** The name of an account by its id; undefined: it is not in the configuration. */
  readonly accountName: (id: string) => string | undefined;
  /** The secrets of a webhook of the file; undefined: the file does not have it. */
  readonly fileSecrets: (id: string) => readonly string[] | undefined;
  readonly clock: MonotonicClock & { now(): number };
  readonly log: Logger;
  /** Called with the result of each request. */
  readonly onRequest?: (result: 'delivered' | 'failed' | 'given_up') => void;
}

/** How often webhooks that other processes changed are looked for, and events that they wrote, in milliseconds. */
const lookEveryMs = 2000;
/** How long it is between two looks that other processes ask for, in milliseconds: they tell of each of their commits. */
const restMs = 500;
/** All webhooks look for new events once in so many milliseconds, whoever wrote them. */
const allEveryMs = 30_000;
/** So many new events are read to find out whom they are for; of more, all webhooks look for themselves. */
const mostRead = 500;
/** A refusal is heard at once and written within so many milliseconds. */
const refusedMs = 1000;
/** How often webhooks are woken whose time has come. */
const tickMs = 250;
/** How long a webhook waits after a fault of the database, or while another process sends for it. */
const putOffMs = 3000;
/** What the cursor may pass without being written: that much is looked at again after a restart. */
const unwrittenCursor = 1000;

/** What is known of a webhook here. Times are monotonic milliseconds. */
interface Known {
  account: string;
  kinds: readonly EventKind[] | undefined;
  /** When it has something to do; infinity: when it is woken. */
  nextAt: number;
  leasedAt: number;
  probedAt: number;
  /** It fails, and is not woken by events. */
  isSlow: boolean;
}

function newlyKnown(webhook: Pick<Known, 'account' | 'kinds' | 'isSlow'>): Known {
  return {
    ...webhook,
    nextAt: Number.POSITIVE_INFINITY,
    leasedAt: Number.NEGATIVE_INFINITY,
    probedAt: Number.NEGATIVE_INFINITY,
  };
}

/** Sends events to webhooks. */
export class WebhookSender {
  readonly #parts: SenderParts;
  readonly #known = new Map<string, Known>();
  readonly #byAccount = new Map<string, Set<string>>();
  readonly #turns: WebhookTurns;
  readonly #ended = new AbortController();
  readonly #timers: NodeJS.Timeout[] = [];
  readonly #unlisten: (() => void)[] = [];
  #isEnding = false;
  #newest = 0;
  /** Events of this process since the last look; their webhooks are woken already. */
  #heard = 0;
  #lookedAt = Number.NEGATIVE_INFINITY;
  #askedAllAt = Number.NEGATIVE_INFINITY;
  #soon: NodeJS.Timeout | undefined;
  #looking: Promise<void> | undefined;

  constructor(parts: SenderParts) {
    this.#parts = parts;
    this.#turns = new WebhookTurns((id) => this.#run(id));
  }

  /** How many webhooks have their turn now, and how many wait for it. */
  get counts(): { readonly running: number; readonly waiting: number } {
    return this.#turns.counts;
  }

  /** Begins to send. */
  async start(): Promise<void> {
    this.#unlisten.push(this.#parts.events.listen((event) => this.#onEvent(event)));
    await this.#look();
    this.#timers.push(
      setInterval(() => this.#tick(), tickMs),
      setInterval(() => this.#lookAgain(), lookEveryMs),
    );
    for (const subject of ['webhooks', 'mail_events'])
      this.#unlisten.push(this.#parts.changes.on(subject, () => this.#lookSoon()));
  }

  /** Looks at once for what was changed in the database, where a webhook was made, changed or removed by this process. */
  async refresh(): Promise<void> {
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
    await this.#looking;
    clearTimeout(patience);
    this.#parts.poster.close();
    // Where they cannot be given back, they end by themselves.
    await this.#parts.leases.release().catch((error: unknown) => {
      this.#parts.log.warn({ reason: errorMessage(error) }, 'webhooks cannot be read');
    });
  }

  #onEvent({ account, kind }: EventFacts): void {
    this.#heard += 1;
    for (const id of this.#byAccount.get(account) ?? []) {
      const known = this.#known.get(id);
      if (!known || known.isSlow || known.kinds?.includes(kind) === false) continue;
      if (kind === 'refused') known.nextAt = Math.min(known.nextAt, this.#parts.clock.monotonic() + refusedMs);
      else this.#turns.ask(id);
    }
  }

  #tick(): void {
    const now = this.#parts.clock.monotonic();
    for (const [id, known] of this.#known) {
      if (known.nextAt > now) continue;
      known.nextAt = Number.POSITIVE_INFINITY;
      this.#turns.ask(id);
    }
  }

  /** Looks because another process has changed something: at once, or after a rest for all that comes during it. */
  #lookSoon(): void {
    if (this.#soon || this.#isEnding) return;
    const rest = this.#lookedAt + restMs - this.#parts.clock.monotonic();
    if (rest <= 0) return this.#lookAgain();
    this.#soon = setTimeout(
      () => {
        this.#soon = undefined;
        this.#lookAgain();
      },
      Math.min(rest, restMs),
    );
  }

  #lookAgain(): void {
    this.#looking ??= this.#look().finally(() => (this.#looking = undefined));
  }

  /** Brings what is known up to date: webhooks that others made, changed or removed, and events that others wrote. */
  async #look(): Promise<void> {
    if (this.#isEnding) return;
    this.#lookedAt = this.#parts.clock.monotonic();
    try {
      const [active, isForIt] = [await this.#parts.leases.active(), await this.#news()];
      const ids = new Set(active.map(({ id }) => id));
      for (const id of this.#known.keys()) if (!ids.has(id)) this.#forget(id);
      for (const { id, account, kinds, replay, failures } of active) {
        const name = this.#parts.accountName(account);
        if (name === undefined) {
          this.#forget(id);
          continue;
        }
        const before = this.#known.get(id);
        const isSlow = failures >= failuresToSlow;
        const isRenewed = before?.isSlow === true && !isSlow;
        // A round under way writes into the same object: in a copy its next time would be lost.
        if (before) Object.assign(before, { account: name, kinds, isSlow });
        else this.#known.set(id, newlyKnown({ account: name, kinds, isSlow }));
        this.#byAccount.set(name, (this.#byAccount.get(name) ?? new Set()).add(id));
        if (!before || isRenewed || (!isSlow && (replay || isForIt(name, kinds)))) this.#turns.ask(id);
      }
    } catch (error) {
      this.#parts.log.warn({ reason: errorMessage(error) }, 'webhooks cannot be read');
    }
  }

  /** Finds out for which webhooks others have written events since the last look. */
  async #news(): Promise<(account: string, kinds: readonly EventKind[] | undefined) => boolean> {
    const { events, clock } = this.#parts;
    const [after, heard] = [this.#newest, this.#heard];
    const newest = await events.newest();
    const isMany = newest - after > mostRead;
    const read = newest - after <= heard || isMany ? [] : (await events.read({ after, limit: mostRead })).events;
    this.#newest = newest;
    this.#heard = 0;
    // Refusals are heard before they are written, so now and then it is not the numbers that decide.
    if (clock.monotonic() - this.#askedAllAt >= allEveryMs) {
      this.#askedAllAt = clock.monotonic();
      return () => newest > after;
    }
    const news = new Map<string, Set<EventKind>>();
    for (const { account, kind } of read) news.set(account, (news.get(account) ?? new Set()).add(kind));
    return (account, kinds) => {
      const told = news.get(account);
      return isMany || (told !== undefined && (kinds === undefined || kinds.some((kind) => told.has(kind))));
    };
  }

  #forget(id: string): void {
    const name = this.#known.get(id)?.account;
    this.#known.delete(id);
    if (name !== undefined) this.#byAccount.get(name)?.delete(id);
  }

  /** Gives a webhook its turn. @returns whether it wants another at once, and whether its endpoint fails */
  async #run(id: string): Promise<{ readonly again: boolean; readonly isFailing: boolean }> {
    const known = this.#known.get(id);
    if (!known || this.#isEnding) return { again: false, isFailing: false };
    try {
      const again = await this.#round(id, known);
      return { again, isFailing: known.isSlow };
    } catch (error) {
      if (!this.#isEnding) {
        this.#parts.log.warn(
          { webhook: id, account: known.account, reason: errorMessage(error) },
          'a webhook is put off',
        );
      }
      known.nextAt = this.#parts.clock.monotonic() + putOffMs;
      return { again: false, isFailing: known.isSlow };
    }
  }

  async #lease(id: string, known: Known): Promise<Leased | undefined> {
    const { clock, leases } = this.#parts;
    // The lease is written anew only when a third of it is over, since each write is a sync of the disk.
    if (clock.monotonic() - known.leasedAt < leaseMs / 3) return await leases.held(id, clock.now());
    known.leasedAt = clock.monotonic();
    const leased = await leases.lease(id, clock.now());
    if (!leased) known.leasedAt = Number.NEGATIVE_INFINITY;
    return leased;
  }

  async #round(id: string, known: Known): Promise<boolean> {
    const { clock, leases, events, poster, log, fileSecrets } = this.#parts;
    const leased = await this.#lease(id, known);
    const secrets = leased?.webhook.source === 'file' ? fileSecrets(id) : leased?.secrets;
    if (!leased || !secrets?.length) {
      known.leasedAt = Number.NEGATIVE_INFINITY;
      known.nextAt = clock.monotonic() + putOffMs;
      return false;
    }
    const isSlow = leased.webhook.failures >= failuresToSlow;
    const mayProbe = isSlow && clock.monotonic() - known.probedAt >= slowPauseMs;
    if (mayProbe) known.probedAt = clock.monotonic();
    const parts = {
      ...{ store: leases, events, poster, now: () => clock.now(), signal: this.#ended.signal },
      isEnding: () => this.#isEnding,
    };
    // A round may last longer than a lease.
    const renewing = setInterval(() => {
      void leases.lease(id, clock.now()).catch((error: unknown) => {
        log.warn({ webhook: id, account: known.account, reason: errorMessage(error) }, 'a webhook is put off');
      });
    }, leaseMs / 3);
    const result = await runRound(parts, { ...leased, secrets }, { account: known.account, mayProbe }).finally(() =>
      clearInterval(renewing),
    );
    return await this.#finish(id, { known, leased, result });
  }

  /** Writes what a round did, and decides when the next one is. */
  async #finish(
    id: string,
    { known, leased, result }: { readonly known: Known; readonly leased: Leased; readonly result: RoundResult },
  ): Promise<boolean> {
    const { clock, leases, onRequest } = this.#parts;
    const { progress, hasMore } = result;
    const { webhook } = leased;
    const isSame =
      progress.log.length === 0 &&
      progress.pending.length === 0 &&
      progress.done.length === 0 &&
      progress.replay?.after === webhook.replay?.after &&
      progress.cursor - webhook.cursor < unwrittenCursor &&
      !hasMore;
    if (!isSame && !(await leases.commit(id, progress, clock.now()))) {
      // Another process sends, or the webhook is gone: what this one sent may be sent again.
      this.#forget(id);
      return false;
    }
    for (const record of progress.log) {
      onRequest?.(record.result);
      if (record.result !== 'delivered') this.#tell(known, leased, record);
    }
    known.isSlow = progress.failures >= failuresToSlow;
    const why = result.isGone
      ? 'the endpoint answered 410'
      : progress.failingMs >= disableAfterMs
        ? 'every request has failed for a day'
        : undefined;
    if (why !== undefined) {
      await this.#disable(id, { known, leased, why });
      return false;
    }
    if (hasMore) return true;
    const ready = await leases.nextReady(id);
    const left = ready === undefined ? Number.POSITIVE_INFINITY : ready - clock.now();
    // A time further ahead than the longest step was written before the clock was set back, and is due.
    const pause = ready !== undefined && left > longestStepMs ? 0 : left;
    const limit = known.isSlow ? slowPauseMs : Number.POSITIVE_INFINITY;
    // A refusal may have set an earlier time during the round.
    known.nextAt = Math.min(known.nextAt, clock.monotonic() + Math.max(0, Math.min(pause, limit)));
    return false;
  }

  async #disable(
    id: string,
    { known, leased, why }: { readonly known: Known; readonly leased: Leased; readonly why: string },
  ): Promise<void> {
    const { events, leases, clock } = this.#parts;
    // The event comes first: after a crash in between it is there twice rather than not at all.
    await events.write([
      {
        kind: 'webhook_disabled',
        at: clock.now(),
        account: known.account,
        ...{ sessionId: id, webhook: id, url: originOf(leased.webhook.url), reason: why },
      },
    ]);
    await leases.disable(id, why);
    this.#forget(id);
  }

  #tell(known: Known, { webhook }: Leased, record: RoundResult['progress']['log'][number]): void {
    this.#parts.log.info(
      {
        webhook: webhook.id,
        account: known.account,
        url: originOf(webhook.url),
        event: record.event,
        attempt: record.attempt,
        status: record.status,
        reason: record.error,
        result: record.result,
      },
      'webhook request failed',
    );
  }
}

/** What of a URL may be told: path and query may hold a secret of the endpoint's. */
function originOf(url: string): string {
  return URL.canParse(url) ? new URL(url).origin : '';
}
