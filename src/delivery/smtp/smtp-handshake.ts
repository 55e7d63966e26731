// Turns a bare socket into a session that is ready for MAIL: greeting, EHLO or HELO, STARTTLS (RFC 3207), AUTH (RFC 4954).

import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { SmtpReply } from '../../mail/smtp-reply.ts';
import type { TlsFacts, TlsPolicy } from '../../mail/tls-facts.ts';
import { type Capabilities, capabilitiesOf, noCapabilities, type Session } from './envelope-commands.ts';
import { failure, HandshakeFailure, refused } from './handshake-failure.ts';
import { ReplyReader } from './smtp-reply-reader.ts';
import { certificateFault, established, remedyFor, type SmtpClientOptions, secured } from './smtp-tls.ts';

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

/** Throws unless the password may be sent: over TLS to a verified peer, or where the route says not to verify. */
function requireTrust(session: Session, options: SmtpClientOptions): void {
  if (session.tls.version === undefined) {
    const why = options.tls === 'none' ? 'the route says tls: none' : 'the next hop offers no TLS';
    throw failure('4.7.0', `AUTH is sent only over TLS, and ${why}: use a port of it with STARTTLS or implicit TLS`);
  }
  if (options.tlsVerify && !session.verifiedTls)
    throw failure('4.7.5', `The certificate is not verified; ${remedyFor(options)}`);
}

/** Authenticates with PLAIN, else LOGIN. A refusal is temporary: the fault is in our configuration, not in the mail. */
async function authenticate(commands: CommandSocket, session: Session, options: SmtpClientOptions): Promise<void> {
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
): Promise<TLSSocket | { readonly isTlsPutOff: boolean }> {
  const reply = await commands.ask('STARTTLS', 'STARTTLS', options.timeouts.handshake);
  if (reply.code !== 220) {
    if (reply.code === 421) throw refused('The next hop refused STARTTLS', reply);
    if (options.tls === 'required') {
      const why = refused('The next hop refused STARTTLS', reply);
      throw new HandshakeFailure(why.reply, { tlsFault: 'starttls-not-supported', wasLost: reply.code < 500 });
    }
    return { isTlsPutOff: reply.code < 500 };
  }
  // Replies injected before TLS would later be taken for the server's own (CVE-2011-0411 and similar).
  if (commands.pendingOctets > 0) {
    const text = 'The next hop sent octets between STARTTLS and TLS';
    throw new HandshakeFailure({ code: 451, enhanced: '4.7.0', text }, { tlsFault: 'validation-failure' });
  }
  commands.detach();
  return await secured(socket, options);
}

/** The result of `handshake`: a socket that nobody reads, and the state of its session. */
export interface ReadySession extends Session {
  readonly socket: Socket;
}

const policies = {
  none: 'none',
  opportunistic: 'opportunistic',
  required: 'required',
  implicit: 'required',
} as const satisfies Record<SmtpClientOptions['tls'], TlsPolicy>;

function sessionOf(capabilities: Capabilities, secure: TLSSocket | undefined, options: SmtpClientOptions): Session {
  const { tls: mode, policy = policies[mode], judgePeer, hostIsTrusted = true } = options;
  if (!secure) return { capabilities, verifiedTls: false, tls: { policy } };
  const verified = secure.authorized || judgePeer !== undefined;
  const tls: TlsFacts = { policy, version: secure.getProtocol() ?? 'TLS', verified };
  const session = { capabilities, verifiedTls: verified && hostIsTrusted, tls };
  return verified ? session : { ...session, certificateFault: certificateFault(secure.authorizationError) };
}

/** Makes a session ready on a socket that is connecting. @throws HandshakeFailure; the caller must then destroy the socket */
export async function handshake(bare: Socket, options: SmtpClientOptions): Promise<ReadySession> {
  await established(bare, 'connect', options.timeouts.connect);
  let socket = bare;
  let secure: TLSSocket | undefined;
  if (options.tls === 'implicit') {
    secure = await secured(bare, options);
    socket = secure;
  }
  let isTlsPutOff = false;
  let commands = new CommandSocket(socket);
  const greeting = await commands.reply('the connection (greeting)', options.timeouts.greeting);
  if (greeting.code !== 220) throw refused('The next hop refused the connection', greeting);
  let capabilities = await greet(commands, options);
  if (!secure && options.tls !== 'none' && capabilities.startTls) {
    const upgraded = await upgrade(commands, socket, options);
    if ('isTlsPutOff' in upgraded) ({ isTlsPutOff } = upgraded);
    else {
      socket = secure = upgraded;
      commands = new CommandSocket(socket);
      // RFC 3207 §4.2: what the server offered before TLS no longer counts.
      capabilities = await greet(commands, options);
    }
  }
  if (!secure && options.tls === 'required') {
    const isOfDomain = options.policy === 'dane' || options.policy === 'mta-sts';
    const others = options.policy === undefined ? 'the route' : 'the route or the message';
    const text = `The next hop offers no TLS, and ${isOfDomain ? 'its domain' : others} requires it`;
    throw new HandshakeFailure({ code: 451, enhanced: '4.7.4', text }, { tlsFault: 'starttls-not-supported' });
  }
  const session = sessionOf(capabilities, secure, options);
  await authenticate(commands, session, options);
  if (commands.pendingOctets > 0) throw failure('4.5.0', 'The next hop sent a reply that nobody asked for');
  commands.detach();
  return { ...session, isTlsPutOff, socket };
}
