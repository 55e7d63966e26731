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

/** The failure of resolving the origin's name. */
export function lookupFailure(error: Error): OriginFailure {
  return { code: 1016, cause: `lookup: ${describe(error)}` };
}

/** The failure of the TLS handshake. */
export function handshakeFailure(error: Error): OriginFailure {
  return { code: 525, cause: `TLS handshake: ${describe(error)}` };
}

/** The failure of a certificate that `strict` refuses. */
export function certificateFailure(error: unknown): OriginFailure {
  return { code: 526, cause: `certificate: ${typeof error === 'string' ? error : describe(error)}` };
}

/** The failure of a reply that is none: nothing, garbage, or an end before its head was whole. */
export function badReply(cause: string): OriginFailure {
  return { code: 520, cause };
}

/** The failure where no head, or no octet of a body, came in time. */
export function replyTimeout(cause: string): OriginFailure {
  return { code: 524, cause };
}

/**
 * The failure of a connection that broke before the head was whole.
 * @param error absent where the origin closed the connection in order
 * @param options `handshake`: whether this may still be a refused handshake, of which TLS 1.3 tells only after our side of
 *   the handshake is done
 */
export function brokenConnection(error: Error | undefined, options: { readonly handshake: boolean }): OriginFailure {
  if (error && options.handshake && describe(error).startsWith('ERR_SSL_')) return handshakeFailure(error);
  return badReply(error ? `connection broke: ${describe(error)}` : 'connection closed before the head was whole');
}
