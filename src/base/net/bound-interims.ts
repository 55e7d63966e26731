import type { ClientRequest } from 'node:http';

/** The most informational answers before the answer itself. */
const maxInterims = 32;

/** Ends a request with an error where its server sends informational answers (RFC 9110 §15.2) without an end, as fast as they are read. */
export function boundInterims(request: ClientRequest): void {
  let interims = 0;
  request.on('information', () => {
    interims += 1;
    if (interims > maxInterims) request.destroy(new Error('too many informational answers'));
  });
}
