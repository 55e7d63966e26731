// What the door hands to a dialogue: its questions, whose answers may come late from a store, and who the client is.

import type { Account, Submitter } from '../../accounts/account.ts';
import type { Accounts } from '../../accounts/accounts.ts';
import type { Guessing } from '../../accounts/guessing.ts';
import type { BodyBudget, BodyOwner } from '../../base/body-budget.ts';
import type { MaybePromise } from '../../base/load/maybe-promise.ts';
import type { Logger } from '../../base/log.ts';
import type { Envelope } from '../../mail/envelope.ts';
import type { Violation } from '../../pipeline/submit.ts';
import type { RefusalFacts, Refuse } from '../../spool/events/refusal.ts';
import type { EntryLink } from '../../spool/journal/journal-row.ts';
import type { SessionTranscript } from './record/session-transcript.ts';
import type { Answer } from './replies.ts';
import type { SmtpLimits, SmtpListener } from './settings.ts';

/** What this door may ask about accounts. */
export interface DoorAccounts extends Pick<Accounts, 'find' | 'submitter' | 'sendingDomain'> {
  /** The submitter of a token by its hash (`hashToken`), or undefined; the token's row is read each time (D94). */
  authenticateHash(sha256: string): MaybePromise<Submitter | undefined>;
}

/** What the mail commands need from their session. */
export interface MailSession {
  readonly secure: boolean;
  /** The name of HELO or EHLO; undefined before. */
  readonly helo: string | undefined;
  /** The submitter that has authenticated or that the listener names. */
  readonly submitter: Submitter | undefined;
  readonly bodyOwner: BodyOwner;
  readonly refusalFacts: SessionFacts;
  /** Reads the submitter's token again; undefined where it no longer counts (D94). */
  renew(): MaybePromise<Submitter | undefined>;
}

/** The facts of a session for the event of a refusal. */
export type SessionFacts = Pick<
  RefusalFacts,
  'account' | 'credential' | 'sessionId' | 'via' | 'listener' | 'clientAddress' | 'helo'
>;

/** MAIL, RCPT and DATA of one session. Each command is handed in only when the one before has been answered. */
export interface TransactionCommands {
  /** The envelope of the open transaction; undefined where none is open. */
  readonly envelope: Envelope | undefined;
  reset(): void;
  /** Answers a line without CRLF. */
  mail(line: Buffer): MaybePromise<Answer>;
  rcpt(line: Buffer): MaybePromise<Answer>;
  /** Answers DATA; `next` of the answer tells whether the octets of a message follow. */
  data(): MaybePromise<Answer>;
}

/** What the commands of one session work with. */
export interface CommandParts {
  readonly context: DialogueContext;
  readonly client: Client;
  readonly session: MailSession;
}

/** Makes the mail commands of a session. */
export type CommandsOf = (parts: CommandParts) => TransactionCommands;

/** What a dialogue may ask of the door, and what it reports. */
export interface DialogueContext {
  readonly hostname: string;
  readonly listener: SmtpListener;
  readonly limits: SmtpLimits;
  readonly accounts: DoorAccounts;
  readonly bodies: BodyBudget;
  readonly log: Logger;
  readonly suppressed: (account: Account, recipient: string) => MaybePromise<boolean>;
  /** Checks the account's rates before the octets of a message are taken, and charges nothing yet (D41). */
  readonly rateLimit: (account: Account, recipients: number) => MaybePromise<Violation | undefined>;
  readonly guessing: Guessing;
  readonly onAuthFailure: () => void;
  /** The mail commands where they are others than those of submission: a bounce listener's (D40a). */
  readonly commands?: CommandsOf | undefined;
  /** Where the journal's entries can be looked at; undefined where nobody has said. */
  readonly entryLink?: EntryLink | undefined;
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
  /** What is said, for the journal. */
  readonly transcript?: SessionTranscript;
}
