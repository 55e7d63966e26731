// Turns a next hop's reply into the outcome to record: a deferral gets its next time, or is given up (D42a).

import type { Outcome } from '../spool/spool.ts';
import { planRetry } from './retry.ts';
import type { RetrySettings } from './settings.ts';
import type { RecipientResult } from './smtp/smtp-client.ts';

function days(milliseconds: number): string {
  const value = milliseconds / 86_400_000;
  return value >= 1 ? `${Number(value.toFixed(1))} days` : `${Math.round(milliseconds / 1000)} seconds`;
}

/** The outcome of an attempt, and for a deferral when to try again. */
export interface SettledOutcome {
  readonly outcome: Outcome;
  /** Milliseconds since 1970; present for deferrals only. */
  readonly nextAttemptAt?: number;
}

/**
 * Decides the outcome for a recipient. A deferral of an expired message fails with 4.4.7 (RFC 3463 §3.5, delivery time
 * expired) and the next hop's last reply.
 * @param attempt.attempts attempts so far, this one included
 * @param attempt.host who replied
 * @param attempt.random from 0 up to, not including, 1
 */
export function settleOutcome(
  { kind, reply }: RecipientResult,
  settings: RetrySettings,
  attempt: {
    readonly host: string;
    readonly attempts: number;
    readonly now: number;
    readonly acceptedAt: number;
    readonly expiresAt: number;
    readonly random: number;
  },
): SettledOutcome {
  const { host } = attempt;
  if (kind !== 'deferred') return { outcome: { kind, reply, host } };
  const plan = planRetry(settings, attempt);
  if (plan.kind === 'retry') return { outcome: { kind, reply, host }, nextAttemptAt: plan.at };
  const last = `${reply.code} ${reply.enhanced ? `${reply.enhanced} ` : ''}${reply.text}`;
  const text = `Expired after ${days(Math.max(0, attempt.now - attempt.acceptedAt))}; last reply: ${last}`;
  return { outcome: { kind: 'failed', reply: { code: reply.code, enhanced: '4.4.7', text }, host } };
}
