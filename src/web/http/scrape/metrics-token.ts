// Who may read /metrics where the configuration names a token for it (RFC 6750).

import { hash, timingSafeEqual } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import type { Guessing } from '../../../accounts/guessing.ts';
import type { Logger } from '../../../base/log.ts';

/** What a reader of /metrics has to show. */
export interface MetricsToken {
  /** SHA-256 of the token, 64 hexadecimal digits. Undefined where the named token does not exist: then nobody may read. */
  readonly sha256: string | undefined;
}

/** Why a reader is sent away (RFC 6750 §3; RFC 6585 §4). */
interface RefusedReader {
  readonly status: 401 | 429;
  readonly headers: Readonly<Record<string, string>>;
  /** The body of the answer, one line. */
  readonly text: string;
}

interface ReaderParts {
  readonly token: MetricsToken;
  /** The count of wrong tokens, which all protocols share (D92). */
  readonly guessing: Guessing;
  readonly log: Logger;
  /** Told of each wrong token. */
  readonly onAuthFailure: () => void;
}

const bearer = /^Bearer +(\S{1,512})$/i;
const challenge = 'Bearer realm="postern"';

/** Compares hashes of equal length, so that the time it takes tells nothing about the token. */
function isToken(shown: string, { sha256 }: MetricsToken): boolean {
  return sha256 !== undefined && timingSafeEqual(hash('sha256', shown, 'buffer'), Buffer.from(sha256, 'hex'));
}

/**
 * Judges whether a request shows the token. The answer to a wrong token may be delayed; a right one passes at once (D92).
 * @returns undefined where the request may read
 */
export async function refuseReader(request: FastifyRequest, parts: ReaderParts): Promise<RefusedReader | undefined> {
  const { token, guessing, log, onAuthFailure } = parts;
  const header = request.headers.authorization;
  if (header === undefined) {
    return { status: 401, headers: { 'WWW-Authenticate': challenge }, text: 'A bearer token is needed' };
  }
  await guessing.pause(request.ip);
  const shown = bearer.exec(header)?.[1];
  if (shown !== undefined && isToken(shown, token)) return undefined;
  const penalty = await guessing.failed(request.ip);
  onAuthFailure();
  if (penalty.kind === 'turnedAway') {
    const headers = { 'Retry-After': String(penalty.retryAfterSeconds) };
    return { status: 429, headers, text: 'Too many wrong tokens came from this address' };
  }
  log.warn({ session: request.id, client: request.ip, path: '/metrics' }, 'authentication failed');
  await penalty.over;
  const headers = { 'WWW-Authenticate': `${challenge}, error="invalid_token"` };
  return { status: 401, headers, text: 'The token is wrong' };
}
