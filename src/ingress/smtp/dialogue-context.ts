// What the door hands to a session's dialogue: the questions that it may ask, and who the client is. Answers that come from
// a store may come late.

import type { Account, Submitter } from '../../accounts/account.ts';
import type { Accounts } from '../../accounts/accounts.ts';
import type { Guessing } from '../../accounts/guessing.ts';
import type { BodyBudget } from '../../base/body-budget.ts';
import type { Logger } from '../../base/log.ts';
import type { Refuse } from '../../events/refusal.ts';
import type { Violation } from '../../submit.ts';
import type { MaybePromise } from './maybe-promise.ts';
import type { SmtpLimits, SmtpListener } from './settings.ts';

/** What this door may ask about accounts. */
export interface DoorAccounts extends Pick<Accounts, 'find' | 'submitter' | 'sendingDomain'> {
  /** The submitter of a token by its hash (`hashToken`), or undefined; the token's row is read each time (D94). */
  authenticateHash(sha256: string): MaybePromise<Submitter | undefined>;
}

/** What a dialogue may ask of the door, and what it reports. */
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
   * Checks the account's rates before the octets of a message are taken; a violation refuses the message. Nothing is charged
   * yet: that is done once the message is found to be in order (D41).
   */
  readonly rateLimit: (account: Account, recipients: number) => MaybePromise<Violation | undefined>;
  /** The count of wrong tokens over all doors. */
  readonly guessing: Guessing;
  readonly onAuthFailure: () => void;
  /** Called for each sender, recipient and message that the door itself refuses. */
  readonly onRefused: Refuse;
}

/** The client of a session. */
export interface Client {
  readonly sessionId: string;
  /** The IP address in normal form; IPv4 is never in IPv6 form. */
  readonly address: string;
  /** Gives the submitter, as the accounts have it now, where the listener names one (D40c); else undefined. */
  readonly submitter: () => Submitter | undefined;
}
