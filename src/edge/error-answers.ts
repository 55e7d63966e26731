// Answers requests with errors (D60, D62, D65): the custom error of zone or account, else the default in the format of Accept.

import type { IncomingMessage } from 'node:http';
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import { edgeErrors } from './errors/catalogue.ts';
import { defaultAnswer } from './errors/default-answer.ts';
import type { EdgeError, EdgeOccurrence, ErrorAnswer, ErrorRequest } from './errors/edge-error.ts';
import { negotiate } from './errors/negotiate.ts';
import type { Exchange, Fail } from './exchange.ts';
import type { EdgeZone } from './zone/zone.ts';

/** What the answers are made of. */
export interface ErrorAnswerParts {
  /** Custom Error Rules and Error Pages (D65); undefined where none fits. */
  readonly customAnswer: (zone: EdgeZone, occurrence: EdgeOccurrence, request: ErrorRequest) => ErrorAnswer | undefined;
  /** As `EdgeOccurrence` has it. Called with each error, since the port may be known only once it is bound (D62). */
  readonly docsBaseUrl: () => string | undefined;
  readonly clock: Clock;
  readonly log: Logger;
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

/** The wait that is told (D60): for 1015 the zone's, or without one the time to the end of the client's window; else the catalogue's. */
function retryAfterOf(error: EdgeError, zone: EdgeZone | undefined, waitSeconds: number | undefined) {
  if (error.code !== 1015) return error.retryAfterSeconds;
  return zone?.rateLimit?.retryAfterSeconds ?? waitSeconds ?? error.retryAfterSeconds;
}

/** Finds every line of a field, for who asks for many fields: rules may name hundreds, and a request have thousands of lines. */
function indexedHeaderOf({ rawHeaders }: IncomingMessage): ErrorRequest['header'] {
  let byName: Map<string, string[]> | undefined;
  const read = (): Map<string, string[]> => {
    const fields = new Map<string, string[]>();
    for (let index = 0; index < rawHeaders.length; index += 2) {
      const name = (rawHeaders[index] ?? '').toLowerCase();
      const values = fields.get(name);
      if (values) values.push(rawHeaders[index + 1] ?? '');
      else fields.set(name, [rawHeaders[index + 1] ?? '']);
    }
    return fields;
  };
  return (name) => (byName ??= read()).get(name) ?? [];
}

/** Makes `Fail`. */
export function createFail({ customAnswer, docsBaseUrl, clock, log }: ErrorAnswerParts): Fail {
  const custom = (zone: EdgeZone, occurrence: EdgeOccurrence, request: ErrorRequest): ErrorAnswer | undefined => {
    try {
      return customAnswer(zone, occurrence, request);
    } catch (error) {
      // Custom errors failed by a fault of ours: the default answer still tells of the first failure.
      log.error({ ray: occurrence.rayId, zone: zone.name, err: error }, 'custom errors failed');
      return undefined;
    }
  };
  return (exchange: Exchange, code, waitSeconds) => {
    exchange.code = code;
    const { request, client, sink } = exchange;
    const { rayId, route } = exchange.arrival;
    const zone = exchange.zone?.zone;
    const error = edgeErrors[code];
    const occurrence: EdgeOccurrence = {
      error,
      rayId,
      at: clock.now(),
      zone: route.host,
      retryAfterSeconds: retryAfterOf(error, zone, waitSeconds),
      docsBaseUrl: docsBaseUrl(),
    };
    const asked: ErrorRequest = {
      method: client.failure?.method ?? request.method ?? 'GET',
      path: route.path,
      host: route.host,
      header: indexedHeaderOf(request),
      clientAddress: client.address,
    };
    // RFC 9110 §5.3: several lines are one list.
    const accept = asked.header('accept');
    const answer =
      (zone && custom(zone, occurrence, asked)) ??
      defaultAnswer(occurrence, negotiate(accept.length === 0 ? undefined : accept.join(', ')));
    sink.send({ ...answer, reason: reasons[answer.status] });
  };
}
