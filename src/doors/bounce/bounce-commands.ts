// MAIL, RCPT and DATA of a bounce listener: any sender, and only recipients whose token authenticates (D40a).

import { type MaybePromise, whenKnown } from '../../base/load/maybe-promise.ts';
import type { Envelope } from '../../mail/envelope.ts';
import { readMail, readRcpt } from '../smtp/address-command.ts';
import type { Client, DialogueContext, MailSession, TransactionCommands } from '../smtp/dialogue-context.ts';
import { type Answer, replies, tooLarge } from '../smtp/replies.ts';
import type { BounceTarget } from './bounce-address.ts';

/** What these commands ask of the desk. */
export interface BounceQuestions {
  /** What a recipient stands for now. */
  readonly targetOf: (mailbox: string) => BounceTarget;
  /** Counts a recipient that is refused. @returns whether its address has sent too many of them */
  readonly refused: (reason: 'unknown' | 'expired', client: Client) => MaybePromise<boolean>;
  /** Counts a message that is about to come. @returns whether its address has sent too many */
  readonly isOverRate: (client: Client) => MaybePromise<boolean>;
}

const bounceReplies = {
  unknown: { code: 550, enhanced: '5.7.1', text: 'Only reports about mail of this platform are taken here' },
  expired: { code: 550, enhanced: '5.7.1', text: 'The message of this address is too old for reports' },
  tooManyRefused: { code: 421, enhanced: '4.7.0', text: 'Too many wrong recipients', next: 'close' },
  oneAtATime: { code: 452, enhanced: '4.5.3', text: 'One recipient a message, please' },
  overRate: { code: 451, enhanced: '4.7.1', text: 'Too many reports from your address, try again later' },
} as const satisfies Record<string, Answer>;

/** The mail commands of one session. */
export class BounceCommands implements TransactionCommands {
  readonly #context: DialogueContext;
  readonly #client: Client;
  readonly #session: MailSession;
  readonly #questions: BounceQuestions;
  #transaction:
    | { readonly reversePath: string; readonly smtputf8: boolean; readonly size: number; recipient?: string }
    | undefined;

  constructor(
    context: DialogueContext,
    parts: { readonly client: Client; readonly session: MailSession; readonly questions: BounceQuestions },
  ) {
    this.#context = context;
    this.#client = parts.client;
    this.#session = parts.session;
    this.#questions = parts.questions;
  }

  get envelope(): Envelope | undefined {
    const transaction = this.#transaction;
    if (!transaction) return undefined;
    const { reversePath, smtputf8, recipient } = transaction;
    return { reversePath, recipients: recipient === undefined ? [] : [recipient], smtputf8, requireTls: false };
  }

  reset(): void {
    this.#transaction = undefined;
  }

  mail(line: Buffer): Answer {
    if (this.#session.helo === undefined) return replies.sayHelloFirst;
    if (this.#transaction) return replies.nestedMail;
    const command = readMail(line, this.#session.secure);
    if ('code' in command) return command;
    const { path, parameters, size } = command;
    const { messageBytes } = this.#context.limits;
    if (size > messageBytes) return tooLarge(messageBytes);
    if (size > 0 && !this.#hasRoom(size)) return replies.noRoom;
    this.#transaction = { reversePath: path.mailbox, smtputf8: parameters.has('SMTPUTF8'), size };
    return replies.senderOk;
  }

  rcpt(line: Buffer): MaybePromise<Answer> {
    const transaction = this.#transaction;
    if (!transaction) return replies.mailFirst;
    const command = readRcpt(line, transaction.smtputf8);
    if ('code' in command) return command;
    const { mailbox } = command.path;
    const target = this.#questions.targetOf(mailbox);
    if (target.kind === 'unknown' || target.kind === 'expired') {
      const { kind } = target;
      return whenKnown(this.#questions.refused(kind, this.#client), (isTooMany) =>
        isTooMany ? bounceReplies.tooManyRefused : bounceReplies[kind],
      );
    }
    if (transaction.recipient !== undefined && transaction.recipient !== mailbox) return bounceReplies.oneAtATime;
    transaction.recipient = mailbox;
    return replies.recipientOk;
  }

  data(): MaybePromise<Answer> {
    const transaction = this.#transaction;
    if (!transaction) return replies.mailFirst;
    if (transaction.recipient === undefined) return replies.noRecipients;
    if (!this.#hasRoom(transaction.size)) return replies.noRoom;
    return whenKnown(this.#questions.isOverRate(this.#client), (isOver) =>
      isOver ? bounceReplies.overRate : replies.startData,
    );
  }

  #hasRoom(size: number): boolean {
    return this.#context.bodies.admits(this.#session.bodyOwner, size);
  }
}
