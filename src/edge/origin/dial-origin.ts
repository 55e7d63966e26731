// Connects to an origin, by TCP or TLS, within the connect timeout; for a proxy in front of us to find out why that fails (D66).
//
// TLS: SNI is the requested host name. `strict` takes a certificate that chains to a trusted authority and is valid for the
// requested host name or for the host in the origin's URL. A server of the zone has a certificate for the first, a server with
// a name of its own one for the second, and the operator has configured both names. `full` takes any certificate.

import { lookup as systemLookup } from 'node:dns';
import { connect, isIP, type LookupFunction, type Socket } from 'node:net';
import {
  type ConnectionOptions,
  checkServerIdentity,
  connect as connectTls,
  type PeerCertificate,
  type SecureContext,
  TLSSocket,
} from 'node:tls';
import type { Clock, MonotonicClock } from '../../base/clock.ts';
import { errorCode, errorMessage } from '../../base/errors.ts';
import type { EdgeCode } from '../errors/catalogue.ts';
import type { ReportedFailure } from '../zone/judge-request.ts';
import type { OriginTarget } from './origin-target.ts';

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

function describe(error: unknown): string {
  return errorCode(error) ?? errorMessage(error);
}

function connectFailure(error: Error): OriginFailure {
  const errors: readonly unknown[] = error instanceof AggregateError ? error.errors : [error];
  const codes = errors.map((one) => codeOfErrno[errorCode(one) ?? '']);
  // The first of these is told: a refusal came nearer to an origin than silence did. Any other error (no descriptor left, no
  // memory) is this machine's fault, not the origin's.
  const code = ([521, 522, 523] as const).find((candidate) => codes.includes(candidate)) ?? 500;
  return { code, cause: `connect: ${errors.map(describe).join(', ')}` };
}

/** The failure of a step of connecting. @param error the system's, or a text */
function stepFailure(code: EdgeCode, step: 'lookup' | 'TLS handshake' | 'certificate', error: unknown): OriginFailure {
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
interface DialAttempt {
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
  readonly #parts: { readonly clock: MonotonicClock; readonly downMs: number; readonly most?: number };
  readonly #down = new Map<string, Down>();

  /** @param parts `downMs`: how long a failure is told from memory; 0: never. `most`: origins remembered; absent: 10,000 */
  constructor(parts: { readonly clock: MonotonicClock; readonly downMs: number; readonly most?: number }) {
    this.#parts = parts;
  }

  get size(): number {
    return this.#down.size;
  }

  /** Gives the attempt that a request may make, or the failure to answer it with at once. @param key that of the target */
  attempt(key: string): DialAttempt | OriginFailure {
    const down = this.#down.get(key);
    if (down && (down.isTried || down.until > this.#parts.clock.monotonic())) return down.failure;
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
    const { clock, downMs, most = maxRemembered } = this.#parts;
    // A fault of this machine (500) says nothing of the origin.
    if (failure.code === 500 || downMs === 0) {
      if (tried) tried.isTried = false;
      return;
    }
    // Deleted first, so that the map has the order in which they failed.
    this.#down.delete(key);
    for (const [oldest] of this.#down) {
      if (this.#down.size < most) break;
      this.#down.delete(oldest);
    }
    this.#down.set(key, { failure, until: clock.monotonic() + downMs, isTried: false });
  }
}

/** What dialling needs. */
export interface DialParts {
  readonly connectTimeoutMs: number;
  readonly secureContext: SecureContext;
  /** Resolves names; absent: the system's resolver. */
  readonly lookup?: LookupFunction;
  /** TLS sessions by target, for resumption. */
  readonly sessions: Map<string, Buffer>;
  /** The origins that are not connected to for a moment. */
  readonly down: DownOrigins;
}

/** Waits for a connection. One of its functions is called, once, unless the dial was given up. */
export interface Dialling {
  onConnected(socket: Socket): void;
  onDialFailed(failure: OriginFailure): void;
}

/** Milliseconds for which one of several addresses of a name is tried before the next. */
const addressAttemptMs = 1000;

function open(target: OriginTarget, parts: DialParts, lookup: LookupFunction): Socket | TLSSocket {
  const where = {
    host: target.host,
    port: target.port,
    noDelay: true,
    // The origin may close its side first; its octets are still read to the end.
    allowHalfOpen: true,
    autoSelectFamilyAttemptTimeout: addressAttemptMs,
    lookup,
  };
  if (!target.secure) return connect(where);
  const session = parts.sessions.get(target.key);
  const options: ConnectionOptions = {
    ...where,
    secureContext: parts.secureContext,
    servername: isIP(target.serverName) === 0 ? target.serverName : '',
    ALPNProtocols: ['http/1.1'],
    // The verdict is read when the handshake is done, so that a bad certificate (526) is told from a bad handshake (525).
    rejectUnauthorized: false,
    checkServerIdentity: (_name: string, certificate: PeerCertificate) =>
      checkServerIdentity(target.serverName, certificate) && checkServerIdentity(target.host, certificate),
    ...(session ? { session } : {}),
  };
  return connectTls(options);
}

/** One connection that is being made. */
export class Dial {
  readonly #target: OriginTarget;
  readonly #parts: DialParts;
  readonly #waiting: Dialling;
  readonly #attempt: DialAttempt;
  readonly #socket: Socket | TLSSocket;
  readonly #timer: NodeJS.Timeout;
  #phase: 'lookup' | 'connect' | 'handshake' | 'done';

  /** Begins to connect. `waiting` is called later, never at once. Only `beginDial` makes one. */
  constructor(target: OriginTarget, parts: DialParts, waiting: Dialling, attempt: DialAttempt) {
    this.#target = target;
    this.#parts = parts;
    this.#waiting = waiting;
    this.#attempt = attempt;
    this.#phase = isIP(target.host) === 0 ? 'lookup' : 'connect';
    this.#socket = open(target, parts, this.#lookup);
    this.#timer = setTimeout(this.#onTimeout, parts.connectTimeoutMs);
    this.#socket.on('error', this.#onError);
    this.#socket.once('close', this.#onClose);
    this.#socket.once('connect', this.#onConnect);
    if (target.secure) this.#socket.once('secureConnect', this.#onSecureConnect);
  }

  /** Gives up; `waiting` is not called. */
  abort(): void {
    if (this.#phase === 'done') return;
    this.#leave();
    this.#attempt.abandoned();
    this.#socket.destroy();
  }

  readonly #lookup: LookupFunction = (name, options, callback) => {
    (this.#parts.lookup ?? systemLookup)(name, options, (error, address, family) => {
      if (!error && this.#phase === 'lookup') this.#phase = 'connect';
      callback(error, address, family);
    });
  };

  readonly #onConnect = (): void => {
    if (this.#target.secure) this.#phase = 'handshake';
    else this.#succeed();
  };

  readonly #onSecureConnect = (): void => {
    const socket = this.#socket;
    if (!(socket instanceof TLSSocket)) return;
    if (this.#target.strict && !socket.authorized) {
      this.#fail(stepFailure(526, 'certificate', socket.authorizationError));
      return;
    }
    // A session is kept only from a handshake that was accepted, because a resumed one is not verified again.
    socket.on('session', (session: Buffer) => this.#parts.sessions.set(this.#target.key, session));
    this.#succeed();
  };

  readonly #onError = (error: Error): void => {
    if (this.#phase === 'lookup') this.#fail(stepFailure(1016, 'lookup', error));
    else this.#fail(this.#phase === 'handshake' ? stepFailure(525, 'TLS handshake', error) : connectFailure(error));
  };

  readonly #onClose = (): void => this.#onError(new Error('closed'));

  readonly #onTimeout = (): void => this.#onError(Object.assign(new Error('timeout'), { code: 'ETIMEDOUT' }));

  #succeed(): void {
    this.#leave();
    this.#attempt.connected();
    this.#waiting.onConnected(this.#socket);
  }

  #fail(failure: OriginFailure): void {
    if (this.#phase === 'done') return;
    this.#leave();
    this.#attempt.failed(failure);
    this.#socket.destroy();
    this.#waiting.onDialFailed(failure);
  }

  #leave(): void {
    this.#phase = 'done';
    clearTimeout(this.#timer);
    this.#socket.off('close', this.#onClose);
    this.#socket.off('connect', this.#onConnect);
    // The 'error' listener stays: errors while the socket is destroyed are ignored, since `fail` looks at the phase.
  }
}

/** Begins to connect. @returns what connects, or the failure of an origin that is known to be down; `waiting` is not called then */
export function beginDial(target: OriginTarget, parts: DialParts, waiting: Dialling): Dial | OriginFailure {
  const attempt = parts.down.attempt(target.key);
  return 'code' in attempt ? attempt : new Dial(target, parts, waiting, attempt);
}

/** How long finding out may take, in milliseconds: the proxy in front has waited for its client already. */
const explainMs = 2000;

/** What explaining needs. */
interface ExplainParts {
  readonly dial: DialParts;
  readonly clock: Clock;
  /** Milliseconds without a head after which a proxy in front gives up. */
  readonly responseTimeoutMs: number;
  /** Called once, perhaps at once, unless it was given up. @param fromMemory whether the origin was known to be down */
  readonly onFound: (failure: OriginFailure, fromMemory: boolean) => void;
}

/** The failure where the origin can be connected to. */
function whereUp(
  target: OriginTarget,
  reported: Exclude<ReportedFailure, { readonly kind: 'known' }>,
  { clock, responseTimeoutMs }: ExplainParts,
): OriginFailure {
  const cause = 'reported by the proxy in front; the origin can be connected to';
  if (reported.kind === 'connect') return { code: target.secure ? 525 : 521, cause };
  // Clocks of two machines differ, but not by as much as a timeout and the end of a connection do.
  return { code: clock.now() - reported.at >= responseTimeoutMs - 1000 ? 524 : 520, cause };
}

/** Finds out why an origin failed a proxy in front (D66) by a connection without the request, which it may have had. @returns gives up */
export function explainFailure(target: OriginTarget, reported: ReportedFailure, parts: ExplainParts): () => void {
  const { dial, onFound } = parts;
  if (reported.kind === 'known') {
    onFound({ code: reported.code, cause: 'reported by the proxy in front' }, false);
    return () => undefined;
  }
  const timeout = Math.min(dial.connectTimeoutMs, explainMs);
  const begun = beginDial(
    target,
    { ...dial, connectTimeoutMs: timeout },
    {
      onConnected(socket) {
        socket.on('error', () => undefined).destroy();
        onFound(whereUp(target, reported, parts), false);
      },
      onDialFailed: (failure) => onFound(failure, false),
    },
  );
  if (!('code' in begun)) return () => begun.abort();
  onFound(begun, true);
  return () => undefined;
}
