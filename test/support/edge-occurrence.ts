// One edge error as it happens in tests: always the same, but for what a test gives.

import { type EdgeError, type EdgeOccurrence, edgeErrors, isEdgeCode } from '../../src/edge/errors/catalogue.ts';

/** The error of a code; throws where there is none. */
export function edgeError(code: number): EdgeError {
  if (!isEdgeCode(code)) throw new Error(`The catalogue has no ${code}`);
  return edgeErrors[code];
}

/** An occurrence of a code with the catalogue's own retry seconds. */
export function edgeOccurrence(code: number, differing: Partial<EdgeOccurrence> = {}): EdgeOccurrence {
  const error = edgeError(code);
  return {
    error,
    rayId: '8f3c1a9be2d4706f',
    at: Date.UTC(2026, 0, 15, 9, 30, 0, 250),
    zone: 'www.example.com',
    docsBaseUrl: 'https://docs.example.net/gateway',
    ...(error.retryAfterSeconds === undefined ? {} : { retryAfterSeconds: error.retryAfterSeconds }),
    ...differing,
  };
}
