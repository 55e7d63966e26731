// Errors as they happen, for tests of what answers them: rows of the test's own, not the catalogue's.

import type { EdgeError, EdgeOccurrence, ErrorAnswer, ErrorRequest } from '../../src/edge/errors/catalogue.ts';
import { piecesOf } from '../../src/web/http/listener/whole-response.ts';

/** A retryable error and one that is not. */
export const sampleErrors = {
  timeout: {
    code: 522,
    status: 522,
    name: 'connection_timeout',
    shortName: 'Connection timed out',
    category: 'origin',
    retryAfterSeconds: 120,
    ownerAction: true,
    detail: 'The origin did not answer.',
    guidance: 'Try again later.',
    ownerGuidance: '',
  },
  limited: {
    code: 1015,
    status: 429,
    name: 'rate_limited',
    shortName: 'Rate limited',
    category: 'rate_limit',
    retryAfterSeconds: 30,
    ownerAction: false,
    detail: 'Too many requests.',
    guidance: 'Wait.',
    ownerGuidance: '',
  },
  blocked: {
    code: 1006,
    status: 403,
    name: 'address_blocked',
    shortName: 'Access "denied" <here> & there',
    category: 'access_denied',
    ownerAction: true,
    detail: 'The owner said "no" & <b>means</b> it; it\u2019s final.',
    guidance: 'Ask the owner.',
    ownerGuidance: '',
  },
} as const satisfies Record<string, EdgeError>;

/** An occurrence of an error; its Retry-After is the row's. */
export function occurrenceOf(error: EdgeError, more: Partial<EdgeOccurrence> = {}): EdgeOccurrence {
  const { retryAfterSeconds } = error;
  return {
    error,
    rayId: '0123456789abcdef',
    at: 1_700_000_000_000,
    zone: 'www.example.com',
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
    docsBaseUrl: 'http://127.0.0.1:8080',
    ...more,
  };
}

/** The content of an answer as text. */
export function bodyText({ body }: ErrorAnswer): string {
  return Buffer.concat(piecesOf(body).pieces).toString();
}

/** A request that met it. */
export function errorRequest(
  more: Partial<Omit<ErrorRequest, 'header'>> & { readonly headers?: Readonly<Record<string, readonly string[]>> } = {},
): ErrorRequest {
  const { headers = {}, ...rest } = more;
  const fields = new Map(Object.entries(headers));
  return {
    method: 'GET',
    path: '/cart',
    host: 'www.example.com',
    header: (name) => fields.get(name) ?? [],
    clientAddress: '192.0.2.1',
    ...rest,
  };
}
