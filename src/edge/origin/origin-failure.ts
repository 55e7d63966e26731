// What can go wrong on the way to an origin, and the code each gets (D66).

import type { EdgeCode } from '../errors/edge-error.ts';

/** A failure: the code for the client, the cause for the log. */
export interface OriginFailure {
  readonly code: EdgeCode;
  /** Plain text; never a body, a field or a secret. */
  readonly cause: string;
}

/** The code for each error of the system when a connection fails. */
const codeOfErrno: Readonly<Record<string, EdgeCode>> = {
  ECONNREFUSED: 521,
  ECONNRESET: 521,
  ETIMEDOUT: 522,
  EHOSTUNREACH: 523,
  ENETUNREACH: 523,
  EHOSTDOWN: 523,
  ENETDOWN: 523,
  EADDRNOTAVAIL: 523,
  EAFNOSUPPORT: 523,
  EINVAL: 523,
  EACCES: 523,
  EPERM: 523,
};

/** Where several addresses failed, the first of these codes is told: a refusal came nearer to an origin than silence did. */
const tellingOrder: readonly EdgeCode[] = [521, 522, 523];

function codeOf(error: unknown): EdgeCode {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined;
  // Any other error (no descriptor left, no memory) is this machine's fault, not the origin's.
  return (code === undefined ? undefined : codeOfErrno[code]) ?? 500;
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { code } = error as NodeJS.ErrnoException;
  return code ?? error.message;
}

/** The failure of connecting. */
export function connectFailure(error: Error): OriginFailure {
  const errors: readonly unknown[] = error instanceof AggregateError ? error.errors : [error];
  const codes = errors.map(codeOf);
  const code = tellingOrder.find((candidate) => codes.includes(candidate)) ?? 500;
  return { code, cause: `connect: ${errors.map(describe).join(', ')}` };
}

/** The failure of a step of connecting. @param error the system's, or a text */
export function stepFailure(
  code: EdgeCode,
  step: 'lookup' | 'TLS handshake' | 'certificate',
  error: unknown,
): OriginFailure {
  return { code, cause: `${step}: ${describe(error)}` };
}

/**
 * The failure of a connection that broke before the head was whole.
 * @param error absent where the origin closed the connection in order
 * @param mayBeHandshake whether this may still be a refused handshake, of which TLS 1.3 tells only after our side of the
 *   handshake is done
 */
export function brokenConnection(error: Error | undefined, mayBeHandshake: boolean): OriginFailure {
  if (!error) return { code: 520, cause: 'connection closed before the head was whole' };
  const isHandshake = mayBeHandshake && describe(error).startsWith('ERR_SSL_');
  return isHandshake
    ? stepFailure(525, 'TLS handshake', error)
    : { code: 520, cause: `connection broke: ${describe(error)}` };
}
