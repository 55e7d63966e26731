// Turns a next hop's reply into the outcome to record: a deferral gets its next time, or is given up (D42a).

import { setTimeout as sleep } from 'node:timers/promises';
import { clockStep, readClock } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import { Part } from '../base/part.ts';
import type { OutcomeEvent } from '../spool/events/mail-event.ts';
import type { Outcome, Spool } from '../spool/spool.ts';
import { type DeliveryAttempt, outcomeEvent } from '../spool/spool-events.ts';
import { type DueRecipient, type Job, recipientsOf, type Task } from './job.ts';
import type { DeliveryParts } from './new-transport.ts';
import type { RecipientsInFlight } from './recipients-in-flight.ts';
import type { Ways } from './router.ts';
import type { RetrySettings } from './settings.ts';
import type { RecipientResult } from './smtp/smtp-client.ts';

/** Milliseconds before a failed write is repeated, twice as long each time to a bound: nothing is delivered meanwhile. */
const [firstRetryMs, mostRetryMs] = [50, 400];
/** How often the log tells of failed writes, in milliseconds. */
const tellEveryMs = 1000;
/** Outcomes that are told of one by one where they could not be written at the end. */
const mostTold = 100;

interface OutcomeWriterParts {
  readonly spool: Pick<Spool, 'record'>;
  readonly log: Logger;
  /** The spool has stopped taking outcomes, or takes them again. */
  onHealth(isHealthy: boolean): void;
  /** These outcomes are on disk. */
  onWritten(outcomes: readonly OutcomeEvent[]): void;
}

/** The outcomes that are not in the spool yet. */
export class OutcomeWriter extends Part<OutcomeWriterParts> {
  /** Outcomes that are not on disk yet. */
  unwritten = 0;
  readonly #underWay = new Set<Promise<void>>();
  #waiting: OutcomeEvent[] = [];
  #isScheduled = false;
  #retryTimer: NodeJS.Timeout | undefined;
  #retryMs = firstRetryMs;
  #toldAt = Number.NEGATIVE_INFINITY;
  /** When `settle` gives up, by `performance.now()`. */
  #settleUntil = Number.POSITIVE_INFINITY;

  write(outcome: OutcomeEvent): void {
    this.#waiting.push(outcome);
    this.unwritten += 1;
    if (this.#isScheduled || this.#retryTimer) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#flush();
    });
  }

  /** Resolves when all is written. What is not within `withinMs` milliseconds is tried once more and logged. May be called again. */
  async settle(withinMs: number): Promise<void> {
    this.#settleUntil = Math.min(this.#settleUntil, performance.now() + withinMs);
    for (;;) {
      const isLast = performance.now() >= this.#settleUntil;
      this.#flush();
      await Promise.all(this.#underWay);
      clearTimeout(this.#retryTimer);
      if (this.unwritten === 0) return;
      if (isLast) break;
      await sleep(Math.max(0, Math.min(mostRetryMs, this.#settleUntil - performance.now())));
    }
    this.#tellUnwritten();
  }

  /** Tells what is lost with this process: it is not known by then who has his mail. */
  #tellUnwritten(): void {
    for (const { kind, queueId, recipient } of this.#waiting.slice(0, mostTold))
      this.parts.log.error(
        { id: queueId, recipient, outcome: kind },
        'an outcome could not be recorded before the end',
      );
    this.parts.log.error(
      { outcomes: this.unwritten },
      'ending with outcomes that are not recorded: their mail is sent again',
    );
  }

  #flush(): void {
    // All that waits is written now, what had failed too: while a retry is under way in vain, nobody would hear that all is well.
    clearTimeout(this.#retryTimer);
    this.#retryTimer = undefined;
    if (this.#waiting.length === 0) return;
    const outcomes = this.#waiting;
    this.#waiting = [];
    const writing = this.#record(outcomes);
    this.#underWay.add(writing);
    void writing.then(() => this.#underWay.delete(writing));
  }

  async #record(outcomes: readonly OutcomeEvent[]): Promise<void> {
    try {
      await this.parts.spool.record(outcomes);
      this.unwritten -= outcomes.length;
      this.parts.onWritten(outcomes);
      this.#retryMs = firstRetryMs;
      if (!this.#retryTimer) this.parts.onHealth(true);
    } catch (thrown) {
      this.#tell(thrown, outcomes.length);
      this.#waiting = [...outcomes, ...this.#waiting];
      this.parts.onHealth(false);
      if (!this.#retryTimer) this.#retryLater();
    }
  }

  #tell(err: unknown, outcomes: number): void {
    if (performance.now() - this.#toldAt < tellEveryMs) return;
    this.#toldAt = performance.now();
    this.parts.log.error({ err, outcomes }, 'Cannot record outcomes; delivery waits');
  }

  #retryLater(): void {
    this.#retryTimer = setTimeout(() => this.#flush(), this.#retryMs);
    this.#retryMs = Math.min(mostRetryMs, 2 * this.#retryMs);
  }
}

/** A deferral, of which the next attempt is planned. */
interface Deferral {
  /** Attempts made so far, this one included; 1 or more. */
  readonly attempts: number;
  /** Milliseconds since 1970, as the other times. */
  readonly now: number;
  readonly expiresAt: number;
  /** From 0 up to, not including, 1. */
  readonly random: number;
  /** When a next hop that could not be reached is tried again; absent: as the retry settings say. */
  readonly retryAt?: number | undefined;
}

/** Plans a retry: delays double to a maximum, varied by `jitter`, and the last is at the expiry. undefined: it has expired. */
export function planRetry(settings: RetrySettings, deferral: Deferral): number | undefined {
  const { attempts, now, expiresAt, random, retryAt } = deferral;
  if (now >= expiresAt) return undefined;
  const delay = Math.min(settings.firstDelaySeconds * 2 ** (attempts - 1), settings.maxDelaySeconds);
  const jittered = delay * (1 + settings.jitter * (2 * random - 1));
  return Math.min(retryAt ?? Math.round(now + jittered * 1000), expiresAt);
}

function days(milliseconds: number): string {
  const value = milliseconds / 86_400_000;
  return value >= 1 ? `${Number(value.toFixed(1))} days` : `${Math.round(milliseconds / 1000)} seconds`;
}

/** Decides the outcome for a recipient. A deferral of an expired message fails with 4.4.7 (RFC 3463 §3.5) and the hop's last reply. */
export function settleOutcome(
  result: RecipientResult,
  settings: RetrySettings,
  attempt: Deferral & Replier & { readonly acceptedAt: number },
): Pick<DeliveryAttempt, 'outcome' | 'nextAttemptAt'> {
  const { host, tls, now, acceptedAt } = attempt;
  const outcome = { ...result, ...(tls ? { host, tls } : { host }) };
  const { kind, reply } = outcome;
  if (kind !== 'deferred') return { outcome };
  const nextAttemptAt = planRetry(settings, attempt);
  if (nextAttemptAt !== undefined) return { outcome, nextAttemptAt };
  const last = `${reply.code} ${reply.enhanced ? `${reply.enhanced} ` : ''}${reply.text}`;
  const text = `Expired after ${days(Math.max(0, now - acceptedAt))}; last reply: ${last}`;
  return { outcome: { ...outcome, kind: 'failed', reply: { code: reply.code, enhanced: '4.4.7', text } } };
}

interface SettlerParts extends Pick<DeliveryParts, 'spool' | 'settings' | 'clock' | 'log' | 'random'> {
  readonly inFlight: RecipientsInFlight;
  readonly ways: Ways;
  readonly outcomes: OutcomeWriter;
}

/** Who gave a result: `route name (host:port)`, and the TLS of the connection where there was one. */
type Replier = Pick<Outcome, 'host' | 'tls'>;

/** How a task ended. */
export interface TaskEnd {
  /** One for each recipient of its envelope, in order. */
  readonly results: readonly RecipientResult[];
  readonly by: Replier;
  /** Where the next hop could not be reached, so that there was no attempt: when it is tried again. */
  readonly retryInMs?: number | undefined;
}

/** A result that is to be settled; `random` decides the jitter of the next attempt. */
interface Ended extends Omit<TaskEnd, 'results'> {
  readonly result: RecipientResult;
  readonly random: number;
}

/** Settles the attempts of a delivery. */
export class Settler extends Part<SettlerParts> {
  /** Outcomes since the start. */
  readonly counts = { delivered: 0, deferred: 0, failed: 0 };
  readonly #random = this.parts.random ?? Math.random;

  /** Settles a task that has ended. @returns a promise where more recipients have to be looked for; it never rejects */
  settle(task: Task, end: TaskEnd): Promise<void> | undefined {
    const { job } = task;
    const { results, by, retryInMs } = end;
    if (job.redirect) return this.#settleRedirected(task, end);
    for (const [index, recipient] of recipientsOf(task).entries()) {
      const result = results[index];
      if (result) this.#settleOne(job, recipient, { result, by, retryInMs, random: this.#random() });
    }
    return undefined;
  }

  /** Settles a redirected message (D98a): its one result is that of all its recipients, tried again together for one copy. */
  #settleRedirected(task: Task, { results: [result], by, retryInMs }: TaskEnd): Promise<void> | undefined {
    if (!result) return undefined;
    const ended = { result, by, retryInMs, random: this.#random() };
    const attempts = task.recipients[0]?.attempts ?? 0;
    for (const { address } of recipientsOf(task)) this.#settleOne(task.job, { address, attempts }, ended);
    return result.kind === 'delivered' ? this.#settleOthers(task.job, ended) : undefined;
  }

  /** Records delivery for recipients of a redirected message that were not due: the copy names them, and no second one may leave. */
  async #settleOthers(job: Job, ended: Ended): Promise<void> {
    const { spool, inFlight, ways, log } = this.parts;
    const { id } = job.entry;
    try {
      const item = await spool.show(id);
      for (const { address, state, attempts } of item?.recipients ?? []) {
        if (state !== 'queued' || inFlight.has(id, address) || !ways.isCovered(job, address)) continue;
        inFlight.add(id, address);
        this.#settleOne(job, { address, attempts }, ended);
      }
    } catch (error) {
      log.error({ id, err: error }, 'Cannot look for the other recipients of a message');
    }
  }

  #settleOne(job: Job, { address, attempts: before }: DueRecipient, { result, by, random, retryInMs }: Ended): void {
    const { clock, settings, outcomes } = this.parts;
    const { entry, share, size, takenAt, redirect } = job;
    const at = readClock(clock);
    const now = at.wall;
    // Where the clock was set, the spool has moved its times by as much.
    const expiresAt = entry.expiresAt + clockStep(takenAt, at);
    const isUntried = retryInMs !== undefined;
    const attempts = isUntried ? before : before + 1;
    const retryAt = isUntried ? now + Math.max(1, Math.ceil(retryInMs)) : undefined;
    const { acceptedAt } = entry;
    const attempt = { ...by, attempts, now, acceptedAt, expiresAt, random, retryAt };
    const about = { recipient: address, redirectedTo: redirect?.to, route: share.route.name, size, isUntried };
    const settled = settleOutcome(result, settings.retry, attempt);
    const event = outcomeEvent(entry, { ...about, attempts, at: now, ...settled });
    outcomes.write(event);
    this.counts[event.kind] += 1;
  }
}
