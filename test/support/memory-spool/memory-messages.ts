// Messages and recipients as the spool in memory keeps them.

import type { OutcomeEvent } from '../../../src/spool/events/mail-event.ts';
import type { Hold, Holds } from '../../../src/spool/hold.ts';
import type { QueueItem, RetryCount, SpoolEntry, SpooledRecipient } from '../../../src/spool/spool.ts';
import { countStates, type Tally, tallyOf } from '../../../src/spool/tally.ts';

/** A recipient as it is kept. */
export interface HeldRecipient extends SpooledRecipient {
  readonly transport: string;
  readonly claimedUntil: number;
  readonly endedAt?: number;
}

/** A message as it is kept. */
export interface Held {
  readonly entry: SpoolEntry;
  readonly recipients: HeldRecipient[];
}

/** Due, and claimed by nobody. */
export function isDue(recipient: HeldRecipient, now: number): boolean {
  return recipient.state === 'queued' && Math.max(recipient.nextAttemptAt, recipient.claimedUntil) <= now;
}

/** One of its recipients waits. */
export function isQueued(held: Held): boolean {
  return held.recipients.some((recipient) => recipient.state === 'queued');
}

/** What the message adds to its account's numbers. */
export function tallyOfHeld({ entry, recipients }: Held): Tally {
  return tallyOf(entry.head.length + entry.body.length, countStates(recipients.map(({ state }) => state)));
}

/** The hold that keeps a recipient waiting. */
export function holdOf(held: Held, recipient: HeldRecipient, holds: Holds): Hold | undefined {
  const { id, account } = held.entry;
  if (recipient.state !== 'queued') return undefined;
  return (
    holds.ofLine({ transport: recipient.transport, account }) ?? holds.ofRecipient({ id, address: recipient.address })
  );
}

/** The message as the queue commands show it. */
export function itemOf(held: Held, holds: Holds): QueueItem {
  const { entry, recipients } = held;
  const { head, body, recipients: _, transports: _lanes, received: _received, ...rest } = entry;
  return {
    entry: kept(rest),
    size: head.length + body.length,
    recipients: recipients.map((recipient) => {
      const { transport: _transport, claimedUntil: _claim, endedAt: _end, ...told } = recipient;
      const hold = holdOf(held, recipient, holds);
      return hold ? { ...told, hold } : told;
    }),
  };
}

/** The recipient behind an attempt that has ended. */
export function recorded(recipient: HeldRecipient, outcome: OutcomeEvent, now: number): HeldRecipient {
  const { endedAt: _, ...rest } = recipient;
  return {
    ...rest,
    state: outcome.kind === 'deferred' ? 'queued' : outcome.kind,
    attempts: recipient.attempts + (outcome.kind === 'deferred' && outcome.isUntried ? 0 : 1),
    nextAttemptAt: outcome.kind === 'deferred' ? outcome.nextAttemptAt : now,
    claimedUntil: 0,
    lastReply: outcome.reply,
    lastHost: outcome.host,
    ...(outcome.kind === 'deferred' ? {} : { endedAt: now }),
  };
}

/** The recipient queued again. A claim stays: its holder may be speaking to the next hop right now. */
export function requeued(before: HeldRecipient, now: number): HeldRecipient {
  const { endedAt: _, ...recipient } = before;
  const claimedUntil = recipient.state === 'queued' ? recipient.claimedUntil : 0;
  return { ...recipient, state: 'queued', nextAttemptAt: now, claimedUntil };
}

/** Counts what was queued again, message by message. */
export function retryCount(made: readonly Omit<RetryCount, 'messages'>[]): RetryCount {
  return {
    messages: made.filter(({ recipients }) => recipients > 0).length,
    recipients: made.reduce((sum, { recipients }) => sum + recipients, 0),
    failed: made.reduce((sum, { failed }) => sum + failed, 0),
  };
}

/** The message without what only `add` uses. */
export function kept<T extends Partial<Pick<SpoolEntry, 'reports' | 'answers' | 'keepsClientId'>>>(
  entry: T,
): Omit<T, 'reports' | 'answers' | 'keepsClientId'> {
  const { reports: _reports, answers: _answers, keepsClientId: _keeps, ...rest } = entry;
  return rest;
}

/** The recipient with all its times moved by as much as the wall clock was set. */
export function movedBy({ endedAt, ...recipient }: HeldRecipient, step: number): HeldRecipient {
  return {
    ...recipient,
    nextAttemptAt: recipient.nextAttemptAt + step,
    claimedUntil: recipient.claimedUntil + step,
    ...(endedAt === undefined ? {} : { endedAt: endedAt + step }),
  };
}

/** When the first of these recipients is to be tried. */
export function earliestOf(recipients: readonly HeldRecipient[]): number {
  return recipients.reduce(
    (earliest, { nextAttemptAt }) => Math.min(earliest, nextAttemptAt),
    Number.POSITIVE_INFINITY,
  );
}
