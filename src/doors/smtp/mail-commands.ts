// MAIL, RCPT and DATA, and the mail transaction that they build (RFC 5321 §3.3; D4b, D40b, D41, D50, D51).

import type { Account } from '../../accounts/account.ts';
import { mapSender, type SenderMap } from '../../accounts/sender-map.ts';
import { type MaybePromise, whenKnown } from '../../base/load/maybe-promise.ts';
import { Part } from '../../base/part.ts';
import { splitMailbox } from '../../mail/address/domain.ts';
import {
  type DsnRequest,
  type Envelope,
  type RecipientRequest,
  readNotify,
  readOrcpt,
  readRet,
} from '../../mail/envelope.ts';
import { tellingWords, type Violation } from '../../pipeline/submit.ts';
import type { RefusalFacts } from '../../spool/events/refusal.ts';
import type { JournalDetails } from '../../spool/journal/journal-row.ts';
import { readMail, readRcpt } from './address-command.ts';
import type { Client, CommandParts, DoorAccounts, SessionFacts, TransactionCommands } from './dialogue-context.ts';
import { type Answer, printableAscii, refusalReply, replies, tooLarge, withLink } from './replies.ts';

interface MailTransaction {
  readonly reversePath: string;
  readonly recipients: Set<string>;
  readonly smtputf8: boolean;
  readonly requireTls: boolean;
  /** Octets as declared (RFC 1870); 0 where none were. */
  readonly size: number;
  readonly asked: Pick<DsnRequest, 'ret' | 'envid'>;
  /** NOTIFY and ORCPT of the recipients that have one. */
  readonly askedFor: Map<string, RecipientRequest>;
}

/** RET and ENVID of a MAIL whose parameters are in order. */
function askedForMessage(parameters: ReadonlyMap<string, string>): MailTransaction['asked'] {
  const ret = readRet(parameters.get('RET') ?? '');
  const envid = parameters.get('ENVID');
  return { ...(ret === undefined ? {} : { ret }), ...(envid === undefined ? {} : { envid }) };
}

/** NOTIFY and ORCPT of a RCPT, or the reply that refuses them (RFC 3461 §4.1, §4.2). */
function askedForRecipient(parameters: ReadonlyMap<string, string>): RecipientRequest | Answer {
  const [given, orcpt] = [parameters.get('NOTIFY'), parameters.get('ORCPT')];
  const notify = given === undefined ? undefined : readNotify(given);
  if (given !== undefined && notify === undefined) return replies.badNotify;
  if (orcpt !== undefined && readOrcpt(orcpt) === undefined) return replies.badOrcpt;
  return { ...(notify === undefined ? {} : { notify }), ...(orcpt === undefined ? {} : { orcpt }) };
}

/** What the journal keeps of a refusal that the door makes: what was said, and nothing of the message. */
export function heardOf({ transcript }: Client): JournalDetails | undefined {
  if (!transcript) return undefined;
  return {
    content: 'none',
    maxBodyOctets: 0,
    fields: [],
    verdicts: '',
    timings: {},
    transcript: transcript.ofTransaction(),
  };
}

/** D50: why an account may not send with a reverse-path; undefined where it may. Every account may use the null one. */
export function senderViolation(
  accounts: Pick<DoorAccounts, 'sendingDomain'>,
  { account, senders }: { readonly account: Account; readonly senders: SenderMap | undefined },
  mailbox: string,
): Violation | undefined {
  if (mailbox === '') return undefined;
  const { localPart, domain } = splitMailbox(mailbox);
  if (domain === undefined) {
    const message = `The reverse-path "${printableAscii(mailbox, 100)}"${tellingWords.hasNoDomain}`;
    return { code: 'E_VALIDATION_ERROR', message };
  }
  if (accounts.sendingDomain(account, domain)) return undefined;
  // D4d: the pipeline gives a sender that nobody owns another address.
  const owns = (name: string): boolean => accounts.sendingDomain(account, name) !== undefined;
  if (mapSender(senders, { localPart, domain }, owns)) return undefined;
  return { code: 'E_SENDER_NOT_VERIFIED', message: `${domain} is no sending domain of account ${account.name}` };
}

/** The mail commands of one session. Hand in each command only when the one before has been answered. */
export class MailCommands extends Part<CommandParts> implements TransactionCommands {
  #transaction: MailTransaction | undefined;

  get envelope(): Envelope | undefined {
    const transaction = this.#transaction;
    if (!transaction) return undefined;
    const { reversePath, recipients, smtputf8, requireTls, asked, askedFor } = transaction;
    const envelope = { reversePath, recipients: [...recipients], smtputf8, requireTls };
    if (askedFor.size > 0) return { ...envelope, dsn: { ...asked, recipients: askedFor } };
    return Object.keys(asked).length > 0 ? { ...envelope, dsn: asked } : envelope;
  }

  reset(): void {
    this.#transaction = undefined;
  }

  /** Gives the refusal where TLS or the submitter is missing, which every mail command needs (D40); else undefined. */
  #barred(): Answer | undefined {
    const { listener } = this.parts.context;
    if (!this.parts.session.secure && listener.tls === 'starttls' && !listener.allowInsecureAuth)
      return replies.mustStartTls;
    return this.parts.session.submitter ? undefined : replies.authRequired;
  }

  mail(line: Buffer): MaybePromise<Answer> {
    const barred = this.#barred();
    if (barred) return barred;
    if (this.parts.session.helo === undefined) return replies.sayHelloFirst;
    if (this.#transaction) return replies.nestedMail;
    // RFC 4954 §6: 530 to any command that needs an authentication where there is none, or it is no longer valid.
    return whenKnown(this.parts.session.renew(), (submitter) => (submitter ? this.#open(line) : replies.tokenGone));
  }

  #open(line: Buffer): Answer {
    const command = readMail(line, this.parts.session.secure);
    if ('code' in command) return command;
    const { path, parameters, size } = command;
    if (size > this.parts.context.limits.messageBytes) return this.#tooLarge(path.mailbox, size);
    if (size > 0 && !this.#hasRoom(size)) return this.#noRoom(path.mailbox, size);
    const mailbox = this.#completed(path.mailbox, path.domain);
    const refused = this.#senderRefused(mailbox);
    if (refused) return refused;
    this.#transaction = {
      reversePath: mailbox,
      recipients: new Set(),
      smtputf8: parameters.has('SMTPUTF8'),
      requireTls: parameters.has('REQUIRETLS'),
      size,
      asked: askedForMessage(parameters),
      askedFor: new Map(),
    };
    return replies.senderOk;
  }

  /** RFC 1870 §6.1: a message that is declared too large is refused here, before its octets are sent. */
  #tooLarge(from: string, size: number): Answer {
    const reply = tooLarge(this.parts.context.limits.messageBytes);
    const violations = [{ code: 'E_CONTENT_TOO_LARGE', message: reply.text }];
    return this.#refuse({ stage: 'message', senderPath: from, size, violations }, reply);
  }

  #hasRoom(size: number): boolean {
    return this.parts.context.bodies.admits(this.parts.session.bodyOwner, size);
  }

  #noRoom(from: string, size: number): Answer {
    const reason = replies.noRoom.text;
    return this.#refuse({ stage: 'message', senderPath: from, size, violations: [], reason }, replies.noRoom);
  }

  /** D4b: an address without a domain gets the credential's default domain, where there is one. */
  #completed(mailbox: string, domain: string | undefined): string {
    const defaultDomain = this.parts.session.submitter?.credential.defaultDomain;
    return domain !== undefined || mailbox === '' || defaultDomain === undefined
      ? mailbox
      : `${mailbox}@${defaultDomain}`;
  }

  #senderRefused(mailbox: string): Answer | undefined {
    const { accounts, listener } = this.parts.context;
    const { account, credential } = this.parts.session.submitter ?? {};
    if (!account) return replies.authRequired;
    const senders = listener.senders ?? credential?.senders;
    // D4f: a shadow listener judges the sender with the message, and takes it.
    const violation = listener.shadow ? undefined : senderViolation(accounts, { account, senders }, mailbox);
    if (!violation) return undefined;
    const refusal = { stage: 'sender', senderPath: mailbox, violations: [violation] } as const;
    if (violation.code === 'E_VALIDATION_ERROR') return this.#refuse(refusal, replies.senderWithoutDomain);
    const answer = { code: 550, enhanced: '5.7.1', text: violation.message };
    return this.#refuse({ ...refusal, reason: 'sender domain' }, answer);
  }

  rcpt(line: Buffer): MaybePromise<Answer> {
    const barred = this.#barred();
    if (barred) return barred;
    const transaction = this.#transaction;
    const account = this.parts.session.submitter?.account;
    if (!transaction || !account) return replies.mailFirst;
    const command = readRcpt(line, transaction.smtputf8);
    if ('code' in command) return command;
    const { mailbox, domain } = command.path;
    if (mailbox === '') return replies.badRecipient;
    const asked = askedForRecipient(command.parameters);
    if ('code' in asked) return asked;
    const { shadow } = this.parts.context.listener;
    const recipient = this.#completed(mailbox, domain);
    if (domain === undefined && recipient === mailbox && !shadow) return replies.recipientWithoutDomain;
    const { recipients } = transaction;
    if (recipients.has(recipient)) return replies.recipientOk;
    const { recipients: most } = this.parts.context.limits;
    if (recipients.size >= most) return { code: 452, enhanced: '4.5.3', text: `Too many recipients: at most ${most}` };
    return whenKnown(shadow ? false : this.parts.context.suppressed(account, recipient), (suppressed) => {
      if (suppressed) return this.#suppressed(transaction, recipient);
      recipients.add(recipient);
      if (asked.notify !== undefined || asked.orcpt !== undefined) transaction.askedFor.set(recipient, asked);
      return replies.recipientOk;
    });
  }

  #suppressed({ reversePath: senderPath }: MailTransaction, recipient: string): Answer {
    const message = `${printableAscii(recipient, 300)} is on the suppression list`;
    const violations = [{ code: 'E_RECIPIENT_SUPPRESSED', message }];
    return this.#refuse(
      { stage: 'recipient', senderPath, recipients: [recipient], violations, reason: 'suppressed' },
      { code: 550, enhanced: '5.7.1', text: `E_RECIPIENT_SUPPRESSED: ${message}` },
    );
  }

  /** Answers DATA; `next` of the answer tells whether the octets of a message follow. */
  data(): MaybePromise<Answer> {
    const barred = this.#barred();
    if (barred) return barred;
    const transaction = this.#transaction;
    const account = this.parts.session.submitter?.account;
    if (!transaction || !account) return replies.mailFirst;
    if (transaction.recipients.size === 0) return replies.noRecipients;
    if (!this.#hasRoom(transaction.size)) return this.#noRoom(transaction.reversePath, transaction.size);
    if (this.parts.context.listener.shadow) return replies.startData;
    return whenKnown(this.parts.context.rateLimit(account, transaction.recipients.size), (violation) =>
      violation ? this.#overRate(transaction, violation) : replies.startData,
    );
  }

  #overRate({ reversePath: senderPath, recipients }: MailTransaction, violation: Violation): Answer {
    return this.#refuse(
      { stage: 'message', senderPath, recipients: [...recipients], violations: [violation] },
      refusalReply([violation]),
    );
  }

  #refuse(refusal: Omit<RefusalFacts, keyof SessionFacts | 'reply'>, answer: Answer): Answer {
    const { code, enhanced } = answer;
    const reply = enhanced === undefined ? { code } : { code, enhanced };
    const { entryLink } = this.parts.context;
    const journalId = entryLink?.newId();
    const entry = { journal: heardOf(this.parts.client), ...(journalId === undefined ? {} : { journalId }) };
    this.parts.context.onRefused({ ...this.parts.session.refusalFacts, ...refusal, reply, ...entry });
    return withLink(answer, entryLink, journalId);
  }
}
