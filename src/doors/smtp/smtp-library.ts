// Adapts the library smtp-server: only this file imports it and names its private members. The door uses its listening socket, its TLS
// handshakes and its close of a connection; reading, answering, deadlines and admission are the door's own, put in where the library
// would call its code. Its version is pinned, and a test looks for each member of `libraryMembers` in it.

/* oxlint-disable no-underscore-dangle -- the library names what a subclass may override so */

import { once } from 'node:events';
import type { AddressInfo, Socket } from 'node:net';
import { createSecureContext, TLSSocket } from 'node:tls';
import { SMTPServer } from 'smtp-server';
import { SMTPConnection } from 'smtp-server/lib/smtp-connection.js';
import { SMTPStream } from 'smtp-server/lib/smtp-stream.js';
import { takePlace } from '../../base/net/own-doors.ts';
import type { SessionTls } from '../../mail/transcript.ts';
import type { SmtpListener } from './settings.ts';

/** A class of the library, with the methods called or overridden here, and the fields read or written. Others do not compile. */
function membersOf<Instance extends object>(
  owner: { readonly name: string; readonly prototype: Instance; toString(): string },
  methods: readonly (keyof Instance & string)[],
  fields: readonly (keyof Instance & string)[],
) {
  return { owner, methods, fields };
}

/** Every member that this file relies on, by class. @public for the test that looks for each in the version that is installed */
export const libraryMembers = [
  membersOf(SMTPStream, ['_write', '_flushData'], ['isClosed']),
  membersOf(SMTPConnection, ['init', 'send', 'close', 'upgrade'], ['_closed', '_closing', '_parser', '_socket']),
  membersOf(SMTPConnection, ['_armTimeout', '_createParser', '_onClose', '_onCloseEvent', '_onError'], ['_upgrading']),
  membersOf(SMTPConnection, ['_resetSession', '_setListeners'], []),
  membersOf(SMTPServer, ['connect', 'updateSecureContext'], ['_pendingSockets', 'server']),
  membersOf(SMTPServer, ['_acceptSocket', '_handleProxy', '_upgrade'], []),
];

/** Replaces the library's parser: the octets of a connection go through `take`, one chunk after another. */
export abstract class LibraryReader extends SMTPStream {
  /** Octets are being used up that did not go through the buffer of the stream. */
  #isTaking = false;
  /** What the stream wants to do as soon as these are used up. */
  #next: (() => void) | undefined;
  readonly #taken = (): void => {
    this.#isTaking = false;
    const next = this.#next;
    this.#next = undefined;
    next?.();
  };

  constructor() {
    super({
      // 'finish' comes only when all octets are used up.
      final: (finish) => this.#whenTaken(finish),
    });
    this.on('finish', () => {
      if (!this.isClosed) this.ended();
    });
  }

  /** The connection is being closed, or has gone over to TLS: octets that arrive or are still held must be ignored. */
  protected get retired(): boolean {
    return this.isClosed;
  }

  /** Takes octets until the reader is closed. @param release to be called once they are used up; no more come before */
  protected abstract take(chunk: Buffer, release: () => void): void;

  /** Called when the client has closed its side and all octets are used up. */
  protected abstract ended(): void;

  // The socket is piped in here. Where nothing waits, octets are handed on at once: the way through the stream's buffer costs each
  // command of a session a turn of its own. What comes while they are used up goes that way, and is bounded by it.
  override write(chunk: Buffer | string): boolean {
    if (this.isClosed) return true;
    if (typeof chunk === 'string' || this.#isTaking || this.writableLength > 0) return super.write(chunk);
    this.#isTaking = true;
    this.take(chunk, this.#taken);
    return true;
  }

  override _write(chunk: Buffer, _encoding: string, release: (error?: Error | null) => void): void {
    this.#whenTaken(() => (this.isClosed ? release() : this.take(chunk, release)));
  }

  #whenTaken(next: () => void): void {
    if (this.#isTaking) this.#next = next;
    else next();
  }

  // RFC 5321 §4.1.1: a command ends with CRLF. The library would run an unended last line as a command.
  override _flushData(): void {
    // Nothing is run.
  }
}

/** A connection of the library with a reader and answers of its own. */
export abstract class LibraryConnection extends SMTPConnection {
  /** The topmost socket: a TLS connection must be destroyed through it, not through the socket below. */
  #top: Socket;

  /** @param socket the TLS socket where TLS is implicit */
  constructor(server: SMTPServer, socket: Socket, admission: Admission) {
    super(server, socket, admission);
    this.#top = socket;
  }

  /** Makes the reader of a connection. Called by the constructor, before any field of a subclass is there, and for TLS. */
  protected abstract createReader(): LibraryReader;
  /** Called when the connection is being read and the greeting is due. */
  protected abstract begun(): void;
  /** Called when the handshake after STARTTLS is over. */
  protected abstract secured(): void;
  /** Called when the socket or the handshake has failed. */
  protected abstract failed(error: Error): void;
  /** Called once, when the socket has closed. */
  protected abstract gone(): void;

  /** The session has ended or is ending: nothing more may be said. */
  protected get over(): boolean {
    return this._closing || this._closed;
  }

  /** A handshake after STARTTLS is under way: nothing may be written into it. */
  protected get inHandshake(): boolean {
    return this._upgrading;
  }

  /** How the connection is protected now; undefined in the clear. */
  protected get tlsInUse(): SessionTls | undefined {
    const socket = this._socket;
    if (!(socket instanceof TLSSocket)) return undefined;
    return { version: socket.getProtocol() ?? '', cipher: socket.getCipher()?.name ?? '' };
  }

  /** The current reader; undefined once the connection has gone. */
  protected get readerInCharge(): SMTPStream | undefined {
    return this._parser || undefined;
  }

  /** The client has not yet read what was written to it. */
  protected get writeBlocked(): boolean {
    return this._socket.writableNeedDrain;
  }

  override init(): void {
    this.#top.allowHalfOpen = true;
    this._setListeners(() => this.begun());
  }

  /** Writes to a client that is there, one character an octet. @returns where it reads slowly, a promise until it has read */
  protected write(text: string): Promise<void> | undefined {
    const socket = this._socket;
    if (this._upgrading || socket.destroyed || !socket.writable) return undefined;
    socket.write(text, 'latin1');
    if (!socket.writableNeedDrain) return undefined;
    return new Promise((resolve) => void socket.once('drain', resolve));
  }

  /** Begins STARTTLS. The reader is closed, so that commands sent in plaintext behind it never run (RFC 3207 §4.2, injection). */
  protected startTls(): void {
    const socket = this._socket;
    // Once the end of the client's octets has been read, the TLS socket would not see it, and would never end.
    if (socket.readableEnded) return this.close();
    // A client that closes its side inside the handshake would leave the connection open for ever.
    socket.allowHalfOpen = false;
    this.upgrade(() => undefined);
    // `upgrade` has removed all listeners, and the end may have been read without having been reported.
    socket.once('end', () => this.destroy());
  }

  destroy(): void {
    this.#top.destroy();
  }

  override _createParser(): LibraryReader {
    return this.createReader();
  }

  // The library calls this when TLS is up.
  override _resetSession(): void {
    this.#top.allowHalfOpen = true;
    this.secured();
  }

  // The library's timer answers in its own words, so it is never armed: the door keeps deadlines. Called with the TLS socket.
  override _armTimeout(socket: Socket = this._socket): void {
    this.#top = socket;
  }

  // The door gives the library no occasion for a reply of its own.
  override send(): void {
    this.close();
  }

  override _onError(error: Error): void {
    this.failed(error);
  }

  override _onCloseEvent(): void {
    super._onClose();
    this.gone();
  }
}

/** Certificate and key of a listener, in PEM. */
export interface TlsCredentials {
  readonly cert: string | Buffer;
  readonly key: string | Buffer;
}

/** What is known of a client when its session begins; the library passes it on. */
export interface Admission {
  readonly id: string;
  readonly remoteAddress: string;
}

/** A listening socket of the library with its own decision on whom to admit, made before TLS. */
export abstract class LibraryServer<Known extends Admission> extends SMTPServer {
  #leavePlace: (() => void) | undefined;

  /** @param credentials undefined where the listener has no TLS @param handshakeMs milliseconds for implicit TLS */
  constructor(tls: SmtpListener['tls'], credentials: TlsCredentials | undefined, handshakeMs: number) {
    super({
      // The library's logger would write reply texts and more; Postern's own logger logs everything.
      logger: false,
      secure: tls === 'implicit',
      hideSTARTTLS: tls !== 'starttls',
      disabledCommands: [],
      disableReverseLookup: true,
      // A client that closes its side after its last command still gets the replies.
      allowHalfOpen: true,
      // The library's default allows TLS 1.0.
      minVersion: 'TLSv1.2',
      socketTimeout: handshakeMs,
      ...(credentials ? { cert: credentials.cert, key: credentials.key } : {}),
    });
    this.on('error', (error: Error) => {
      // An error with `meta` is a failed TLS handshake; without it the listening socket itself has failed.
      if ('meta' in error) this.handshakeFailed(error);
      else if (this.server.listening) this.listenerFailed(error);
    });
  }

  /** Told of a connection. @returns called when its session begins or never will, maybe twice; undefined refuses it */
  protected abstract arrived(socket: Socket): (() => void) | undefined;
  /** Finds out who a client is, before TLS; it gives an error where the socket is closed or being closed. */
  protected abstract identify(socket: Socket, done: (known: Known | Error) => void): void;
  /** Makes the session of an identified client; where TLS is implicit, its handshake is done. */
  protected abstract begin(socket: Socket, known: Known): LibraryConnection;
  protected abstract handshakeFailed(error: Error): void;
  protected abstract listenerFailed(error: Error): void;

  /** Binds the listening socket; rejects with the socket's error when it cannot be bound. */
  protected async bind({ host, port }: { readonly host: string; readonly port: number }): Promise<AddressInfo> {
    this.#leavePlace = takePlace({ host, port });
    try {
      await once(this.server.listen({ host, port, backlog: 511 }), 'listening');
    } catch (error) {
      this.#leavePlace();
      throw error;
    }
    const address = this.server.address();
    if (address === null || typeof address === 'string') throw new Error('The SMTP listener has no address');
    return address;
  }

  /** Shows another certificate in handshakes from now on. @throws Error, and changes nothing, where it does not fit its key */
  showCertificate({ cert, key }: TlsCredentials): void {
    createSecureContext({ cert, key });
    this.updateSecureContext({ cert, key });
  }

  /** Stops accepting and drops connections without a session; resolves when the last connection has gone. */
  shut(): Promise<void> {
    this.#leavePlace?.();
    for (const top of this._pendingSockets.values()) top.destroy();
    return new Promise((resolve) => void this.server.close(() => resolve()));
  }

  /** Cuts a connection without a session by its topmost socket, since a TLS connection is not destroyed from below. */
  protected drop(socket: Socket): void {
    (this._pendingSockets.get(socket) ?? socket).destroy();
  }

  override _acceptSocket(socket: Socket, _handshake: boolean): (() => void) | false {
    const left = this.arrived(socket);
    if (!left) return false;
    // The library keeps the TLS socket here once there is one.
    this._pendingSockets.set(socket, socket);
    const release = (): void => {
      this._pendingSockets.delete(socket);
      left();
    };
    socket.once('close', release);
    return release;
  }

  // Called by the library before the TLS handshake.
  override _handleProxy(socket: Socket, callback: (error: Error | null, known?: Known) => void): void {
    this.identify(socket, (known) => (known instanceof Error ? callback(known) : callback(null, known)));
  }

  // For implicit TLS. A client that closes its side inside the handshake would stay for ever; the session allows it again.
  override _upgrade(socket: Socket, callback: Parameters<SMTPServer['_upgrade']>[1]): void {
    socket.allowHalfOpen = false;
    super._upgrade(socket, callback);
  }

  override connect(socket: Socket, known: Known): void {
    this.begin(socket, known).init();
  }
}
