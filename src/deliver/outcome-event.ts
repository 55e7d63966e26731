// The outcome of an attempt for one recipient as others hear of it: a line in the log, an event.

import type { Logger } from '../base/log.ts';
import type { Outcome } from '../spool/spool.ts';
import type { JobEntry } from './job.ts';

/** What of a next hop's words goes into the log, in characters. */
const loggedReply = 300;

/** Told of every outcome of a recipient. */
export interface OutcomeEvent {
  readonly entry: JobEntry;
  readonly recipient: string;
  readonly outcome: Outcome;
  /** Name of the route. */
  readonly route: string;
  /** Attempts made so far, this one included. */
  readonly attempts: number;
  /** For a deferral: milliseconds since 1970. */
  readonly nextAttemptAt?: number;
}

/** Writes the outcome's one line: `delivered`, `deferred` or `failed`, with the ids that lead back to the session. */
export function logOutcome(log: Logger, event: OutcomeEvent, now: number): void {
  const { entry, outcome } = event;
  const { reply, kind } = outcome;
  const line = {
    session: entry.sessionId,
    id: entry.id,
    messageId: entry.messageId,
    account: entry.account,
    recipient: event.recipient,
    route: event.route,
    host: outcome.host,
    code: reply.code,
    ...(reply.enhanced === undefined ? {} : { enhanced: reply.enhanced }),
    reply: reply.text.slice(0, loggedReply),
    attempts: event.attempts,
    delayMs: now - entry.acceptedAt,
    ...(event.nextAttemptAt === undefined ? {} : { retryInMs: event.nextAttemptAt - now }),
  };
  if (kind === 'failed') log.warn(line, kind);
  else log.info(line, kind);
}
