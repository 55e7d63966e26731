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
import type { Clock } from '../../base/clock.ts';
import type { ReportedFailure } from '../zone/client-address.ts';
import {
  connectFailure,
  type DialAttempt,
  type DownOrigins,
  type OriginFailure,
  stepFailure,
} from './origin-failure.ts';
import type { OriginTarget } from './origin-target.ts';

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

  /** Wraps the given look-up and notes when it is done. Its failure comes as the socket's error. */
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
export interface ExplainParts {
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

const nothing = (): void => undefined;

/** Finds out why an origin failed a proxy in front (D66) by a connection without the request, which it may have had. @returns gives up */
export function explainFailure(target: OriginTarget, reported: ReportedFailure, parts: ExplainParts): () => void {
  const { dial, onFound } = parts;
  if (reported.kind === 'known') {
    onFound({ code: reported.code, cause: 'reported by the proxy in front' }, false);
    return nothing;
  }
  const timeout = Math.min(dial.connectTimeoutMs, explainMs);
  const begun = beginDial(
    target,
    { ...dial, connectTimeoutMs: timeout },
    {
      onConnected(socket) {
        socket.on('error', nothing).destroy();
        onFound(whereUp(target, reported, parts), false);
      },
      onDialFailed: (failure) => onFound(failure, false),
    },
  );
  if (!('code' in begun)) return () => begun.abort();
  onFound(begun, true);
  return nothing;
}
