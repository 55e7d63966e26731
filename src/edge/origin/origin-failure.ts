// What can go wrong on the way to an origin, and the code each gets (D66).

import type { EdgeCode } from '../errors/edge-code.ts';

/** A failure: the code for the client, the cause for the log. */
export interface OriginFailure {
  readonly code: EdgeCode;
  /** Plain text; never a body, a field or a secret. */
  readonly cause: string;
}

/** What the system says of a connection that did not come about. */
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

/** Of several addresses tried, the one that says most: a refusal is nearer to an origin than silence. */
const tellingOrder: readonly EdgeCode[] = [521, 522, 523];

function codeOf(error: unknown): EdgeCode {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined;
  // Anything else (no descriptor left, no memory) is ours, not the origin's.
  return (code === undefined ? undefined : codeOfErrno[code]) ?? 500;
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { code } = error as NodeJS.ErrnoException;
  return code ?? error.message;
}

/** A connection that was not made. */
export function connectFailure(error: Error): OriginFailure {
  const errors: readonly unknown[] = error instanceof AggregateError ? error.errors : [error];
  const codes = errors.map(codeOf);
  const code = tellingOrder.find((candidate) => codes.includes(candidate)) ?? 500;
  return { code, cause: `connect: ${errors.map(describe).join(', ')}` };
}

/** A name that does not resolve. */
export function lookupFailure(error: Error): OriginFailure {
  return { code: 1016, cause: `lookup: ${describe(error)}` };
}

/** A TLS handshake that was not completed. */
export function handshakeFailure(error: Error): OriginFailure {
  return { code: 525, cause: `TLS handshake: ${describe(error)}` };
}

/** A certificate that `strict` does not take. */
export function certificateFailure(error: unknown): OriginFailure {
  return { code: 526, cause: `certificate: ${typeof error === 'string' ? error : describe(error)}` };
}

/** An answer that is none: nothing, garbage, or the end before its head was whole. */
export function badReply(cause: string): OriginFailure {
  return { code: 520, cause };
}

/** No head, or no octet of a body, within the time. */
export function replyTimeout(cause: string): OriginFailure {
  return { code: 524, cause };
}

/**
 * A connection that broke before the head was whole.
 * @param error absent where the origin closed it in order
 * @param options `handshake`: TLS 1.3 tells that it refuses only after our side of the handshake is done
 */
export function brokenConnection(error: Error | undefined, options: { readonly handshake: boolean }): OriginFailure {
  if (error && options.handshake && describe(error).startsWith('ERR_SSL_')) return handshakeFailure(error);
  return badReply(error ? `connection broke: ${describe(error)}` : 'connection closed before the head was whole');
}
