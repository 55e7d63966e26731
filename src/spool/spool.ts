// The spool: keeps an accepted message and each recipient's state until all recipients are done. There is one interface and
// several stores; test/contract/spool.ts holds every store to the same behaviour (D90, D91, D94).

import type { Unavailable } from '../base/errors.ts';
import type { DsnRequest, ReportWish } from '../mail/envelope.ts';
import type { SmtpReply } from '../mail/smtp-reply.ts';
import type { TlsFacts } from '../mail/tls-facts.ts';
import type { EventStore } from './events/event-store.ts';
import type { AcceptedEvent, EventVia, Handover, OutcomeEvent } from './events/mail-event.ts';
import type { Hold, HoldRule } from './hold.ts';
import type { UsedKey } from './idempotency-keys.ts';
import type { JournalDetails } from './journal/journal-row.ts';
import type { DueReport, ReportKey } from './reports/report.ts';
import type { AccountTally, RecipientState } from './tally.ts';

/** How a message came in. */
export interface Origin extends Pick<OutcomeEvent, 'clientAddress' | 'helo'> {
  readonly via: EventVia;
}

/** A message as it is put into the spool. */
export interface SpoolEntry {
  /** UUIDv7; the queue id. */
  readonly id: string;
  readonly account: string;
  readonly credential: string;
  readonly sessionId: string;
  /** With brackets, as it leaves. */
  readonly messageId: string;
  /** The client's own Message-ID, as given (D23). */
  readonly clientMessageId?: string | undefined;
  /** The reverse-path that leaves (D26); '' is null. */
  readonly reversePath: string;
  /** Absent for messages that an earlier release accepted. */
  readonly origin?: Origin | undefined;
  /**
   * Details that only the event of the acceptance reports: octets that came in, names of the fields that were removed (D4a),
   * and headers that were removed because the policy is only observed, with the reasons for which they would have been
   * refused (D4c) and the mark of the program that made such a message.
   */
  readonly received?: Pick<AcceptedEvent, 'size' | 'stripped' | 'mappedSender' | 'mailer'> & {
    readonly observed?: readonly { readonly name: string; readonly code: string; readonly message: string }[];
  };
  /** What the journal keeps of the message beside its event, in the same commit; absent: it has no entry. */
  readonly journal?: JournalDetails;
  /** The reverse-path that the client gave; reports are sent there. */
  readonly senderPath: string;
  readonly recipients: readonly string[];
  /** The transport of each recipient, in their order. One that has none is given one when it is due (`giveTransports`). */
  readonly transports?: readonly string[];
  readonly smtputf8: boolean;
  readonly requireTls: boolean;
  /** The message has the field `TLS-Required: No` (RFC 8689 §5): it leaves although a policy of the recipients' side is not met. */
  readonly tlsOptional?: boolean;
  /** What the sender asked about reports (RFC 3461). */
  readonly dsn?: DsnRequest | undefined;
  /** Which reports the sender gets about recipients without NOTIFY; absent: none. */
  readonly reports?: ReportWish;
  /** Keep which Message-ID stands for the client's own, in the same commit, for thread repair (D23). */
  readonly keepsClientId?: boolean;
  /** The message is the report that was made of this: both change in one commit. `add` rejects where it has changed. */
  readonly answers?: ReportKey;
  /** Milliseconds since 1970. */
  readonly acceptedAt: number;
  /** When delivery is given up, milliseconds since 1970. */
  readonly expiresAt: number;
  /** The header fields and the empty line behind them. */
  readonly head: Buffer;
  readonly body: Buffer;
  readonly platformSignature?: { readonly start: number; readonly end: number };
  /** The key, kept in the message's commit (D48). `add` rejects for one that the account has used within 24 hours. */
  readonly idempotency?: { readonly key: string; readonly digest: string };
}

/** One recipient of a spooled message. */
export interface SpooledRecipient {
  readonly address: string;
  readonly state: RecipientState;
  /** Attempts made so far. */
  readonly attempts: number;
  /** Milliseconds since 1970; has a meaning only while the recipient is queued. */
  readonly nextAttemptAt: number;
  /** The last reply about it, by us or the next hop. */
  readonly lastReply?: SmtpReply | undefined;
  /** Who gave that reply: `route name (host:port)`. */
  readonly lastHost?: string | undefined;
  /** What keeps it waiting; only for a queued recipient. */
  readonly hold?: Hold | undefined;
}

/** What became of an attempt for one recipient. */
export interface Outcome {
  readonly kind: 'delivered' | 'deferred' | 'failed';
  readonly reply: SmtpReply;
  readonly host: string;
  /** How the connection was protected; absent where there was none. */
  readonly tls?: TlsFacts;
  /** Of a delivery: who reports on. */
  readonly handover?: Handover;
}

/** Names what a recipient waits for: a route (`ROUTE#digest`), or each of its domains on its own (`ROUTE#digest/DOMAIN`). */
export type TransportOf = (recipient: { readonly account: string; readonly address: string }) => string;

type AddOnly = 'received' | 'journal' | 'reports' | 'answers' | 'keepsClientId';

/** A message that is due, with its due recipients of one transport, claimed for this process. */
export interface DueMessage {
  /** The message without its octets (`load`) and what only `add` uses. `recipients` lists all, of every transport. */
  readonly entry: Omit<SpoolEntry, 'head' | 'body' | 'transports' | AddOnly>;
  /** Octets of head and body together. */
  readonly size: number;
  /** Only the recipients that are due and now claimed. */
  readonly due: readonly { readonly address: string; readonly attempts: number }[];
}

/** A message as the queue commands show it. */
export interface QueueItem {
  readonly entry: Omit<SpoolEntry, 'head' | 'body' | 'recipients' | AddOnly>;
  readonly size: number;
  readonly recipients: readonly SpooledRecipient[];
}

/** The recipients of one account that wait for one transport. */
export interface ClaimTurn {
  readonly transport: string;
  /** Name of the account. */
  readonly account: string;
}

/** What waits in one turn, for people. */
export interface WaitingLine extends ClaimTurn {
  /** Recipients that are queued, those in hand included. */
  readonly recipients: number;
  /** When the first message was accepted that still waits, milliseconds since 1970. */
  readonly oldestAcceptedAt: number;
  /** The number of the hold that keeps them waiting; such recipients may have no transport. */
  readonly hold?: number;
}

/** The question of `claimDue`; times in milliseconds since 1970. */
export interface ClaimQuery extends ClaimTurn {
  readonly now: number;
  readonly limit: number;
  readonly claimUntil: number;
  /** Only messages that have expired, up to the first that has not: what waits for a next hop that is down must end, too. */
  readonly expiredOnly?: boolean;
}

/** The question of `list`: which messages are wanted. */
export interface ListQuery {
  readonly state?: 'queued' | 'failed' | undefined;
  /** Name of the account; absent: all. The messages of others are examined, too, so that a page may hold few. */
  readonly account?: string | undefined;
  readonly search?: string | undefined;
  readonly limit: number;
  readonly after?: string | undefined;
}

/** One page of a list of messages. */
export interface QueuePage {
  readonly items: readonly QueueItem[];
  /** Where the next page begins; absent on the last page. */
  readonly next?: string | undefined;
}

/** A message to try again. */
export interface RetryPick {
  readonly id: string;
  /** Absent: all recipients that have not received the message. */
  readonly recipients?: readonly string[];
  /** Only recipients that are in this state at the moment of the change; absent: queued and failed ones. */
  readonly state?: 'queued' | 'failed';
}

/** What a retry has made due. */
export interface RetryCount {
  readonly messages: number;
  readonly recipients: number;
  /** How many of these recipients had failed. */
  readonly failed: number;
}

/** What the doors use: they add mail, and look up what was sent before. */
export interface SpoolDoors {
  /** Why the spool takes no mail now, at most a second old; undefined while it does. All other methods still work. */
  readonly unavailable: Unavailable | undefined;
  /** Adds a message and its event; both are durable once it resolves. Its recipients are claimed for the caller until `claimUntil` (milliseconds since 1970). */
  add(entry: SpoolEntry, claimUntil: number): Promise<void>;
  /** Tells that a message is about to be added (1), or that it is being added or will not be (-1): a commit waits for it a little. */
  expect(change: 1 | -1): void;
  /** Finds the use of an Idempotency-Key by the named account within the last 24 hours (D48); undefined if there is none. */
  usedKey(account: string, key: string): Promise<UsedKey | undefined>;
  /** Keeps the first answer to a key, to be repeated (D48), where it is other than that all are queued. An unknown key is ignored. */
  answered(account: string, key: string, answer: string): Promise<void>;
  /** Finds the Message-IDs that replaced those of an account's clients within 180 days (`keepsClientId`), for some hundreds at most. */
  replacedIds(account: string, ids: readonly string[]): Promise<ReadonlyMap<string, string>>;
}

/** What delivery uses: claims, and the outcomes of attempts. */
export interface SpoolDelivery {
  /**
   * Tells whose turn it is: the accounts, for each transport of this name (with any domain), that may have recipients due at
   * `now`, those that have waited longest for their turn first, `limit` at most. Accounts have equal shares of them, so that
   * one with mail for very many domains leaves turns to the others. A turn ends with a claim: the next one comes behind all
   * that wait. Mail under a hold has no turn, nor have the accounts in `except`. The cost does not depend on how many wait.
   */
  turns(query: {
    readonly transport: string;
    readonly now: number;
    readonly limit: number;
    readonly except?: readonly string[];
  }): Promise<readonly ClaimTurn[]>;
  /** Puts a turn off, because the next hop takes nothing before then; it may come sooner where other recipients fall due. */
  postpone(turn: ClaimTurn, until: number): Promise<void>;
  /**
   * Claims up to `limit` messages with recipients of a turn that are due at `now` and not claimed, until `claimUntil`;
   * those that have been due longest come first. Where both wait, a quarter are messages that were deferred before, the
   * others such as were never tried. Recipients under a hold are not claimed. The cost depends on what is claimed, not on how
   * many wait, in this transport or another.
   * @throws BrokenClaim where something may be claimed all the same
   */
  claimDue(query: ClaimQuery): Promise<readonly DueMessage[]>;
  /** Gives a transport to `limit` due recipients at most that have none of `transports`. Resolves to how many there were. */
  giveTransports(query: {
    readonly now: number;
    readonly limit: number;
    readonly transports: readonly string[];
    readonly transportOf: TransportOf;
  }): Promise<number>;
  /** The octets of a message; undefined when the message no longer exists. */
  load(id: string): Promise<{ readonly head: Buffer; readonly body: Buffer } | undefined>;
  /**
   * Writes the outcomes of attempts with their events, releases the claims, and removes messages whose recipients are all
   * delivered. A message with a failed recipient is kept for 30 days after its last recipient's end. Where the message no
   * longer exists, or the recipient is delivered already, only the event is written, because the attempt was made.
   */
  record(outcomes: readonly OutcomeEvent[]): Promise<void>;
  /** Releases claims without an outcome (drain, connection lost before anything was sent). */
  release(id: string, recipients: readonly string[]): Promise<void>;
  /** Releases, before anything is added, claims that an earlier process of this store still held; resolves to the number of messages queued. */
  recover(): Promise<number>;
}

/** What the reports to senders use. */
export interface SpoolReports {
  /** Reads reports that are due: `record` notes them, and each is due once none of its recipients is queued, or after some seconds. */
  reportsDue(query: { readonly now: number; readonly limit: number }): Promise<readonly DueReport[]>;
  /** Deletes a report that is not to be made, or puts it off until `until` (milliseconds since 1970). False where it has changed. */
  endReport(report: ReportKey, until?: number): Promise<boolean>;
}

/** What operators use, by the API, the console and the commands, and what is measured. */
export interface SpoolOperators {
  /**
   * Lists messages, oldest first, a page at a time. `state`: only messages with a recipient in that state; `search`: part of
   * the id, message id, sender or a recipient, without case; `after`: the `next` of the last page. The cost of a page is
   * bounded however many messages there are, so a page may hold fewer than `limit`, or none, and still have a `next`.
   */
  list(query: ListQuery): Promise<QueuePage>;
  show(id: string): Promise<QueueItem | undefined>;
  /**
   * Makes queued recipients due now, and failed ones queued again with `expiresAt`, in one transaction, so hand in no more than
   * some hundreds of messages. For each message all recipients, or those named, and one event `requeued`. Delivered recipients
   * and messages that no longer exist are skipped.
   */
  retryMany(
    picks: readonly RetryPick[],
    times: { readonly now: number; readonly expiresAt: number },
  ): Promise<RetryCount>;
  /** Removes a message, and writes the event `dropped`; false when there is none. */
  drop(id: string): Promise<boolean>;
  /** The numbers of each account that has a message, by name. They are kept up to date: asking costs the same for any number. */
  tallies(): Promise<readonly AccountTally[]>;
  /** Keeps mail waiting: a message, or whatever is or will be queued of an account, a domain or a route. */
  addHold(rule: HoldRule): Promise<void>;
  /** Lets mail go on again; false where there is no such hold. Messages that have expired meanwhile get one more attempt. */
  liftHold(rule: Pick<HoldRule, 'kind' | 'value'>): Promise<boolean>;
  holds(): Promise<readonly Hold[]>;
  /** When the oldest queued message was accepted, if any. One that had failed and is queued again is seen some minutes later. */
  oldest(): Promise<number | undefined>;
  /** What waits, by transport and account, `limit` of them at most, the most recipients first. It reads all that wait. */
  waiting(limit: number): Promise<readonly WaitingLine[]>;
}

/**
 * Keeps messages safe. Every method rejects on a failure of the store, and then has changed nothing. A failure that may
 * pass rejects with Unavailable. Times are wall times. When the wall clock is set, the store moves all times that it keeps
 * (next attempts, claims, expiries, ends) by as much, so that every waiting time keeps its length.
 */
export interface Spool extends SpoolDoors, SpoolDelivery, SpoolReports, SpoolOperators {
  /** Outcomes since the start that are not reported to their senders because there were too many. */
  readonly unreported: number;
  /** The events of this mail. Each change writes its own in its own commit; refusals are handed in here. */
  readonly events: EventStore;
  close(): Promise<void>;
  /** As `Database.abandon`; absent where there is no server. */
  abandon?(): void;
}

/**
 * The verbs that an engine only passes on: to its part of that name, which has a method of the verb's name, or to the steps of
 * core/plain-verbs.ts, which both engines run (`steps`). `reads`: it changes nothing in either. Any other verb is a method of each engine.
 */
export const plainVerbs = {
  usedKey: { by: 'steps', reads: true },
  answered: { by: 'steps', reads: false },
  replacedIds: { by: 'steps', reads: true },
  reportsDue: { by: 'steps', reads: true },
  endReport: { by: 'steps', reads: false },
  postpone: { by: 'claims', reads: false },
  release: { by: 'claims', reads: false },
  list: { by: 'queue', reads: true },
  show: { by: 'queue', reads: true },
  oldest: { by: 'queue', reads: true },
  waiting: { by: 'queue', reads: true },
  addHold: { by: 'holds', reads: false },
  liftHold: { by: 'holds', reads: false },
  holds: { by: 'holds', reads: true },
} as const satisfies { readonly [Verb in keyof Spool]?: { readonly by: string; readonly reads: boolean } };
