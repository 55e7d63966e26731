// Makes the answer to a failure (D60, D62, D65): the custom error of the zone or its account, else the default in the format that
// Accept asks for.

import type { Clock } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import { edgeErrors } from './errors/catalogue.ts';
import type {
  EdgeCode,
  EdgeError,
  EdgeFormat,
  EdgeOccurrence,
  ErrorAnswer,
  ErrorRequest,
} from './errors/edge-error.ts';
import type { EdgeZone } from './zone/zone.ts';

/** What answers are made of. */
export interface ErrorAnswerParts {
  readonly negotiate: (accept: string | undefined) => EdgeFormat;
  readonly defaultAnswer: (occurrence: EdgeOccurrence, format: EdgeFormat) => ErrorAnswer;
  /** Custom Error Rules and Error Pages (D65); undefined where none fits. */
  readonly customAnswer: (zone: EdgeZone, occurrence: EdgeOccurrence, request: ErrorRequest) => ErrorAnswer | undefined;
  /** Without a slash at the end; undefined where clients can be told no place (D62). */
  readonly docsBaseUrl: () => string | undefined;
  readonly clock: Clock;
  readonly log: Logger;
}

/** A failure. */
export interface Failure {
  readonly code: EdgeCode;
  readonly rayId: string;
  readonly request: ErrorRequest;
  /** Absent where the request is for no zone: the answer is then never a custom one. */
  readonly zone?: EdgeZone | undefined;
  /** Seconds to the end of the client's window; only of a real 1015. */
  readonly waitSeconds?: number | undefined;
}

/** An answer, and a phrase for its status where HTTP has none. */
export interface FailureAnswer extends ErrorAnswer {
  readonly reason?: string | undefined;
}

/** Reason phrases of statuses that no RFC has, since a bare number tells a person at a terminal little (RFC 9112 §4). */
const reasons: Readonly<Record<number, string>> = {
  520: 'Unknown Origin Error',
  521: 'Origin Down',
  522: 'Origin Connection Timeout',
  523: 'Origin Unreachable',
  524: 'Origin Response Timeout',
  525: 'Origin TLS Handshake Failed',
  526: 'Invalid Origin Certificate',
  530: 'Edge Error',
};

/**
 * The wait of an occurrence (D60). For 1015, at /cdn-cgi/error too, it is the zone's configured wait, or without one the time
 * to the end of the client's window, so that a client that waits is served. For other errors it is the catalogue's.
 */
function retryAfterOf({ code, retryAfterSeconds }: EdgeError, { zone, waitSeconds }: Failure): number | undefined {
  if (code !== 1015) return retryAfterSeconds;
  return zone?.rateLimit?.retryAfterSeconds ?? waitSeconds ?? retryAfterSeconds;
}

/** Makes answers to failures, from the catalogue. */
export function createErrorAnswers(parts: ErrorAnswerParts): (failure: Failure) => FailureAnswer {
  const custom = (zone: EdgeZone, occurrence: EdgeOccurrence, request: ErrorRequest): ErrorAnswer | undefined => {
    try {
      return parts.customAnswer(zone, occurrence, request);
    } catch (error) {
      // Custom errors failed by a fault of ours: the default answer still tells of the first failure.
      parts.log.error({ ray: occurrence.rayId, zone: zone.name, err: error }, 'custom errors failed');
      return undefined;
    }
  };
  return (failure) => {
    const { code, rayId, request, zone } = failure;
    const error = edgeErrors[code];
    const occurrence: EdgeOccurrence = {
      error,
      rayId,
      at: parts.clock.now(),
      zone: request.host,
      retryAfterSeconds: retryAfterOf(error, failure),
      docsBaseUrl: parts.docsBaseUrl(),
    };
    // RFC 9110 §5.3: several lines are one list.
    const accept = request.header('accept');
    const { status, headers, body } =
      (zone && custom(zone, occurrence, request)) ??
      parts.defaultAnswer(occurrence, parts.negotiate(accept.length === 0 ? undefined : accept.join(', ')));
    return { status, reason: reasons[status], headers, body };
  };
}

/** The answer where even the answer to an error cannot be made. */
export const lastResort: FailureAnswer = {
  status: 500,
  headers: { 'Content-Type': 'text/plain; charset=utf-8', 'Cache-Control': 'private, no-store' },
  body: Buffer.from('Internal error\n'),
};
