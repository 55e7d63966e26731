// A message and its recipients in memory, for the spool that keeps everything there.

import type { OutcomeEvent } from '../events/mail-event.ts';
import type { QueueItem, SpoolEntry, SpooledRecipient } from './spool.ts';
import { countStates, type Tally, tallyOf } from './tally.ts';

/** A recipient in memory. */
export interface HeldRecipient extends SpooledRecipient {
  readonly transport: string;
  readonly claimedUntil: number;
  readonly endedAt?: number;
}

/** A message in memory. */
export interface Held {
  readonly entry: SpoolEntry;
  readonly recipients: HeldRecipient[];
}

/** Tells whether a recipient is due and not claimed. */
export function isDue(recipient: HeldRecipient, now: number): boolean {
  return recipient.state === 'queued' && Math.max(recipient.nextAttemptAt, recipient.claimedUntil) <= now;
}

/** Tells whether a recipient of the message is queued. */
export function isQueued(held: Held): boolean {
  return held.recipients.some((recipient) => recipient.state === 'queued');
}

/** The numbers of a message. */
export function tallyOfHeld({ entry, recipients }: Held): Tally {
  return tallyOf(entry.head.length + entry.body.length, countStates(recipients.map(({ state }) => state)));
}

/** Shows a message. */
export function itemOf({ entry, recipients }: Held): QueueItem {
  const { head, body, recipients: _, transports: _lanes, received: _received, ...others } = entry;
  return {
    entry: kept(others),
    size: head.length + body.length,
    recipients: recipients.map(
      ({ transport: _transport, claimedUntil: _claim, endedAt: _end, ...recipient }) => recipient,
    ),
  };
}

/** A recipient after an attempt. */
export function recorded(recipient: HeldRecipient, outcome: OutcomeEvent, now: number): HeldRecipient {
  const { endedAt: _, ...rest } = recipient;
  return {
    ...rest,
    state: outcome.kind === 'deferred' ? 'queued' : outcome.kind,
    attempts: recipient.attempts + 1,
    nextAttemptAt: outcome.kind === 'deferred' ? outcome.nextAttemptAt : now,
    claimedUntil: 0,
    lastReply: outcome.reply,
    lastHost: outcome.host,
    ...(outcome.kind === 'deferred' ? {} : { endedAt: now }),
  };
}

/** The message without what only `add` uses. */
export function kept<T extends Partial<Pick<SpoolEntry, 'reports' | 'answers' | 'keepsClientId'>>>(
  entry: T,
): Omit<T, 'reports' | 'answers' | 'keepsClientId'> {
  const { reports: _reports, answers: _answers, keepsClientId: _keeps, ...rest } = entry;
  return rest;
}
