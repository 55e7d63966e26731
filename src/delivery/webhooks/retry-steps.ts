// When an event that did not get through is sent again, and when a webhook has failed for a day. Steps are counted, not
// clock time, so that a clock that is set neither gives an event up nor disables a webhook.

/** Seconds from each attempt to the next: twelve attempts after the first one, the last a day later. */
const stepSeconds = [5, 30, 120, 600, 1800, 3600, 7200, 10_800, 14_400, 14_400, 14_400, 19_200] as const;

/** The longest step in milliseconds: a time further ahead was written before the clock was set back. */
export const longestStepMs = 19_200_000;

/** Milliseconds until an event is sent again, after so many attempts; undefined: it is given up. */
export function nextStepMs(attempts: number): number | undefined {
  const seconds = stepSeconds[attempts - 1];
  return seconds === undefined ? undefined : seconds * 1000;
}

/** The longest wait that an endpoint may ask for, in milliseconds. */
const longestAskedMs = 3_600_000;

/**
 * Reads Retry-After (RFC 9110 §10.2.3), seconds or a date.
 * @param now milliseconds since 1970
 * @returns milliseconds, an hour at most; 0 where it says nothing
 */
export function retryAfterMs(text: string | undefined, now: number): number {
  if (text === undefined) return 0;
  const asked = /^\d{1,10}$/.test(text) ? Number(text) * 1000 : Date.parse(text) - now;
  return asked > 0 ? Math.min(asked, longestAskedMs) : 0;
}

/** For how long a webhook must have failed, without one success, to be disabled. */
export const disableAfterMs = 86_400_000;

/** How long a webhook has failed: what it had before, and what has passed since, at most the longest step. */
export function failingFor(before: number, lastFailureAt: number | undefined, now: number): number {
  if (lastFailureAt === undefined) return 0;
  return before + Math.min(Math.max(0, now - lastFailureAt), longestStepMs);
}

/** Failures one after another, with no success between, after which new events are tried one at a time. */
export const failuresToSlow = 10;
/** How long such a webhook waits between two events, in milliseconds. */
export const slowPauseMs = 60_000;
