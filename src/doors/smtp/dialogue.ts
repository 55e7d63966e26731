// The SMTP dialogue without its socket: takes a command line, gives a reply (RFC 5321, RFC 3207, RFC 4954; D40-D42).

import type { Submitter } from '../../accounts/account.ts';
import type { BodyOwner } from '../../base/body-budget.ts';
import { type MaybePromise, whenKnown } from '../../base/load/maybe-promise.ts';
import type { Envelope } from '../../mail/envelope.ts';
import { Authentication } from './authentication.ts';
import type { Client, DialogueContext, MailSession, SessionFacts, TransactionCommands } from './dialogue-context.ts';
import { MailCommands } from './mail-commands.ts';
import { type Answer, replies } from './replies.ts';

/** RFC 5321 §4.5.3.1.4 plus the parameters of D40b; only AUTH may be longer (RFC 4954 §4). */
const maxCommandOctets = 2046;
const maxHeloOctets = 255;
const maxErrors = 20;

// C1 controls too: a terminal that shows the log may obey them.
const controls = /[\0-\x1f\x7f-\x9f]/;
const httpRequest = /^(?:GET|HEAD|POST|PUT|DELETE|OPTIONS|TRACE|CONNECT|PATCH) .*HTTP\/\d/i;
const unimplemented = new Set(['EXPN', 'TURN', 'ATRN', 'ETRN', 'SEND', 'SOML', 'SAML', 'BURL', 'XCLIENT', 'XFORWARD']);

function isProtocolError(code: number): boolean {
  return (code >= 500 && code <= 504) || code === 530 || code === 538 || code === 555;
}

/** One session's state and its answers. It has no socket and no clock. */
export class Dialogue implements MailSession {
  secure: boolean;
  readonly #context: DialogueContext;
  readonly #client: Client;
  #helo: { readonly name: string; readonly extended: boolean } | undefined;
  readonly #authentication: Authentication;
  readonly #mail: TransactionCommands;
  #errors = 0;

  constructor(context: DialogueContext, { client, secure }: { readonly client: Client; readonly secure: boolean }) {
    this.#context = context;
    this.#client = client;
    this.secure = secure;
    this.#authentication = new Authentication({ context, client });
    const parts = { context, client, session: this };
    this.#mail = context.commands ? context.commands(parts) : new MailCommands(parts);
  }

  get submitter(): Submitter | undefined {
    return this.#client.submitter() ?? this.#authentication.submitter;
  }

  get awaitsSubmitter(): boolean {
    return this.#context.listener.role === 'submission' && this.submitter === undefined;
  }

  /** The client's next line answers a challenge of AUTH: it is a secret. */
  get awaitsSecret(): boolean {
    return this.#authentication.pending;
  }

  get helo(): string | undefined {
    return this.#helo?.name;
  }

  /** The `with` of Received (RFC 3848, RFC 6531 §4.3): SMTP, ESMTPSA, UTF8SMTPSA ... */
  get protocol(): string {
    if (!this.#helo?.extended) return 'SMTP';
    const name = this.#mail.envelope?.smtputf8 ? 'UTF8SMTP' : 'ESMTP';
    return `${name}${this.secure ? 'S' : ''}${this.#authentication.submitter ? 'A' : ''}`;
  }

  get refusalFacts(): SessionFacts {
    const { account, credential } = this.submitter ?? {};
    return {
      account: account?.name ?? '',
      credential: credential?.name,
      sessionId: this.#client.sessionId,
      via: 'smtp',
      listener: this.#context.listener.name,
      clientAddress: this.#client.address,
      helo: this.helo,
    };
  }

  get envelope(): Envelope | undefined {
    return this.#mail.envelope;
  }

  /** To be called when TLS is up: forgets everything that was said before (RFC 3207 §4.2). */
  secured(): void {
    this.secure = true;
    this.#helo = undefined;
    this.#authentication.forget();
    this.#mail.reset();
  }

  get bodyOwner(): BodyOwner {
    return { door: 'smtp', account: this.submitter?.account.id ?? '', address: this.#client.address };
  }

  /** To be called when the message of the transaction is done with, accepted or not. */
  finish(accepted: boolean): void {
    this.#mail.reset();
    if (accepted) this.#errors = 0;
  }

  /** Reads the submitter's token again, unless the listener itself names the submitter (D40c, D94). */
  renew(): MaybePromise<Submitter | undefined> {
    return this.#client.submitter() ?? this.#authentication.renew();
  }

  /**
   * Answers a command line, or the client's response inside an AUTH exchange. The next line may be handed in only once the
   * answer to this one is known, because an answer changes the session.
   * @param line without CRLF
   * @returns the answer; a promise only where a store or a penalty is waited for. It rejects with what a store throws
   */
  answer(line: Buffer): MaybePromise<Answer> {
    const authentication = this.#authentication;
    const answer = authentication.pending ? authentication.respond(line.toString('latin1')) : this.#command(line);
    return whenKnown(answer, (known) => this.#counted(known));
  }

  /** Answers a line that was too long to keep. */
  answerOverlong(): Answer {
    this.#authentication.cancel();
    return this.#counted(replies.overlongLine);
  }

  #counted(answer: Answer): Answer {
    if (!isProtocolError(answer.code)) return answer;
    this.#errors += 1;
    return this.#errors < maxErrors ? answer : replies.tooManyErrors;
  }

  #command(line: Buffer): MaybePromise<Answer> {
    const text = line.toString('latin1');
    const blank = text.indexOf(' ');
    const verb = (blank < 0 ? text : text.slice(0, blank)).toUpperCase();
    const argument = blank < 0 ? '' : text.slice(blank + 1).trim();
    if (line.length > maxCommandOctets && verb !== 'AUTH') return replies.overlongLine;
    switch (verb) {
      case 'MAIL':
        return this.#mail.mail(line);
      case 'RCPT':
        return this.#mail.rcpt(line);
      case 'DATA':
        return argument === '' ? this.#mail.data() : replies.noParameters;
      case 'EHLO':
      case 'HELO':
        return this.#hello(verb, line.subarray(5).toString('utf8').trim());
      case 'STARTTLS':
        return argument === '' ? this.#startTls() : replies.noParameters;
      case 'AUTH':
        return this.#auth(argument);
      case 'RSET':
        if (argument === '') this.#mail.reset();
        return argument === '' ? replies.ok : replies.noParameters;
      case 'QUIT':
        return argument === '' ? replies.bye : replies.noParameters;
      case 'NOOP':
        return replies.ok;
      case 'VRFY':
        return argument === '' ? replies.vrfySyntax : replies.cannotVerify;
      case 'HELP':
        return replies.help;
      case 'BDAT':
        return replies.noChunking;
      case '':
        return replies.emptyLine;
      default:
        if (httpRequest.test(text)) return replies.notSmtp;
        return unimplemented.has(verb) ? replies.notImplemented : replies.unknownCommand;
    }
  }

  #hello(verb: 'HELO' | 'EHLO', name: string): Answer {
    const { hostname, limits, listener } = this.#context;
    if (name === '' || Buffer.byteLength(name) > maxHeloOctets || controls.test(name)) return replies.heloSyntax;
    // RFC 5321 §4.1.4: a new EHLO resets the transaction.
    this.#mail.reset();
    this.#helo = { name, extended: verb === 'EHLO' };
    if (verb === 'HELO') return { code: 250, text: hostname };
    const keywords = [
      hostname,
      'PIPELINING',
      `SIZE ${limits.messageBytes}`,
      '8BITMIME',
      'SMTPUTF8',
      'ENHANCEDSTATUSCODES',
      'DSN',
    ];
    if (!this.secure && listener.tls === 'starttls') keywords.push('STARTTLS');
    if (this.#mayAuthenticate() && !this.submitter) keywords.push('AUTH PLAIN LOGIN');
    if (this.secure) keywords.push('REQUIRETLS');
    return { code: 250, text: keywords.join('\n') };
  }

  #startTls(): Answer {
    if (this.secure) return replies.tlsAlready;
    return this.#context.listener.tls === 'starttls' ? replies.startTls : replies.tlsNotOffered;
  }

  #mayAuthenticate(): boolean {
    const { listener } = this.#context;
    return listener.role === 'submission' && (this.secure || listener.allowInsecureAuth);
  }

  #auth(argument: string): MaybePromise<Answer> {
    const { listener } = this.#context;
    if (listener.role === 'bounce') return replies.authNotOffered;
    if (!this.#mayAuthenticate()) return listener.tls === 'starttls' ? replies.mustStartTls : replies.authNeedsTls;
    if (!this.#helo) return replies.sayHelloFirst;
    if (this.submitter) return replies.authAlready;
    if (this.#mail.envelope) return replies.authInTransaction;
    return this.#authentication.begin(argument, this.helo);
  }
}
