// One SMTP connection: reader, dialogue, replies and deadlines, built on a connection of the library.

import type { Socket } from 'node:net';
import type { BodyBudget, BodyReservation } from '../../base/body-budget.ts';
import { BodyPace } from '../../base/body-pace.ts';
import type { Clock } from '../../base/clock.ts';
import { Unavailable } from '../../base/errors.ts';
import type { MaybePromise } from '../../base/load/maybe-promise.ts';
import type { ConnectionSlot } from './connection-counter.ts';
import { DataReader } from './data-reader.ts';
import { Dialogue } from './dialogue.ts';
import type { Client, CommandsOf, DialogueContext } from './dialogue-context.ts';
import { type Answer, formatReply, replies, unavailableReply } from './replies.ts';
import type { SmtpLimits } from './settings.ts';
import { LibraryConnection } from './smtp-library.ts';
import { type WireListener, WireReader } from './wire-reader.ts';

/** With so many octets of replies unwritten no command is answered: a packet of commands has replies of twenty times its size. */
const maxWaitingOctets = 16_384;

/** What a session needs, besides what its dialogue needs. */
export interface SessionContext extends DialogueContext {
  readonly clock: Clock;
  /** Octets of a header section after which nothing more of a message is kept. */
  readonly headerBytes: number;
  /** Whether what is said is kept for the journal. */
  readonly keepsTranscripts: boolean;
  /** Judges and keeps a message that has come in whole; it never rejects. */
  readonly take: (message: ReceivedMessage) => Promise<Answer>;
  readonly onOpen: (session: SmtpSession) => void;
  readonly onGone: (session: SmtpSession) => void;
}

/** A complete message, and the session that it came in by. */
export interface ReceivedMessage {
  readonly client: Client;
  readonly dialogue: Dialogue;
  readonly data: DataReader;
}

/** What bounce listeners do with mail, and their limits (D40a). */
export interface BounceDesk {
  /** The limits in force that are others than those of submission; sizes in octets. */
  readonly limits: () => Pick<SmtpLimits, 'messageBytes' | 'connections' | 'connectionsPerAddress'>;
  /** The room in memory for reports under way. It is their own, so that reports never take that of submissions. */
  readonly bodies: BodyBudget;
  readonly commands: CommandsOf;
  /** Reads and keeps what a message says, and gives the reply to its final dot. It never rejects. */
  readonly take: (message: ReceivedMessage) => Promise<Answer>;
}

interface SessionOptions {
  readonly socket: Socket;
  readonly client: Client;
  readonly context: SessionContext;
  readonly place: ConnectionSlot;
}

/** A session from its greeting to its end. */
export class SmtpSession extends LibraryConnection implements WireListener {
  readonly #context: SessionContext;
  readonly #client: Client;
  readonly #dialogue: Dialogue;
  readonly #place: ConnectionSlot;
  #out = '';
  /** Milliseconds of the monotonic clock; 0: nothing is expected from the client. */
  #deadline: number;
  readonly #authDeadline: number;
  #lineSince = 0;
  #busy = false;
  /** The room in memory held by the message that is coming in or being judged. */
  #reservation: BodyReservation | undefined;
  #incoming: { readonly data: DataReader; readonly pace: BodyPace } | undefined;
  #draining = false;

  constructor(
    server: ConstructorParameters<typeof LibraryConnection>[0],
    { socket, client, context, place }: SessionOptions,
  ) {
    super(server, socket, { id: client.sessionId, remoteAddress: client.address });
    this.#context = context;
    this.#client = client;
    this.#place = place;
    this.#dialogue = new Dialogue(context, { client, secure: context.listener.tls === 'implicit' });
    const now = context.clock.monotonic();
    this.#deadline = now + context.limits.idleSeconds * 1000;
    this.#authDeadline = now + context.limits.authSeconds * 1000;
    context.onOpen(this);
  }

  // The greeting is sent two turns later. Octets that have come by then came too early (RFC 5321 §4.3.1).
  protected override begun(): void {
    this.#client.transcript?.secured(this.tlsInUse);
    setImmediate(() => setImmediate(() => this.#greet()));
  }

  #greet(): void {
    if (this.over || this.#draining || !this.#reader) return;
    this.#reader.ready = true;
    // RFC 2034 §3: no enhanced code in the greeting.
    this.#say({ code: 220, text: `${this.#context.hostname} ESMTP Postern` });
    void this.#flush();
  }

  get #reader(): WireReader | undefined {
    const reader = this.readerInCharge;
    return reader instanceof WireReader ? reader : undefined;
  }

  protected override createReader(): WireReader {
    return new WireReader(this);
  }

  protected override secured(): void {
    this.#client.transcript?.secured(this.tlsInUse);
    this.#dialogue.secured();
    this.#awaitInput();
  }

  protected override failed(error: Error): void {
    this.#context.log.debug({ ...this.#facts, error: error.message }, 'connection failed');
    this.close();
  }

  protected override gone(): void {
    this.#place.leave();
    // A message that is being judged stays in memory even if its client has gone.
    if (!this.#busy) this.#reservation?.release();
    this.#context.onGone(this);
  }

  override close(): void {
    void this.#flush();
    super.close();
  }

  /** Answers and ends a session whose client let a deadline pass. */
  checkDeadline(now: number): void {
    if (this.over) return;
    // Known answers are sent now: they do not wait for a late answer or for a message that is being judged.
    if (!this.writeBlocked) void this.#flush();
    if (this.#busy) return;
    const unknown = this.#dialogue.awaitsSubmitter && now >= this.#authDeadline;
    const tooSlow = this.#incoming?.pace.isTooSlow(now) === true;
    if (!unknown && !tooSlow && now < this.#deadline) return;
    const answer = unknown ? replies.authTimeout : tooSlow ? replies.tooSlow : replies.timeout;
    this.#context.log.info({ ...this.#facts, reason: answer.text }, 'session ended');
    // Nothing may be written into a TLS handshake.
    if (this.inHandshake) this.destroy();
    else this.#finishWith(answer);
  }

  /** Ends the session with 421 once a message in flight is done with (D97). */
  drain(): void {
    this.#draining = true;
    if (this.over || this.#busy || this.#reader?.inData) return;
    if (this.inHandshake) this.destroy();
    else this.#finishWith(replies.shuttingDown);
  }

  onEarlyOctets(): void {
    this.#context.log.info({ ...this.#facts, reason: 'spoke before the greeting' }, 'connection refused');
    this.#finishWith(replies.earlyTalker);
  }

  onLine(line: Buffer): Promise<void> | undefined {
    this.#lineSince = 0;
    this.#client.transcript?.client(line, this.#context.clock.monotonic(), this.#dialogue.awaitsSecret);
    const answer = this.#answer(line);
    if (answer instanceof Promise) return this.#actLater(answer);
    this.#act(answer);
    return this.#flushMuch();
  }

  onOverlongLine(): Promise<void> | undefined {
    this.#lineSince = 0;
    this.#act(this.#dialogue.answerOverlong());
    return undefined;
  }

  onBrokenLine(answer: Answer): void {
    this.#act(answer);
  }

  onData(data: DataReader): Promise<void> {
    this.#busy = true;
    this.#incoming = undefined;
    this.#client.transcript?.dataEnded(this.#context.clock.monotonic());
    return this.#context.take({ client: this.#client, dialogue: this.#dialogue, data }).then((answer) => {
      this.#busy = false;
      this.#reservation?.release();
      this.#dialogue.finish(answer.code < 300);
      this.#act(answer);
      if (this.#draining) this.#finishWith(replies.shuttingDown);
    });
  }

  onDrained(partialLine: boolean): Promise<void> | undefined {
    this.#awaitInput(partialLine);
    return this.#flush();
  }

  onEnd(): void {
    this.close();
  }

  #answer(line: Buffer): MaybePromise<Answer> {
    try {
      const answer = this.#dialogue.answer(line);
      return answer instanceof Promise ? answer.catch((error: unknown) => this.#failure(error)) : answer;
    } catch (error) {
      return this.#failure(error);
    }
  }

  #failure(error: unknown): Answer {
    const { log } = this.#context;
    if (error instanceof Unavailable) {
      log.warn({ ...this.#facts, reason: error.message }, 'put off');
      return unavailableReply(error);
    }
    log.error({ ...this.#facts, err: error }, 'command failed');
    return { ...replies.internalError, text: `Internal error, id ${this.#client.sessionId}` };
  }

  /** Waits for an answer, and acts on it unless the session has ended meanwhile. Nothing is read until then. */
  async #actLater(late: Promise<Answer>): Promise<void> {
    const answer = await late;
    // The client's deadline begins now, since it could not go on before.
    this.#awaitInput();
    this.#act(answer);
    await this.#flushMuch();
  }

  #act(answer: Answer): void {
    if (this.over) return;
    this.#say(answer);
    if (answer.also) this.#say(answer.also);
    switch (answer.next) {
      case 'data':
        return this.#startData();
      case 'starttls':
        void this.#flush();
        // Octets of the handshake are not seen here, so they do not extend the deadline.
        this.#deadline = this.#context.clock.monotonic() + this.#context.limits.authSeconds * 1000;
        this.startTls();
        // The reader for TLS is new, and no greeting has to come first.
        if (this.#reader) this.#reader.ready = true;
        return;
      case 'close':
        return this.close();
      case undefined:
        return;
    }
  }

  #startData(): void {
    const { bodies, headerBytes, limits } = this.#context;
    const reservation = bodies.open(this.#dialogue.bodyOwner);
    this.#reservation = reservation;
    this.#client.transcript?.dataBegins(this.#context.clock.monotonic());
    const data = new DataReader({ messageBytes: limits.messageBytes, headerBytes, reservation });
    this.#incoming = { data, pace: new BodyPace(limits.dataOctetsPerSecond) };
    this.#reader?.startData(data);
  }

  #finishWith(answer: Answer): void {
    if (this.over) return;
    this.#say(answer);
    this.close();
  }

  #awaitInput(partialLine = false): void {
    const { clock, limits } = this.#context;
    const now = clock.monotonic();
    if (this.#incoming) {
      const { data, pace } = this.#incoming;
      if (data.size > 0) pace.came(data.size, now);
      this.#deadline = now + limits.dataIdleSeconds * 1000;
      return;
    }
    if (!partialLine) {
      this.#deadline = now + limits.idleSeconds * 1000;
      return;
    }
    // Octets that trickle in do not extend the deadline of a line.
    if (this.#lineSince === 0) this.#lineSince = now;
    this.#deadline = this.#lineSince + limits.commandSeconds * 1000;
  }

  #say(answer: Answer): void {
    const text = formatReply(answer);
    this.#client.transcript?.server(text, this.#context.clock.monotonic());
    this.#out += text;
  }

  #flushMuch(): Promise<void> | undefined {
    return this.#out.length < maxWaitingOctets ? undefined : this.#flush();
  }

  /** Writes all waiting replies at once (RFC 2920 §3.2); waits for a client that does not read them. */
  #flush(): Promise<void> | undefined {
    const text = this.#out;
    this.#out = '';
    const read = text === '' ? undefined : this.write(text);
    if (read) this.#deadline = this.#context.clock.monotonic() + this.#context.limits.idleSeconds * 1000;
    return read;
  }

  get #facts(): { readonly session: string; readonly listener: string; readonly client: string } {
    const { sessionId, address } = this.#client;
    return { session: sessionId, listener: this.#context.listener.name, client: address };
  }
}
