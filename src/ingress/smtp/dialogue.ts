// The SMTP dialogue without its socket: a command line in, a reply out (RFC 5321, RFC 3207, RFC 4954; D40-D42).

import type { Account, Submitter } from '../../accounts/account.ts';
import type { Accounts } from '../../accounts/accounts.ts';
import type { Guessing } from '../../accounts/guessing.ts';
import type { BodyBudget, BodyOwner } from '../../base/body-budget.ts';
import type { Logger } from '../../base/log.ts';
import type { Envelope } from '../../mail/envelope.ts';
import type { RejectionCode, Violation } from '../../submit.ts';
import { readAddressCommand } from './address-command.ts';
import { Authentication } from './authentication.ts';
import { printableAscii } from './printable-ascii.ts';
import { refusalReply } from './refusal.ts';
import { type Answer, replies } from './replies.ts';
import type { SmtpLimits, SmtpListener } from './settings.ts';

/** What a dialogue may ask, and what the door counts. */
export interface DialogueContext {
  readonly hostname: string;
  readonly listener: SmtpListener;
  readonly limits: SmtpLimits;
  readonly accounts: Accounts;
  /** The room in memory for messages under way. */
  readonly bodies: BodyBudget;
  readonly log: Logger;
  /** Tells whether the account's suppression list holds the recipient (D51). */
  readonly suppressed: (account: Account, recipient: string) => boolean;
  /**
   * Asks the account's rates before the octets of a message are taken; a violation refuses it. Nothing is charged: that
   * is done when the message is in order (D41).
   */
  readonly rateLimit: (account: Account, recipients: number) => Violation | undefined;
  /** The count of wrong tokens of all doors. */
  readonly guessing: Guessing;
  readonly onAuthFailure: () => void;
  /** Is told of each message that the door itself refuses, by its code. */
  readonly onRefused: (code: RejectionCode) => void;
}

/** Who is at the other end. */
export interface Client {
  readonly sessionId: string;
  /** Normal form, IPv4 never in IPv6 form. */
  readonly address: string;
  /** Set where the listener itself names the submitter (D40c). */
  readonly submitter: Submitter | undefined;
}

interface Transaction {
  readonly reversePath: string;
  readonly recipients: Set<string>;
  readonly smtputf8: boolean;
  readonly requireTls: boolean;
  /** Octets, as declared (RFC 1870); 0 where nothing was. */
  readonly size: number;
}

/** RFC 5321 §4.5.3.1.4 with the parameters of D40b; AUTH alone may be longer (RFC 4954 §4). */
const maxCommandOctets = 2046;
const maxHeloOctets = 255;
const maxErrors = 20;

// C1 too: a terminal that shows the log may obey it.
const controls = /[\0-\x1f\x7f-\x9f]/;
const httpRequest = /^(?:GET|HEAD|POST|PUT|DELETE|OPTIONS|TRACE|CONNECT|PATCH) .*HTTP\/\d/i;
const unimplemented = new Set(['EXPN', 'TURN', 'ATRN', 'ETRN', 'SEND', 'SOML', 'SAML', 'BURL', 'XCLIENT', 'XFORWARD']);

function isProtocolError(code: number): boolean {
  return (code >= 500 && code <= 504) || code === 530 || code === 538 || code === 555;
}

/** One session's state and its answers. It knows no socket and no time. */
export class Dialogue {
  readonly #context: DialogueContext;
  readonly #client: Client;
  #secure: boolean;
  #helo: { readonly name: string; readonly extended: boolean } | undefined;
  readonly #authentication: Authentication;
  #transaction: Transaction | undefined;
  #errors = 0;

  constructor(context: DialogueContext, { client, secure }: { readonly client: Client; readonly secure: boolean }) {
    this.#context = context;
    this.#client = client;
    this.#secure = secure;
    this.#authentication = new Authentication(context, client);
  }

  /** The account and credential of the session, once known. */
  get submitter(): Submitter | undefined {
    return this.#client.submitter ?? this.#authentication.submitter;
  }

  /** The name of HELO or EHLO, as given. */
  get helo(): string | undefined {
    return this.#helo?.name;
  }

  /** The `with` of Received (RFC 3848, RFC 6531 §4.3): SMTP, ESMTPSA, UTF8SMTPSA ... */
  get protocol(): string {
    if (!this.#helo?.extended) return 'SMTP';
    const name = this.#transaction?.smtputf8 ? 'UTF8SMTP' : 'ESMTP';
    return `${name}${this.#secure ? 'S' : ''}${this.#authentication.submitter ? 'A' : ''}`;
  }

  /** The envelope of the open transaction. */
  get envelope(): Envelope | undefined {
    const transaction = this.#transaction;
    if (!transaction) return undefined;
    const { size: _, ...envelope } = transaction;
    return { ...envelope, recipients: [...transaction.recipients] };
  }

  /** TLS is up: all that was said before is forgotten (RFC 3207 §4.2). */
  secured(): void {
    this.#secure = true;
    this.#helo = undefined;
    this.#authentication.forget();
    this.#transaction = undefined;
  }

  /** Whose the octets of the transaction's message are. */
  get bodyOwner(): BodyOwner {
    return { door: 'smtp', account: this.submitter?.account.id ?? '', address: this.#client.address };
  }

  /** The message of the transaction is done with, accepted or not. */
  finish(accepted: boolean): void {
    this.#transaction = undefined;
    if (accepted) this.#errors = 0;
  }

  /** Answers a command line (without CRLF), or the client's response inside an AUTH exchange. */
  answer(line: Buffer): Answer {
    const authentication = this.#authentication;
    return this.#counted(
      authentication.pending ? authentication.respond(line.toString('latin1')) : this.#command(line),
    );
  }

  /** Answers a line that was too long to be kept. */
  answerOverlong(): Answer {
    this.#authentication.cancel();
    return this.#counted(replies.overlongLine);
  }

  #counted(answer: Answer): Answer {
    if (!isProtocolError(answer.code)) return answer;
    this.#errors += 1;
    return this.#errors < maxErrors ? answer : replies.tooManyErrors;
  }

  #command(line: Buffer): Answer {
    const text = line.toString('latin1');
    const blank = text.indexOf(' ');
    const verb = (blank < 0 ? text : text.slice(0, blank)).toUpperCase();
    const argument = blank < 0 ? '' : text.slice(blank + 1).trim();
    if (line.length > maxCommandOctets && verb !== 'AUTH') return replies.overlongLine;
    switch (verb) {
      case 'MAIL':
        return this.#mail(line);
      case 'RCPT':
        return this.#rcpt(line);
      case 'DATA':
        return argument === '' ? this.#data() : replies.noParameters;
      case 'EHLO':
      case 'HELO':
        return this.#hello(verb, line.subarray(5).toString('utf8').trim());
      case 'STARTTLS':
        return argument === '' ? this.#startTls() : replies.noParameters;
      case 'AUTH':
        return this.#auth(argument);
      case 'RSET':
        if (argument === '') this.#transaction = undefined;
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
    this.#transaction = undefined;
    this.#helo = { name, extended: verb === 'EHLO' };
    if (verb === 'HELO') return { code: 250, text: hostname };
    const keywords = [
      hostname,
      'PIPELINING',
      `SIZE ${limits.messageBytes}`,
      '8BITMIME',
      'SMTPUTF8',
      'ENHANCEDSTATUSCODES',
    ];
    if (!this.#secure && listener.tls === 'starttls') keywords.push('STARTTLS');
    if (this.#mayAuthenticate() && !this.submitter) keywords.push('AUTH PLAIN LOGIN');
    if (this.#secure) keywords.push('REQUIRETLS');
    return { code: 250, text: keywords.join('\n') };
  }

  #startTls(): Answer {
    if (this.#secure) return replies.tlsAlready;
    return this.#context.listener.tls === 'starttls' ? replies.startTls : replies.tlsNotOffered;
  }

  #mayAuthenticate(): boolean {
    return this.#secure || this.#context.listener.allowInsecureAuth;
  }

  /** What stands before every mail command: TLS, then the submitter (D40). Nothing else is relied on. */
  #barred(): Answer | undefined {
    const { listener } = this.#context;
    if (!this.#secure && listener.tls === 'starttls' && !listener.allowInsecureAuth) return replies.mustStartTls;
    return this.submitter ? undefined : replies.authRequired;
  }

  #auth(argument: string): Answer {
    const { listener } = this.#context;
    if (!this.#mayAuthenticate()) return listener.tls === 'starttls' ? replies.mustStartTls : replies.authNeedsTls;
    if (!this.#helo) return replies.sayHelloFirst;
    if (this.submitter) return replies.authAlready;
    if (this.#transaction) return replies.authInTransaction;
    return this.#authentication.begin(argument, this.helo);
  }

  #mail(line: Buffer): Answer {
    const barred = this.#barred();
    if (barred) return barred;
    if (!this.#helo) return replies.sayHelloFirst;
    if (this.#transaction) return replies.nestedMail;
    // RFC 4954 §6: 530 to any command that needs an authentication which is not, or no longer, in force.
    if (!this.#client.submitter && !this.#authentication.renew()) return replies.tokenGone;
    const command = readAddressCommand('MAIL', { line, smtputf8: false });
    if ('code' in command) return command;
    const { path, parameters } = command;
    const wrong = this.#wrongMailParameter(parameters);
    if (wrong) return wrong;
    const size = Number(parameters.get('SIZE') ?? 0);
    if (size > this.#context.limits.messageBytes) return this.#tooLarge(path.mailbox, size);
    if (size > 0 && !this.#hasRoom(size)) return this.#noRoom(path.mailbox, size);
    const sender = this.#completed(path.mailbox, path.domain);
    if (sender === undefined) return replies.senderWithoutDomain;
    const refused = this.#senderRefused(sender);
    if (refused) return refused;
    this.#transaction = {
      reversePath: sender.mailbox,
      recipients: new Set(),
      smtputf8: parameters.has('SMTPUTF8'),
      requireTls: parameters.has('REQUIRETLS'),
      size,
    };
    return replies.senderOk;
  }

  #wrongMailParameter(parameters: ReadonlyMap<string, string>): Answer | undefined {
    if (parameters.size === 0) return undefined;
    const size = parameters.get('SIZE');
    const body = parameters.get('BODY')?.toUpperCase();
    if (size !== undefined && !/^\d{1,20}$/.test(size)) return replies.badSize;
    if (body !== undefined && body !== '7BIT' && body !== '8BITMIME') return replies.badBody;
    if (parameters.has('REQUIRETLS') && !this.#secure) return replies.requireTlsWithoutTls;
    return undefined;
  }

  /** RFC 1870 §6.1: a message that is declared too large is refused here, and its octets never come. */
  #tooLarge(from: string, size: number): Answer {
    this.#context.onRefused('E_CONTENT_TOO_LARGE');
    this.#logRefusal({ from, size, codes: ['E_CONTENT_TOO_LARGE'] }, 'refused');
    return replies.tooLarge;
  }

  #hasRoom(size: number): boolean {
    return this.#context.bodies.admits(this.bodyOwner, size);
  }

  #noRoom(from: string, size: number): Answer {
    this.#logRefusal({ from, size, reason: replies.noRoom.text }, 'refused');
    return replies.noRoom;
  }

  /** D4b: an address without a domain gets the credential's, where it has one. */
  #completed(
    mailbox: string,
    domain: string | undefined,
  ): { readonly mailbox: string; readonly domain: string } | undefined {
    if (domain !== undefined || mailbox === '') return { mailbox, domain: domain ?? '' };
    const defaultDomain = this.submitter?.credential.defaultDomain;
    return defaultDomain === undefined ? undefined : { mailbox: `${mailbox}@${defaultDomain}`, domain: defaultDomain };
  }

  /** D50: the domain must be the account's; the null reverse-path is anybody's. */
  #senderRefused({ mailbox, domain }: { readonly mailbox: string; readonly domain: string }): Answer | undefined {
    const { accounts } = this.#context;
    const account = this.submitter?.account;
    if (!account) return replies.authRequired;
    if (mailbox === '' || accounts.sendingDomain(account, domain)) return undefined;
    this.#logRefusal({ from: mailbox, reason: 'sender domain' }, 'sender refused');
    return { code: 550, enhanced: '5.7.1', text: `${domain} is no sending domain of account ${account.name}` };
  }

  #rcpt(line: Buffer): Answer {
    const barred = this.#barred();
    if (barred) return barred;
    const transaction = this.#transaction;
    const account = this.submitter?.account;
    if (!transaction || !account) return replies.mailFirst;
    const command = readAddressCommand('RCPT', { line, smtputf8: transaction.smtputf8 });
    if ('code' in command) return command;
    const { mailbox, domain } = command.path;
    if (mailbox === '') return replies.badRecipient;
    const recipient = this.#completed(mailbox, domain)?.mailbox;
    if (recipient === undefined) return replies.recipientWithoutDomain;
    const { recipients } = transaction;
    if (recipients.has(recipient)) return replies.recipientOk;
    if (recipients.size >= this.#context.limits.recipients) return replies.tooManyRecipients;
    if (this.#context.suppressed(account, recipient)) {
      this.#logRefusal({ to: recipient, reason: 'suppressed' }, 'recipient refused');
      const shown = printableAscii(recipient, 300);
      return { code: 550, enhanced: '5.7.1', text: `E_RECIPIENT_SUPPRESSED: ${shown} is on the suppression list` };
    }
    recipients.add(recipient);
    return replies.recipientOk;
  }

  #data(): Answer {
    const barred = this.#barred();
    if (barred) return barred;
    const transaction = this.#transaction;
    const account = this.submitter?.account;
    if (!transaction || !account) return replies.mailFirst;
    if (transaction.recipients.size === 0) return replies.noRecipients;
    if (!this.#hasRoom(transaction.size)) return this.#noRoom(transaction.reversePath, transaction.size);
    const violation = this.#context.rateLimit(account, transaction.recipients.size);
    if (!violation) return replies.startData;
    this.#context.onRefused(violation.code);
    const { reversePath: from, recipients } = transaction;
    this.#logRefusal({ from, recipients: recipients.size, codes: [violation.code] }, 'refused');
    return refusalReply([violation]);
  }

  #logRefusal(facts: Readonly<Record<string, unknown>>, message: string): void {
    const { log, listener } = this.#context;
    const { sessionId: session, address: client } = this.#client;
    const submitter = this.submitter;
    log.info(
      {
        session,
        listener: listener.name,
        client,
        helo: this.helo,
        account: submitter?.account.name,
        credential: submitter?.credential.name,
        ...facts,
      },
      message,
    );
  }
}
