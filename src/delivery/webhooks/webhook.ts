// What a webhook is: an endpoint of an account's that is told of events (D54).

import type { EventKind } from '../../spool/events/mail-event.ts';

/** A webhook. Times are milliseconds since 1970. */
export interface Webhook {
  /** 32 hex digits. */
  readonly id: string;
  /** Id of the account. */
  readonly account: string;
  /** Whether the API made it, or the configuration file has it, which then alone may change it. */
  readonly source: 'api' | 'file';
  readonly url: string;
  /** Which events it is told of; undefined: all. */
  readonly kinds: readonly EventKind[] | undefined;
  /** For people; '' where there is none. In the file it is the webhook's name. */
  readonly note: string;
  readonly createdAt: number;
  readonly isEnabled: boolean;
  /** Why it was disabled, where it was not by the account itself. */
  readonly disabledReason: string | undefined;
  /** Requests that have failed one after another until now. */
  readonly failures: number;
  /** The id of the last event that was dealt with or is among those that are tried again. */
  readonly cursor: number;
  /** Events that are sent again on demand. */
  readonly replay: Replay | undefined;
}

/** Events by their ids: those behind `after`, up to `until`. */
export interface Replay {
  readonly after: number;
  readonly until: number;
}

/** A webhook to be made. */
export interface NewWebhook extends Pick<Webhook, 'account' | 'url' | 'kinds' | 'note'> {
  readonly secret: string;
}

/** What may be changed of a webhook; what is absent stays as it is. */
export interface WebhookChange {
  readonly url?: string | undefined;
  readonly kinds?: readonly EventKind[] | undefined;
  readonly note?: string | undefined;
  readonly isEnabled?: boolean | undefined;
}

/** A webhook of the configuration file. */
export interface ConfiguredWebhook extends Pick<Webhook, 'id' | 'account' | 'url' | 'kinds' | 'note'> {
  /** The secret and, while it is being replaced, the one before; read when they are used. */
  readonly secrets: () => readonly string[];
}

/** One request of a webhook, as the delivery log keeps it. */
export interface DeliveryRecord {
  /** A later one has a greater id. */
  readonly id: number;
  readonly event: number;
  readonly kind: string;
  /** Which attempt for this event it was, from 1 on. */
  readonly attempt: number;
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly durationMs: number;
  /** Of `given_up` it was the last attempt. */
  readonly result: 'delivered' | 'failed' | 'given_up';
  /** The HTTP status; undefined where there was no answer. */
  readonly status: number | undefined;
  /** Why it failed; undefined where it did not. */
  readonly error: string | undefined;
}

/** How many webhooks an account may have, those of the file included. */
export const webhooksPerAccount = 20;
/** For how long the secret before still signs after a rotation, in milliseconds. */
export const rotationMs = 86_400_000;

// When an event that did not get through is sent again, and when a webhook has failed for a day. Steps are counted, not clock time, so
// that a clock that is set neither gives an event up nor disables a webhook.

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

/** Reads Retry-After (RFC 9110 §10.2.3). @param now milliseconds since 1970 @returns milliseconds, an hour at most; 0 for none */
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
