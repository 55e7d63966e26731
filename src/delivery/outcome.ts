// Turns a next hop's reply into the outcome to record: a deferral gets its next time, or is given up (D42a).

import { clockStep, readClock } from '../base/clock.ts';
import type { Outcome } from '../spool/spool.ts';
import { type DeliveryAttempt, outcomeEvent } from '../spool/spool-events.ts';
import { type DueRecipient, type Job, recipientsOf, type Task } from './job.ts';
import type { DeliveryParts } from './new-transport.ts';
import type { OutcomeWriter } from './outcome-writer.ts';
import type { RecipientsInFlight } from './recipients-in-flight.ts';
import type { Ways } from './router.ts';
import type { RetrySettings } from './settings.ts';
import type { RecipientResult } from './smtp/smtp-client.ts';

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

/**
 * Plans what follows a deferral: the delay doubles with each attempt up to its maximum, and is varied at random
 * by `jitter`. The last attempt is made when the message expires, not before.
 * @returns when it is tried again; undefined: the message has expired
 */
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
export class Settler {
  /** Outcomes since the start. */
  readonly counts = { delivered: 0, deferred: 0, failed: 0 };
  readonly #parts: SettlerParts;
  readonly #random: () => number;

  constructor(parts: SettlerParts) {
    this.#parts = parts;
    this.#random = parts.random ?? Math.random;
  }

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
    const { spool, inFlight, ways, log } = this.#parts;
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
    const { clock, settings, outcomes } = this.#parts;
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
