// What a session's dialogue is handed by the door: the questions that it may ask, and whom it talks to. Questions that a
// store answers may be answered late.

import type { Account, Submitter } from '../../accounts/account.ts';
import type { Accounts } from '../../accounts/accounts.ts';
import type { Guessing } from '../../accounts/guessing.ts';
import type { BodyBudget } from '../../base/body-budget.ts';
import type { Logger } from '../../base/log.ts';
import type { Refuse } from '../../events/refusal.ts';
import type { Violation } from '../../submit.ts';
import type { MaybePromise } from './maybe-promise.ts';
import type { SmtpLimits, SmtpListener } from './settings.ts';

/** The questions about accounts that this door asks. */
export interface DoorAccounts extends Pick<Accounts, 'find' | 'submitter' | 'sendingDomain'> {
  /** The submitter of a token's hash (`hashToken`), or undefined; its row is read each time (D94). */
  authenticateHash(sha256: string): MaybePromise<Submitter | undefined>;
}

/** What a dialogue may ask, and what the door counts. */
export interface DialogueContext {
  readonly hostname: string;
  readonly listener: SmtpListener;
  readonly limits: SmtpLimits;
  readonly accounts: DoorAccounts;
  /** The room in memory for messages under way. */
  readonly bodies: BodyBudget;
  readonly log: Logger;
  /** Tells whether the account's suppression list holds the recipient (D51). */
  readonly suppressed: (account: Account, recipient: string) => MaybePromise<boolean>;
  /**
   * Asks the account's rates before the octets of a message are taken; a violation refuses it. Nothing is charged: that
   * is done when the message is in order (D41).
   */
  readonly rateLimit: (account: Account, recipients: number) => MaybePromise<Violation | undefined>;
  /** The count of wrong tokens of all doors. */
  readonly guessing: Guessing;
  readonly onAuthFailure: () => void;
  /** Is told of each sender, recipient and message that the door itself refuses. */
  readonly onRefused: Refuse;
}

/** Who is at the other end. */
export interface Client {
  readonly sessionId: string;
  /** Normal form, IPv4 never in IPv6 form. */
  readonly address: string;
  /** Gives the submitter, as the accounts have it now, where the listener itself names it (D40c); else undefined. */
  readonly submitter: () => Submitter | undefined;
}
