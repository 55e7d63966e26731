// What can go wrong on the way to an origin, the code each gets, and for how long a failure is told from memory (D66).

import type { MonotonicClock } from '../../base/clock.ts';
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

/** The failure of a connection that broke before the head. @param mayBeHandshake TLS 1.3 tells of a refusal only behind our handshake */
export function brokenConnection(error: Error | undefined, mayBeHandshake: boolean): OriginFailure {
  if (!error) return { code: 520, cause: 'connection closed before the head was whole' };
  const isHandshake = mayBeHandshake && describe(error).startsWith('ERR_SSL_');
  return isHandshake
    ? stepFailure(525, 'TLS handshake', error)
    : { code: 520, cause: `connection broke: ${describe(error)}` };
}

/** One attempt to connect to an origin. One of its functions must be called, once. */
export interface DialAttempt {
  connected(): void;
  failed(failure: OriginFailure): void;
  /** It was given up before it was known whether the origin can be connected to. */
  abandoned(): void;
}

interface Down {
  failure: OriginFailure;
  /** By the monotonic clock, milliseconds. */
  until: number;
  /** Whether an attempt is under way to see if it is still down. */
  isTried: boolean;
}

/** The most origins that are remembered. The oldest are forgotten, and connected to as if they had not failed. */
const maxRemembered = 10_000;

/** Remembers which origins could not be connected to. After a while one request tries again, alone, so that not all come at once. */
export class DownOrigins {
  readonly #clock: MonotonicClock;
  readonly #downMs: number;
  readonly #most: number;
  readonly #down = new Map<string, Down>();

  /** @param parts `downMs`: how long a failure is told from memory; 0: never. `most`: origins remembered; absent: 10,000 */
  constructor(parts: { readonly clock: MonotonicClock; readonly downMs: number; readonly most?: number }) {
    this.#clock = parts.clock;
    this.#downMs = parts.downMs;
    this.#most = parts.most ?? maxRemembered;
  }

  get size(): number {
    return this.#down.size;
  }

  /** Gives the attempt that a request may make, or the failure to answer it with at once. @param key that of the target */
  attempt(key: string): DialAttempt | OriginFailure {
    const down = this.#down.get(key);
    if (down && (down.isTried || down.until > this.#clock.monotonic())) return down.failure;
    if (down) down.isTried = true;
    return {
      connected: () => void this.#down.delete(key),
      failed: (failure) => this.#remember(key, failure, down),
      abandoned: () => {
        if (down) down.isTried = false;
      },
    };
  }

  #remember(key: string, failure: OriginFailure, tried: Down | undefined): void {
    // A fault of this machine (500) says nothing of the origin.
    if (failure.code === 500 || this.#downMs === 0) {
      if (tried) tried.isTried = false;
      return;
    }
    // Deleted first, so that the map has the order in which they failed.
    this.#down.delete(key);
    for (const [oldest] of this.#down) {
      if (this.#down.size < this.#most) break;
      this.#down.delete(oldest);
    }
    this.#down.set(key, { failure, until: this.#clock.monotonic() + this.#downMs, isTried: false });
  }
}
