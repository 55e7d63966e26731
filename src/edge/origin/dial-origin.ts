// Connects to an origin, by TCP or TLS, within the connect timeout (D66).
//
// TLS: SNI is the requested host name. `strict` takes a certificate that chains to a trusted authority and is valid for
// the requested host name or for the host in the origin's URL: the first is what a server of the zone's own has, the
// second what a server behind a name of its own has, and the operator wrote both names down. `full` takes any.

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
import {
  certificateFailure,
  connectFailure,
  handshakeFailure,
  lookupFailure,
  type OriginFailure,
} from './origin-failure.ts';
import type { OriginTarget } from './origin-target.ts';

/** What dialling needs. */
export interface DialParts {
  readonly connectTimeoutMs: number;
  readonly secureContext: SecureContext;
  /** Absent: the system's. */
  readonly lookup?: LookupFunction;
  /** TLS sessions by target, to be resumed. */
  readonly sessions: Map<string, Buffer>;
}

/** Who waits for a connection; called once, unless the dial was given up. */
export interface Dialling {
  onConnected(socket: Socket): void;
  onDialFailed(failure: OriginFailure): void;
}

/** Where a name has several addresses, how long one is tried before the next. */
const addressAttemptMs = 1000;

function open(target: OriginTarget, parts: DialParts, lookup: LookupFunction): Socket | TLSSocket {
  const where = {
    host: target.host,
    port: target.port,
    noDelay: true,
    // The origin may close its side first: what it sent before is read to the end.
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

/** One attempt to connect. */
export class Dial {
  readonly #target: OriginTarget;
  readonly #parts: DialParts;
  readonly #waiting: Dialling;
  readonly #socket: Socket | TLSSocket;
  readonly #timer: NodeJS.Timeout;
  #phase: 'lookup' | 'connect' | 'handshake' | 'done';

  /** Begins. `waiting` hears of the end later, never at once. */
  constructor(target: OriginTarget, parts: DialParts, waiting: Dialling) {
    this.#target = target;
    this.#parts = parts;
    this.#waiting = waiting;
    this.#phase = isIP(target.host) === 0 ? 'lookup' : 'connect';
    this.#socket = open(target, parts, this.#lookup);
    this.#timer = setTimeout(this.#onTimeout, parts.connectTimeoutMs);
    this.#socket.on('error', this.#onError);
    this.#socket.once('close', this.#onClose);
    this.#socket.once('connect', this.#onConnect);
    if (target.secure) this.#socket.once('secureConnect', this.#onSecureConnect);
  }

  /** Gives up; nobody is told. */
  abort(): void {
    if (this.#phase === 'done') return;
    this.#leave();
    this.#socket.destroy();
  }

  /** As the one given, and tells us when it is done; what it fails with comes as the socket's error. */
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
      this.#fail(certificateFailure(socket.authorizationError));
      return;
    }
    // Kept only from a handshake that was accepted: one that is resumed is not verified again.
    socket.on('session', (session: Buffer) => this.#parts.sessions.set(this.#target.key, session));
    this.#succeed();
  };

  readonly #onError = (error: Error): void => {
    if (this.#phase === 'lookup') this.#fail(lookupFailure(error));
    else this.#fail(this.#phase === 'handshake' ? handshakeFailure(error) : connectFailure(error));
  };

  readonly #onClose = (): void => this.#onError(new Error('closed'));

  readonly #onTimeout = (): void => {
    const error = Object.assign(new Error('timeout'), { code: 'ETIMEDOUT' });
    this.#onError(error);
  };

  #succeed(): void {
    this.#leave();
    this.#waiting.onConnected(this.#socket);
  }

  #fail(failure: OriginFailure): void {
    if (this.#phase === 'done') return;
    this.#leave();
    this.#socket.destroy();
    this.#waiting.onDialFailed(failure);
  }

  #leave(): void {
    this.#phase = 'done';
    clearTimeout(this.#timer);
    this.#socket.off('close', this.#onClose);
    this.#socket.off('connect', this.#onConnect);
    // 'error' stays: what a socket says while it is destroyed goes nowhere (`fail` looks at the phase).
  }
}
