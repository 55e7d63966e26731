// Decides when a deferred recipient is tried again, and when it is given up (D42a).

import type { RetrySettings } from './settings.ts';

/** What to do after a deferral. */
export type RetryPlan = { readonly kind: 'retry'; readonly at: number } | { readonly kind: 'expired' };

/**
 * Plans what follows a deferral: the delay grows by `factor` with each attempt up to its maximum, and is varied at random
 * by `jitter`. The last attempt is made when the message expires, not before.
 * @param attempt.attempts attempts made so far, this one included; 1 or more
 * @param attempt.now, attempt.expiresAt milliseconds since 1970
 * @param attempt.random from 0 up to, not including, 1
 */
export function planRetry(
  settings: RetrySettings,
  attempt: { readonly attempts: number; readonly now: number; readonly expiresAt: number; readonly random: number },
): RetryPlan {
  if (attempt.now >= attempt.expiresAt) return { kind: 'expired' };
  const delay = Math.min(
    settings.firstDelaySeconds * settings.factor ** (attempt.attempts - 1),
    settings.maxDelaySeconds,
  );
  const jittered = delay * (1 + settings.jitter * (2 * attempt.random - 1));
  return { kind: 'retry', at: Math.min(Math.round(attempt.now + jittered * 1000), attempt.expiresAt) };
}
