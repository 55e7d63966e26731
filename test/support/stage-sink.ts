// A next hop that commits one fault at one stage of a session, and behaves once it is healed. It is written apart from
// src/ on purpose: a peer, not a mirror.

import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { TLSSocket } from 'node:tls';

/** The stages of a session, in their order. */
export const sinkStages = [
  'connect',
  'greeting',
  'EHLO',
  'STARTTLS',
  'TLS handshake',
  'AUTH',
  'MAIL',
  'RCPT',
  'DATA',
  'content',
  'end of data',
  'QUIT',
] as const;

/** One stage of a session. */
export type SinkStage = (typeof sinkStages)[number];

/** What may go wrong at a stage. */
export const sinkFaults = ['4xx', '5xx', '421', 'drop', 'stall', 'garbage', 'half a reply'] as const;

/** One fault. */
export type SinkFault = (typeof sinkFaults)[number];

/** Text that is no SMTP reply. */
const garbage = 'This is not SMTP\r\n';
/** The first octets of a TLS record that never ends. */
const halfRecord = Buffer.from([0x16, 0x03, 0x03, 0x40, 0x00, 0x02]);

/** One connection to the sink. */
class StageSession {
  readonly #sink: StageSink;
  #socket: Socket;
  #text = '';
  #inContent = false;
  #isSilent = false;

  constructor(sink: StageSink, socket: Socket) {
    this.#sink = sink;
    this.#socket = socket;
    this.#listen(socket);
    this.#answer('greeting', '220 sink.test ESMTP');
  }

  #listen(socket: Socket): void {
    socket.on('error', () => socket.destroy());
    socket.on('data', (chunk) => {
      if (this.#isSilent || socket !== this.#socket) return;
      this.#text += chunk.toString('latin1');
      this.#read();
    });
  }

  #read(): void {
    while (!this.#isSilent) {
      if (this.#inContent) {
        if (this.#sink.hasFault('content')) return this.#commit(this.#sink.fault);
        const end = this.#text.indexOf('\r\n.\r\n');
        if (end < 0) {
          // Only the last octets can be part of the end of data.
          this.#text = this.#text.slice(-4);
          return;
        }
        this.#text = this.#text.slice(end + 5);
        this.#inContent = false;
        this.#finish();
        continue;
      }
      const end = this.#text.indexOf('\r\n');
      if (end < 0) return;
      const line = this.#text.slice(0, end);
      this.#text = this.#text.slice(end + 2);
      this.#take(line);
    }
  }

  #take(line: string): void {
    const verb = line.split(' ', 1)[0]?.toUpperCase() ?? '';
    const secure = this.#socket instanceof TLSSocket;
    const { tls } = this.#sink;
    if (verb === 'EHLO') {
      const offers = [...(tls && !secure ? ['STARTTLS'] : []), ...(secure ? ['AUTH PLAIN'] : []), 'PIPELINING'];
      this.#answer(
        'EHLO',
        ['250-sink.test', ...offers.map((o, at) => `250${at === offers.length - 1 ? ' ' : '-'}${o}`)].join('\r\n'),
      );
    } else if (verb === 'HELO') this.#write('250 sink.test');
    else if (verb === 'STARTTLS') this.#startTls();
    else if (verb === 'AUTH') this.#answer('AUTH', '235 2.7.0 Welcome');
    else if (verb === 'MAIL') this.#answer('MAIL', '250 2.1.0 Ok');
    else if (verb === 'RCPT') this.#answer('RCPT', '250 2.1.5 Ok');
    else if (verb === 'RSET') this.#write('250 2.0.0 Ok');
    else if (verb === 'DATA') this.#data();
    else if (verb === 'QUIT') {
      this.#sink.quits += 1;
      this.#answer('QUIT', '221 2.0.0 Bye');
    } else this.#write('502 5.5.2 Unknown');
  }

  #data(): void {
    const refused = this.#sink.hasFault('RCPT') && (this.#sink.fault === '4xx' || this.#sink.fault === '5xx');
    const mailRefused = this.#sink.hasFault('MAIL') && (this.#sink.fault === '4xx' || this.#sink.fault === '5xx');
    if (refused || mailRefused) return this.#write('554 5.5.1 No valid recipients');
    if (!this.#answer('DATA', '354 Go on')) return;
    this.#inContent = true;
  }

  #finish(): void {
    const { fault } = this.#sink;
    const isTaken = !this.#sink.hasFault('end of data') || !['4xx', '5xx', '421'].includes(fault);
    if (isTaken) this.#sink.taken += 1;
    this.#answer('end of data', '250 2.0.0 Taken');
  }

  #startTls(): void {
    const { tls } = this.#sink;
    if (!this.#answer('STARTTLS', '220 2.0.0 Go ahead')) return;
    const plain = this.#socket;
    plain.removeAllListeners('data');
    if (this.#sink.hasFault('TLS handshake')) {
      // Once the client has begun the handshake: what comes before is no part of it.
      plain.once('data', () => this.#commit(this.#sink.fault));
      return;
    }
    this.#text = '';
    this.#socket = new TLSSocket(plain, { isServer: true, ...tls });
    this.#listen(this.#socket);
  }

  /** Gives the usual answer, or commits the fault of this stage; true where the answer was the usual one. */
  #answer(stage: SinkStage, usual: string): boolean {
    if (!this.#sink.hasFault(stage)) {
      this.#write(usual);
      return true;
    }
    this.#commit(this.#sink.fault);
    return false;
  }

  #commit(fault: SinkFault): void {
    switch (fault) {
      case '4xx':
        return this.#write('450 4.3.2 Not now');
      case '5xx':
        return this.#write('550 5.7.1 Never');
      case '421':
        this.#write('421 4.3.2 Closing');
        return this.#close();
      case 'drop':
        return this.#close();
      case 'garbage':
        this.#socket.write(garbage);
        return this.#beSilent();
      case 'half a reply':
        this.#socket.write(this.#sink.hasFault('TLS handshake') ? halfRecord : '250-Half a rep');
        return this.#beSilent();
      case 'stall':
        return this.#beSilent();
    }
  }

  /** Neither answers nor reads any more. */
  #beSilent(): void {
    this.#isSilent = true;
    this.#socket.pause();
  }

  /** Ends the connection behind the replies that were written. */
  #close(): void {
    this.#isSilent = true;
    this.#socket.destroySoon();
  }

  #write(line: string): void {
    if (!this.#socket.destroyed) this.#socket.write(`${line}\r\n`);
    // Content that came with a refusal is not read as commands.
    if (this.#inContent && this.#sink.hasFault('content')) this.#isSilent = true;
  }
}

/** A running sink. */
export class StageSink {
  readonly stage: SinkStage;
  readonly fault: SinkFault;
  readonly tls: { readonly key: string; readonly cert: string } | undefined;
  /** Messages taken: the whole content was read, and no refusal of it was meant. */
  taken = 0;
  /** QUIT commands read. */
  quits = 0;
  #isHealed = false;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(options: Pick<StageSink, 'stage' | 'fault' | 'tls'>) {
    this.stage = options.stage;
    this.fault = options.fault;
    this.tls = options.tls;
    this.#server = createServer((socket) => {
      this.#sockets.add(socket.on('close', () => this.#sockets.delete(socket)));
      void new StageSession(this, socket);
    });
  }

  /** Starts one on loopback. */
  static async start(options: Pick<StageSink, 'stage' | 'fault' | 'tls'>): Promise<StageSink> {
    const sink = new StageSink(options);
    await new Promise<void>((resolve) => void sink.#server.listen(0, '127.0.0.1', resolve));
    return sink;
  }

  get port(): number {
    const address = this.#server.address();
    return typeof address === 'object' && address !== null ? (address satisfies AddressInfo).port : 0;
  }

  /** The fault of this stage is still committed. */
  hasFault(stage: SinkStage): boolean {
    return stage === this.stage && !this.#isHealed;
  }

  /** From now on everything is answered as it should be. */
  heal(): void {
    this.#isHealed = true;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise<void>((resolve) => void this.#server.close(() => resolve()));
  }
}
