// A next hop that fails on demand: SMTP on node:net and node:tls, with faults chosen by magic addresses and options.
// It keeps what it was given, octet for octet. It is written apart from src/ on purpose: a peer, not a mirror.
//
// Magic local parts, of the sender at MAIL or a recipient at RCPT (anything may follow a `+`):
//   defer-mail fail-mail drop-mail      451, 550, connection dropped in place of the reply to MAIL (recipient: to RCPT)
//   defer-rcpt fail-rcpt drop-rcpt      the same at RCPT;  too-many: 452 4.5.3 at RCPT
//   defer-data fail-data drop-data      at DATA: 451, 554; drop-data drops in the middle of the body
//   defer-dot fail-dot drop-dot         after the final dot: 451, 554; drop-dot keeps the message, then drops
//   slow (replies to RCPT and the dot come late)   reply-421   reply-421-dot   garbage   endless (a reply without end)
//
// As a script: node test/support/fault-sink.ts --port N [--ledger FILE] [--no-pipelining]

import { appendFileSync } from 'node:fs';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer, TLSSocket } from 'node:tls';
import { parseArgs } from 'node:util';

/** What the sink offers and how it behaves. */
export interface FaultSinkOptions {
  /** 0 or absent picks a free one. */
  readonly port?: number;
  /** The address to listen on; 127.0.0.1 where it is absent. */
  readonly host?: string;
  readonly noPipelining?: boolean;
  readonly no8bitmime?: boolean;
  readonly noSmtputf8?: boolean;
  /** Answers EHLO with 502. */
  readonly heloOnly?: boolean;
  /** Octets; declared by SIZE. */
  readonly sizeLimit?: number;
  /** Offers STARTTLS, or speaks TLS from the first octet, with this certificate (PEM). */
  readonly tls?: { readonly mode: 'starttls' | 'implicit'; readonly key: string; readonly cert: string };
  /** Octets sent in one write with the 220 of STARTTLS: an attacker's injection. */
  readonly injectAfterStarttls?: string;
  /** Answers STARTTLS so instead of 220. */
  readonly starttlsReply?: string;
  /** Drops the connection at the first octets of the handshake behind STARTTLS. */
  readonly dropsHandshake?: boolean;
  /** Refuses MAIL without AUTH. */
  readonly requireAuth?: { readonly user: string; readonly pass: string; readonly mechanisms?: string };
  /** Offers REQUIRETLS. */
  readonly requiretls?: boolean;
  /** Magic local parts are ordinary ones: it takes everything. */
  readonly isPlain?: boolean;
  /** Offers DSN (RFC 3461). */
  readonly dsn?: boolean;
  /** Sent in place of the greeting. */
  readonly greeting?: string;
  /** Answers 354 to DATA even when no recipient was accepted. */
  readonly always354?: boolean;
  /** Drops the connection after so many messages. */
  readonly messagesPerConnection?: number;
  /** Milliseconds that `slow` takes. */
  readonly slowMilliseconds?: number;
  /** Every kept message appends a line: JSON {from, to, messageId, size}. */
  readonly ledger?: string;
}

/** A message as the sink was given it. */
export interface SunkMessage {
  readonly mailFrom: string;
  /** As written after the address, upper case. */
  readonly mailParameters: readonly string[];
  readonly recipients: readonly string[];
  /** Dots undone, the final one taken off. */
  readonly raw: Buffer;
  readonly tls: boolean;
  readonly authenticated: boolean;
  /** Counts connections from 1. */
  readonly connection: number;
}

const endOfData = Buffer.from('\r\n.\r\n');

/** Undoes RFC 5321 §4.5.2. */
export function unstuffed(content: Buffer): Buffer {
  const text = content.toString('latin1');
  return Buffer.from(text.replace(/^\.|(\r\n)\./g, '$1'), 'latin1');
}

function magicOf(address: string): string {
  return (address.split('@')[0] ?? '').split('+')[0] ?? '';
}

/** One connection to the sink. */
class SinkSession {
  readonly #sink: FaultSink;
  readonly #number: number;
  #socket: Socket;
  #buffer: Buffer = Buffer.alloc(0);
  #mode: 'command' | 'content' | 'auth' = 'command';
  #content: Buffer[] = [];
  #tail: Buffer = Buffer.alloc(0);
  #from = '';
  #parameters: string[] = [];
  #recipients: string[] = [];
  #magic = new Set<string>();
  #inTransaction = false;
  #authenticated = false;
  #authAnswers: string[] = [];
  #messages = 0;
  #dropped = false;
  /** Work goes on in order, one piece after another, also when a reply is slow. */
  #work: Promise<void> = Promise.resolve();

  constructor(sink: FaultSink, socket: Socket, number: number) {
    this.#sink = sink;
    this.#socket = socket;
    this.#number = number;
    this.#listen(socket);
    this.#reply(sink.options.greeting ?? '220 sink.test ESMTP');
  }

  #listen(socket: Socket): void {
    socket.on('data', (chunk) => {
      this.#work = this.#work.then(() => (this.#socket === socket ? this.#take(chunk) : undefined));
    });
    socket.on('error', () => socket.destroy());
  }

  #reply(text: string): void {
    if (!this.#socket.destroyed) this.#socket.write(`${text}\r\n`);
  }

  #drop(): void {
    // The replies before this one still arrive.
    this.#socket.uncork();
    this.#socket.destroySoon();
    this.#dropped = true;
    this.#buffer = Buffer.alloc(0);
  }

  async #take(chunk: Buffer): Promise<void> {
    if (this.#dropped) return;
    this.#buffer = this.#buffer.length === 0 ? chunk : Buffer.concat([this.#buffer, chunk]);
    this.#socket.cork();
    const socket = this.#socket;
    while (this.#buffer.length > 0 && !this.#dropped && !this.#socket.destroyed) {
      if (this.#mode === 'content') {
        if (!(await this.#takeContent())) break;
        continue;
      }
      const end = this.#buffer.indexOf('\r\n');
      if (end < 0) break;
      const line = this.#buffer.toString('utf8', 0, end);
      this.#buffer = this.#buffer.subarray(end + 2);
      this.#sink.commands.push(line);
      if (this.#mode === 'auth') this.#takeAuthAnswer(line);
      else await this.#command(line);
    }
    socket.uncork();
  }

  async #takeContent(): Promise<boolean> {
    if (this.#magic.has('drop-data')) {
      this.#drop();
      return false;
    }
    // The end of data may lie across pieces: it is looked for with the four octets before this one (at first CRLF).
    const seen = Buffer.concat([this.#tail, this.#buffer]);
    const end = seen.indexOf(endOfData);
    if (end < 0) {
      this.#content.push(this.#buffer);
      this.#tail = seen.subarray(-4);
      this.#buffer = Buffer.alloc(0);
      return false;
    }
    const bodyEnd = end + 2 - this.#tail.length;
    const whole = Buffer.concat([...this.#content, this.#buffer.subarray(0, Math.max(0, bodyEnd))]);
    const content = bodyEnd < 0 ? whole.subarray(0, Math.max(0, whole.length + bodyEnd)) : whole;
    this.#buffer = this.#buffer.subarray(bodyEnd + 3);
    this.#content = [];
    this.#mode = 'command';
    await this.#finish(unstuffed(content));
    return true;
  }

  async #finish(raw: Buffer): Promise<void> {
    const magic = this.#magic;
    this.#inTransaction = false;
    if (this.#recipients.length === 0) return this.#reply('554 5.5.1 No valid recipients');
    if (magic.has('slow')) await this.#pause();
    if (magic.has('fail-dot')) return this.#reply('554 5.6.0 Content refused');
    if (magic.has('defer-dot')) return this.#reply('451 4.3.2 Not now');
    if (magic.has('reply-421-dot')) {
      this.#reply('421 4.3.2 Going down');
      return this.#drop421();
    }
    this.#sink.keep({
      mailFrom: this.#from,
      mailParameters: this.#parameters,
      recipients: this.#recipients,
      raw,
      tls: this.#socket instanceof TLSSocket,
      authenticated: this.#authenticated,
      connection: this.#number,
    });
    if (magic.has('drop-dot')) return this.#drop();
    this.#reply('250 2.0.0 Taken');
    this.#messages += 1;
    if (this.#messages === this.#sink.options.messagesPerConnection) this.#drop421();
  }

  #drop421(): void {
    this.#socket.uncork();
    this.#socket.end();
    this.#dropped = true;
  }

  #pause(): Promise<void> {
    return new Promise((resolve) => setTimeout(resolve, this.#sink.options.slowMilliseconds ?? 300));
  }

  async #command(line: string): Promise<void> {
    const verb = line.split(' ', 1)[0]?.toUpperCase() ?? '';
    const { options } = this.#sink;
    if (verb === 'EHLO') this.#ehlo();
    else if (verb === 'HELO') this.#reply('250 sink.test');
    else if (verb === 'STARTTLS' && options.tls?.mode === 'starttls') this.#startTls();
    else if (verb === 'AUTH' && options.requireAuth) this.#auth(line);
    else if (verb === 'MAIL') this.#mail(line);
    else if (verb === 'RCPT') await this.#rcpt(line);
    else if (verb === 'DATA') this.#data();
    else if (verb === 'RSET') {
      this.#inTransaction = false;
      this.#reply('250 2.0.0 Reset');
    } else if (verb === 'QUIT') {
      this.#reply('221 2.0.0 Bye');
      this.#socket.uncork();
      this.#socket.end();
    } else this.#reply('502 5.5.2 Unknown command');
  }

  #ehlo(): void {
    const { options } = this.#sink;
    if (options.heloOnly) return this.#reply('502 5.5.2 What is EHLO');
    const secure = this.#socket instanceof TLSSocket;
    const lines = [
      'sink.test greets you',
      ...(options.noPipelining ? [] : ['PIPELINING']),
      ...(options.no8bitmime ? [] : ['8BITMIME']),
      ...(options.noSmtputf8 ? [] : ['SMTPUTF8']),
      ...(options.sizeLimit === undefined ? ['SIZE'] : [`SIZE ${options.sizeLimit}`]),
      ...(options.tls?.mode === 'starttls' && !secure ? ['STARTTLS'] : []),
      ...(options.requiretls && secure ? ['REQUIRETLS'] : []),
      ...(options.requireAuth ? [`AUTH ${options.requireAuth.mechanisms ?? 'PLAIN LOGIN'}`] : []),
      ...(options.dsn ? ['DSN'] : []),
      'ENHANCEDSTATUSCODES',
    ];
    this.#reply(lines.map((line, index) => `250${index === lines.length - 1 ? ' ' : '-'}${line}`).join('\r\n'));
  }

  #startTls(): void {
    const { tls, injectAfterStarttls = '', starttlsReply } = this.#sink.options;
    if (starttlsReply !== undefined) return this.#reply(starttlsReply);
    const plain = this.#socket;
    plain.write(`220 2.0.0 Go ahead\r\n${injectAfterStarttls}`);
    plain.uncork();
    plain.removeAllListeners('data');
    this.#buffer = Buffer.alloc(0);
    if (this.#sink.options.dropsHandshake) return void plain.on('data', () => plain.destroy());
    const secure = new TLSSocket(plain, { isServer: true, key: tls?.key, cert: tls?.cert });
    this.#socket = secure;
    this.#listen(secure);
  }

  #auth(line: string): void {
    const [, mechanism, initial] = line.split(' ');
    if (mechanism?.toUpperCase() === 'PLAIN' && initial) {
      const [, user = '', pass = ''] = Buffer.from(initial, 'base64').toString('utf8').split('\0');
      return this.#verify(user, pass);
    }
    this.#mode = 'auth';
    this.#authAnswers = [];
    this.#reply('334 VXNlcm5hbWU6');
  }

  #takeAuthAnswer(line: string): void {
    this.#authAnswers.push(Buffer.from(line, 'base64').toString('utf8'));
    const [user, pass] = this.#authAnswers;
    if (user === undefined || pass === undefined) return this.#reply('334 UGFzc3dvcmQ6');
    this.#mode = 'command';
    this.#verify(user, pass);
  }

  #verify(user: string, pass: string): void {
    const wanted = this.#sink.options.requireAuth;
    this.#authenticated = user === wanted?.user && pass === wanted.pass;
    this.#reply(this.#authenticated ? '235 2.7.0 Welcome' : '535 5.7.8 Wrong');
  }

  #magicOf(address: string): string {
    return this.#sink.options.isPlain === true ? '' : magicOf(address);
  }

  #mail(line: string): void {
    const match = /^MAIL FROM:<([^>]*)>(.*)$/i.exec(line);
    if (this.#inTransaction) return this.#reply('503 5.5.1 Nested MAIL');
    if (this.#sink.options.requireAuth && !this.#authenticated) return this.#reply('530 5.7.0 Authenticate first');
    if (!match) return this.#reply('501 5.5.4 Syntax');
    this.#from = match[1] ?? '';
    this.#parameters = (match[2] ?? '').trim().toUpperCase().split(' ').filter(Boolean);
    this.#recipients = [];
    const magic = this.#magicOf(this.#from);
    this.#magic = new Set([magic]);
    if (magic === 'drop-mail') return this.#drop();
    if (magic === 'fail-mail') return this.#reply('550 5.1.8 Sender refused');
    if (magic === 'defer-mail') return this.#reply('451 4.1.8 Sender not now');
    if (magic === 'garbage') return this.#reply('This is not SMTP');
    this.#inTransaction = true;
    this.#reply('250 2.1.0 Ok');
  }

  async #rcpt(line: string): Promise<void> {
    const address = /^RCPT TO:<(.*)>(?: [^>]*)?$/i.exec(line)?.[1];
    if (!this.#inTransaction) return this.#reply('503 5.5.1 MAIL first');
    if (address === undefined) return this.#reply('501 5.5.4 Syntax');
    const magic = this.#magicOf(address);
    if (magic === 'slow') await this.#pause();
    if (magic === 'drop-rcpt' || magic === 'drop-mail') return this.#drop();
    if (magic === 'fail-rcpt' || magic === 'fail-mail') return this.#reply('550-5.1.1 No such user\r\n550 5.1.1 here');
    if (magic === 'defer-rcpt' || magic === 'defer-mail') return this.#reply('451 4.2.1 Mailbox busy');
    if (magic === 'too-many') return this.#reply('452 4.5.3 Too many recipients');
    if (magic === 'reply-421') {
      this.#reply('421 4.3.2 Closing');
      return this.#drop421();
    }
    if (magic === 'garbage') return this.#reply('This is not SMTP');
    if (magic === 'endless') return void this.#socket.write(`250-${'x'.repeat(200_000)}`);
    this.#magic.add(magic);
    this.#recipients.push(address);
    this.#reply('250 2.1.5 Ok');
  }

  #data(): void {
    if (!this.#inTransaction) return this.#reply('503 5.5.1 MAIL first');
    if (this.#recipients.length === 0 && !this.#sink.options.always354) {
      return this.#reply('554 5.5.1 No valid recipients');
    }
    if (this.#magic.has('fail-data')) return this.#reply('554 5.7.1 No data from you');
    if (this.#magic.has('defer-data')) return this.#reply('451 4.3.0 Data not now');
    this.#mode = 'content';
    this.#tail = Buffer.from('\r\n');
    this.#reply('354 Go on');
  }
}

/** A running sink. */
export class FaultSink {
  readonly options: FaultSinkOptions;
  /** Everything it took, in order. */
  readonly messages: SunkMessage[] = [];
  /** Every command line of every connection, in order. */
  readonly commands: string[] = [];
  /** Connections so far. */
  connections = 0;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #waiting = new Set<() => void>();

  private constructor(options: FaultSinkOptions) {
    this.options = options;
    const listener = (socket: Socket): void => {
      this.connections += 1;
      this.#sockets.add(socket);
      socket.setNoDelay(true);
      socket.on('close', () => this.#sockets.delete(socket));
      void new SinkSession(this, socket, this.connections);
    };
    this.#server =
      options.tls?.mode === 'implicit'
        ? createTlsServer({ key: options.tls.key, cert: options.tls.cert }, listener)
        : createServer(listener);
  }

  /** Starts one on loopback. */
  static async start(options: FaultSinkOptions = {}): Promise<FaultSink> {
    const sink = new FaultSink(options);
    await new Promise<void>((resolve, reject) => {
      sink.#server.once('error', reject);
      sink.#server.listen(options.port ?? 0, options.host ?? '127.0.0.1', resolve);
    });
    return sink;
  }

  get port(): number {
    const address = this.#server.address();
    return typeof address === 'object' && address !== null ? (address satisfies AddressInfo).port : 0;
  }

  /** Connections open now. */
  get open(): number {
    return this.#sockets.size;
  }

  keep(message: SunkMessage): void {
    this.messages.push(message);
    if (this.options.ledger !== undefined) {
      const { mailFrom, recipients, raw } = message;
      const messageId = /^message-id:\s*(\S+)/im.exec(raw.toString('latin1', 0, 65_536))?.[1] ?? '';
      const line = { from: mailFrom, to: recipients, messageId, size: raw.length };
      appendFileSync(this.options.ledger, `${JSON.stringify(line)}\n`);
    }
    for (const wake of this.#waiting) wake();
  }

  /** Resolves once it has so many messages. */
  async received(count: number): Promise<readonly SunkMessage[]> {
    while (this.messages.length < count) {
      await new Promise<void>((resolve) => {
        const wake = (): void => {
          this.#waiting.delete(wake);
          resolve();
        };
        this.#waiting.add(wake);
      });
    }
    return this.messages;
  }

  /** Drops every open connection. */
  dropAll(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async close(): Promise<void> {
    this.dropAll();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: { port: { type: 'string' }, ledger: { type: 'string' }, 'no-pipelining': { type: 'boolean' } },
  });
  const sink = await FaultSink.start({
    port: Number(values.port ?? 0),
    noPipelining: values['no-pipelining'] ?? false,
    ...(values.ledger === undefined ? {} : { ledger: values.ledger }),
  });
  process.stdout.write(`listening on ${sink.port}\n`);
}
