// Turns a bare socket into a session that is ready for MAIL: greeting, EHLO or HELO, STARTTLS (RFC 3207), AUTH (RFC 4954).

import { readFileSync } from 'node:fs';
import { isIP, type Socket } from 'node:net';
import { type ConnectionOptions, connect as connectTls, type TLSSocket } from 'node:tls';
import { errorMessage } from '../../base/errors.ts';
import type { SmtpReply } from '../../mail/smtp-reply.ts';
import type { Session } from './envelope-commands.ts';
import { type Capabilities, capabilitiesOf, noCapabilities } from './smtp-capabilities.ts';
import { ReplyReader } from './smtp-reply-reader.ts';
import type { SmtpTimeouts } from './smtp-timeouts.ts';

/** Where and how to connect. */
export interface SmtpClientOptions {
  readonly host: string;
  readonly port: number;
  /** How TLS is used, as in a route. */
  readonly tls: 'none' | 'opportunistic' | 'required' | 'implicit';
  /** False accepts any certificate, with `auth` too: then anyone who answers gets the password. */
  readonly tlsVerify: boolean;
  /** Certificates to trust instead of the system's, PEM. */
  readonly ca?: string;
  /** Path of a file with such certificates, read at each handshake, so that renewed ones take effect at once. */
  readonly caFile?: string;
  readonly auth?: { readonly user: string; readonly password: string };
  /** Our own name in EHLO. */
  readonly hostname: string;
  readonly timeouts: SmtpTimeouts;
}

/** Why a session could not be made ready, in the form of a reply. Always temporary, because the mail is not the cause. */
export class HandshakeFailure extends Error {
  override readonly name = 'HandshakeFailure';
  readonly reply: SmtpReply;

  constructor(reply: SmtpReply, options?: ErrorOptions) {
    super(reply.text, options);
    this.reply = reply;
  }
}

function failure(enhanced: string, text: string, cause?: unknown): HandshakeFailure {
  return new HandshakeFailure({ code: 451, enhanced, text }, cause === undefined ? undefined : { cause });
}

function refused(what: string, reply: SmtpReply): HandshakeFailure {
  const words = `${what}: ${reply.code} ${reply.enhanced ? `${reply.enhanced} ` : ''}${reply.text}`;
  return failure(reply.enhanced ? `4${reply.enhanced.slice(1)}` : '4.3.0', words);
}

/** A socket for one command at a time, each with its reply. */
class CommandSocket {
  readonly #socket: Socket;
  readonly #reader = new ReplyReader();
  readonly #onData: (chunk: Buffer) => void;
  #wake: (() => void) | undefined;
  #lost: HandshakeFailure | undefined;

  constructor(socket: Socket) {
    this.#socket = socket;
    this.#onData = (chunk) => {
      this.#reader.push(chunk);
      this.#wake?.();
    };
    socket.on('data', this.#onData);
    socket.on('error', this.#onLost);
    socket.on('close', this.#onLost);
  }

  readonly #onLost = (error: unknown): void => {
    const why = error instanceof Error ? `: ${error.message}` : '';
    this.#lost ??= failure('4.4.2', `The connection was lost before it was ready${why}`, error);
    this.#wake?.();
  };

  /** Sends a line and waits for its reply. */
  async ask(line: string, what: string, timeout: number): Promise<SmtpReply> {
    this.#socket.write(`${line}\r\n`);
    return await this.reply(what, timeout);
  }

  async reply(what: string, timeout: number): Promise<SmtpReply> {
    const timer = setTimeout(() => {
      this.#lost ??= failure('4.4.2', `Timed out waiting for the reply to ${what}`);
      this.#wake?.();
    }, timeout);
    try {
      for (;;) {
        const reply = this.#reader.next();
        if (reply) return reply;
        if (this.#reader.fault !== undefined) throw failure('4.5.0', this.#reader.fault);
        if (this.#lost) throw this.#lost;
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    } finally {
      clearTimeout(timer);
    }
  }

  get pendingOctets(): number {
    return this.#reader.pending;
  }

  /** Stops reading, so that another reader can take the socket. */
  detach(): void {
    this.#socket.off('data', this.#onData);
    this.#socket.off('error', this.#onLost);
    this.#socket.off('close', this.#onLost);
  }
}

/** @throws HandshakeFailure where the file of trusted certificates cannot be read */
function trusted({ ca, caFile }: SmtpClientOptions): Pick<ConnectionOptions, 'ca'> {
  if (caFile === undefined) return ca === undefined ? {} : { ca };
  try {
    return { ca: readFileSync(caFile) };
  } catch (error) {
    throw failure('4.3.5', `The certificates that the route trusts cannot be read: ${errorMessage(error)}`, error);
  }
}

function tlsOptions(options: SmtpClientOptions): ConnectionOptions {
  return {
    host: options.host,
    // RFC 6066 §3: an IP address is no server name.
    ...(isIP(options.host) ? {} : { servername: options.host }),
    ...trusted(options),
    rejectUnauthorized: options.tlsVerify,
    minVersion: 'TLSv1.2',
  };
}

/** OpenSSL's own text names its source file; its `reason` is what a person can read, such as `wrong version number`. */
function socketWords(error: Error): string {
  return 'reason' in error && typeof error.reason === 'string' ? error.reason : errorMessage(error);
}

/** Waits for the event that makes a socket usable; rejects when the socket ends or the time is over. */
async function established(socket: Socket, event: 'connect' | 'secureConnect', timeout: number): Promise<void> {
  const [enhanced, what] = event === 'connect' ? ['4.4.1', 'Cannot connect'] : ['4.7.5', 'The TLS handshake failed'];
  let timer: NodeJS.Timeout | undefined;
  try {
    await new Promise<void>((resolve, reject) => {
      timer = setTimeout(() => reject(failure(enhanced, `${what}: timed out`)), timeout);
      socket.once(event, resolve);
      socket.once('error', (error) => reject(failure(enhanced, `${what}: ${socketWords(error)}`, error)));
      socket.once('close', () => reject(failure(enhanced, `${what}: the connection was closed`)));
    });
  } finally {
    clearTimeout(timer);
  }
}

async function secured(socket: Socket, options: SmtpClientOptions): Promise<TLSSocket> {
  const secure = connectTls({ ...tlsOptions(options), socket });
  // The waiting code handles the first error; this listener keeps a second one from ending the process.
  secure.on('error', () => undefined);
  try {
    await established(secure, 'secureConnect', options.timeouts.handshake);
  } catch (thrown) {
    // Node sets `authorizationError` where it refused a certificate, and only then.
    const isRefusal = thrown instanceof HandshakeFailure && secure.authorizationError !== null;
    throw isRefusal ? failure('4.7.5', `${thrown.message}; ${remedyFor(options)}`, thrown) : thrown;
  }
  return secure;
}

/** Says what an operator can do about a refused certificate. */
function remedyFor({ host, auth }: SmtpClientOptions): string {
  const what = auth ? `the password goes only to a next hop` : `the route asks for one`;
  return `${what} whose certificate is trusted here and names ${host}: trust its issuer (tls: { ca: FILE } in the route), or say tlsVerify: false there`;
}

async function greet(commands: CommandSocket, options: SmtpClientOptions): Promise<Capabilities> {
  const reply = await commands.ask(`EHLO ${options.hostname}`, 'EHLO', options.timeouts.handshake);
  if (reply.code === 250) return capabilitiesOf(reply);
  // RFC 5321 §3.2: a server that does not know EHLO is greeted with HELO.
  if (reply.code < 500) throw refused('The next hop refused EHLO', reply);
  const helo = await commands.ask(`HELO ${options.hostname}`, 'HELO', options.timeouts.handshake);
  if (helo.code !== 250) throw refused('The next hop refused HELO', helo);
  return noCapabilities;
}

function base64(text: string): string {
  return Buffer.from(text, 'utf8').toString('base64');
}

/**
 * Throws unless the password may be sent: over TLS, to a peer whose certificate chain and name were verified, or where the
 * route explicitly says not to verify. Otherwise an attacker between the two hosts could just ask for the password.
 */
function requireTrust(session: Session & { tls: boolean }, options: SmtpClientOptions): void {
  if (!session.tls) {
    const why = options.tls === 'none' ? 'the route says tls: none' : 'the next hop offers no TLS';
    throw failure('4.7.0', `AUTH is sent only over TLS, and ${why}: use a port of it with STARTTLS or implicit TLS`);
  }
  if (options.tlsVerify && !session.verifiedTls)
    throw failure('4.7.5', `The certificate is not verified; ${remedyFor(options)}`);
}

/** Authenticates with PLAIN, else LOGIN. A refusal is temporary: the fault is in our configuration, not in the mail. */
async function authenticate(
  commands: CommandSocket,
  session: Session & { tls: boolean },
  options: SmtpClientOptions,
): Promise<void> {
  const { auth, timeouts } = options;
  if (!auth) return;
  requireTrust(session, options);
  const ask = (line: string): Promise<SmtpReply> => commands.ask(line, 'AUTH', timeouts.handshake);
  const offered = session.capabilities.auth;
  let reply: SmtpReply;
  if (offered.has('PLAIN')) {
    reply = await ask(`AUTH PLAIN ${base64(`\0${auth.user}\0${auth.password}`)}`);
  } else if (offered.has('LOGIN')) {
    reply = await ask('AUTH LOGIN');
    if (reply.code === 334) reply = await ask(base64(auth.user));
    if (reply.code === 334) reply = await ask(base64(auth.password));
  } else {
    throw failure('4.7.0', 'The next hop offers neither AUTH PLAIN nor AUTH LOGIN');
  }
  if (reply.code !== 235) throw refused('The next hop refused AUTH', reply);
}

async function upgrade(
  commands: CommandSocket,
  socket: Socket,
  options: SmtpClientOptions,
): Promise<TLSSocket | undefined> {
  const reply = await commands.ask('STARTTLS', 'STARTTLS', options.timeouts.handshake);
  if (reply.code !== 220) {
    if (options.tls === 'required' || reply.code === 421) throw refused('The next hop refused STARTTLS', reply);
    return undefined;
  }
  // Replies injected before TLS would later be taken for the server's own (CVE-2011-0411 and similar).
  if (commands.pendingOctets > 0) throw failure('4.7.0', 'The next hop sent octets between STARTTLS and TLS');
  commands.detach();
  return await secured(socket, options);
}

/** The result of `handshake`: a socket that nobody reads, and the state of its session. */
export interface ReadySession extends Session {
  readonly socket: Socket;
  readonly tls: boolean;
}

/**
 * Makes a session ready on a socket that is connecting.
 * @throws HandshakeFailure; the caller must then destroy the socket
 */
export async function handshake(bare: Socket, options: SmtpClientOptions): Promise<ReadySession> {
  await established(bare, 'connect', options.timeouts.connect);
  let socket = bare;
  let secure: TLSSocket | undefined;
  if (options.tls === 'implicit') {
    secure = await secured(bare, options);
    socket = secure;
  }
  let commands = new CommandSocket(socket);
  const greeting = await commands.reply('the connection (greeting)', options.timeouts.greeting);
  if (greeting.code !== 220) throw refused('The next hop refused the connection', greeting);
  let capabilities = await greet(commands, options);
  if (!secure && options.tls !== 'none' && capabilities.startTls) {
    secure = await upgrade(commands, socket, options);
    if (secure) {
      socket = secure;
      commands = new CommandSocket(socket);
      // RFC 3207 §4.2: what the server offered before TLS no longer counts.
      capabilities = await greet(commands, options);
    }
  }
  if (!secure && options.tls === 'required')
    throw failure('4.7.4', 'The next hop offers no TLS, and the route requires it');
  const session = { capabilities, verifiedTls: secure?.authorized === true, tls: secure !== undefined };
  await authenticate(commands, session, options);
  if (commands.pendingOctets > 0) throw failure('4.5.0', 'The next hop sent a reply that nobody asked for');
  commands.detach();
  return { ...session, socket };
}
