// The spool: keeps an accepted message and each recipient's state until all are done. One interface, several stores;
// test/contract/spool.ts holds every store to the same behaviour (D90, D91, D94).

import type { Unavailable } from '../base/errors.ts';
import type { EventStore } from '../events/event-store.ts';
import type { EventVia, OutcomeEvent } from '../events/mail-event.ts';
import type { SmtpReply } from '../mail/smtp-reply.ts';
import type { UsedKey } from './idempotency-keys.ts';
import type { RecipientState } from './recipient-state.ts';
import type { AccountTally } from './tally.ts';

/** How a message came in. */
export interface Origin {
  readonly via: EventVia;
  /** The client's IP address. */
  readonly clientAddress?: string;
  /** What the client called itself. */
  readonly helo?: string;
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
  readonly clientMessageId?: string;
  /** The reverse-path that leaves (D26); '' is null. */
  readonly reversePath: string;
  /** Absent for messages of an earlier release. */
  readonly origin?: Origin;
  /**
   * What only the event of its acceptance tells: octets that came in, names of the fields that were removed (D4a), and
   * headers that were removed because the policy is only observed, with the codes they would have had (D4c).
   */
  readonly received?: {
    readonly size: number;
    readonly stripped: readonly string[];
    readonly observed?: readonly { readonly name: string; readonly code: string }[];
  };
  /** The reverse-path that the client gave; reports go there. */
  readonly senderPath: string;
  readonly recipients: readonly string[];
  /**
   * The transport that each recipient waits for, in their order. One without a transport is given one when it is due
   * (`giveTransports`).
   */
  readonly transports?: readonly string[];
  readonly smtputf8: boolean;
  readonly requireTls: boolean;
  /** Milliseconds since 1970. */
  readonly acceptedAt: number;
  /** When it is given up, milliseconds since 1970. */
  readonly expiresAt: number;
  /** Header fields and the empty line. */
  readonly head: Buffer;
  readonly body: Buffer;
  readonly platformSignature?: { readonly start: number; readonly end: number };
  /**
   * Kept in the same commit as the message, so that a key and its message are there together or not at all (D48). A key
   * that the account has used within the last 24 hours fails the add.
   */
  readonly idempotency?: { readonly key: string; readonly digest: string };
}

/** One recipient of a spooled message. */
export interface SpooledRecipient {
  readonly address: string;
  readonly state: RecipientState;
  /** Attempts made so far. */
  readonly attempts: number;
  /** Milliseconds since 1970; of meaning while queued. */
  readonly nextAttemptAt: number;
  /** The last word on it, ours or the next hop's. */
  readonly lastReply?: SmtpReply;
  /** Who said it: `route name (host:port)`. */
  readonly lastHost?: string;
}

/** What became of an attempt for one recipient. */
export type Outcome =
  | { readonly kind: 'delivered'; readonly reply: SmtpReply; readonly host: string }
  | { readonly kind: 'deferred'; readonly reply: SmtpReply; readonly host: string }
  | { readonly kind: 'failed'; readonly reply: SmtpReply; readonly host: string };

/**
 * Names the transport of a recipient: where it waits for its turn, behind those of its own transport only. A transport
 * is a name that the spool does not read; delivery has one for each route.
 */
export type TransportOf = (recipient: { readonly account: string; readonly address: string }) => string;

/** A message that is due, claimed for this process, with its due recipients of one transport. */
export interface DueMessage {
  /**
   * Everything but the octets, which `load` brings, and what was of use at the add; `recipients` are all, of every
   * transport.
   */
  readonly entry: Omit<SpoolEntry, 'head' | 'body' | 'transports' | 'received'>;
  /** Octets of head and body together. */
  readonly size: number;
  /** Only the recipients that are due and now claimed. */
  readonly due: readonly { readonly address: string; readonly attempts: number }[];
}

/** A message as the queue commands show it. */
export interface QueueItem {
  readonly entry: Omit<SpoolEntry, 'head' | 'body' | 'recipients' | 'received'>;
  readonly size: number;
  readonly recipients: readonly SpooledRecipient[];
}

/** What `claimDue` is asked: times in milliseconds since 1970. */
export interface ClaimQuery {
  readonly now: number;
  readonly limit: number;
  readonly claimUntil: number;
  readonly transport?: string;
}

/** Which messages are listed. */
export interface ListQuery {
  readonly state?: 'queued' | 'failed';
  readonly search?: string;
  readonly limit: number;
  readonly after?: string;
}

/** Some messages of a list. */
export interface QueuePage {
  readonly items: readonly QueueItem[];
  /** Where the next page begins; absent behind the last message. */
  readonly next?: string;
}

/** A message to try again. */
export interface RetryPick {
  readonly id: string;
  /** Absent: all that do not have it. */
  readonly recipients?: readonly string[];
}

/** What a retry made due. */
export interface RetryCount {
  readonly messages: number;
  readonly recipients: number;
  /** How many of these recipients had failed. */
  readonly failed: number;
}

/**
 * Keeps messages safe. Every method rejects on a failure of the store; nothing is then half done. What may go well later
 * rejects with Unavailable. Times are wall times; when the wall clock is set, the store moves by as much what it keeps
 * (next attempts, claims, expiries, ends), so that whatever waits goes on waiting for as long as it was to.
 */
export interface Spool {
  /** Why it takes no mail at the moment, at most a second old; undefined while it does. Nothing else is kept from it. */
  readonly unavailable: Unavailable | undefined;
  /** What happened to mail. `add` and `record` write their events in their own commits; refusals are handed in here. */
  readonly events: EventStore;
  /**
   * Adds a message and the event of its acceptance; resolves only once both are durable. Its recipients are claimed for
   * the caller until `claimUntil` (milliseconds since 1970), so that it may deliver at once.
   */
  add(entry: SpoolEntry, claimUntil: number): Promise<void>;
  /**
   * Claims up to `limit` messages with recipients of a transport that are due at `now` and that nobody holds, until
   * `claimUntil`; those due longest first. Without a transport: recipients that have none. What it costs depends on
   * what it claims, not on how many wait, in this transport or another.
   */
  claimDue(query: ClaimQuery): Promise<readonly DueMessage[]>;
  /**
   * Gives a transport to recipients that are due at `now` and wait for none of `transports`: those of an older
   * database, or of a transport that has left the configuration. At most `limit` of them; resolves to how many there
   * were.
   */
  giveTransports(query: {
    readonly now: number;
    readonly limit: number;
    readonly transports: readonly string[];
    readonly transportOf: TransportOf;
  }): Promise<number>;
  /** The octets of a message; undefined when it is no longer there. */
  load(id: string): Promise<{ readonly head: Buffer; readonly body: Buffer } | undefined>;
  /**
   * Writes what became of attempts, with their events, releases the claims, and forgets messages whose recipients are
   * all delivered. A message that has a failed recipient is kept for 30 days after its last recipient's end. Where a
   * message is no longer there, or a recipient has it already, only the event is written: the attempt was made.
   */
  record(outcomes: readonly OutcomeEvent[]): Promise<void>;
  /** Releases claims without an outcome (drain, lost connection before anything was sent). */
  release(id: string, recipients: readonly string[]): Promise<void>;
  /** Releases what an earlier process of this store still held, at start; resolves to the number of messages queued. */
  recover(): Promise<number>;
  /**
   * Lists messages, oldest first, a page at a time; `state`: those with a recipient in it; `search` matches part of the
   * id, a message id, sender or recipient, without case; `after` is the `next` of the last page. A page costs a bounded
   * look at the store however many messages there are: it may hold fewer than `limit`, or none, and others follow while
   * it has a `next`.
   */
  list(query: ListQuery): Promise<QueuePage>;
  show(id: string): Promise<QueueItem | undefined>;
  /** Makes queued recipients due now, failed ones queued again with `expiresAt`; false when there is no such message. */
  retry(id: string, times: { readonly now: number; readonly expiresAt: number }): Promise<boolean>;
  /**
   * `retry` for many messages in one transaction, so no more than some hundreds; of each all recipients, or those named.
   * Recipients that have it already, and messages that are gone, are passed over.
   */
  retryMany(
    picks: readonly RetryPick[],
    times: { readonly now: number; readonly expiresAt: number },
  ): Promise<RetryCount>;
  /** Removes a message; false when there is none. */
  drop(id: string): Promise<boolean>;
  /** Messages with a queued recipient, and messages that have none left and are kept as failed. */
  counts(): Promise<{ readonly queued: number; readonly failed: number }>;
  /**
   * What each account has in the spool, by the account's name; accounts without a message are left out. The numbers are
   * kept, not counted: asking costs the same however many messages there are.
   */
  tallies(): Promise<readonly AccountTally[]>;
  /** What an account, by its name, has used an Idempotency-Key for within the last 24 hours (D48); undefined if nothing. */
  usedKey(account: string, key: string): Promise<UsedKey | undefined>;
  /**
   * Keeps what the first request with a key was answered, so that it can be told again word for word (D48). To be called
   * only where that is another answer than that all recipients are queued. A key that is not there is passed over.
   */
  answered(account: string, key: string, answer: string): Promise<void>;
  close(): Promise<void>;
}

/** The recipients of an entry with their transports, each once however often it is named. */
export function distinctRecipients({
  recipients,
  transports = [],
}: Pick<SpoolEntry, 'recipients' | 'transports'>): readonly { readonly address: string; readonly transport: string }[] {
  const [only] = recipients;
  if (only !== undefined && recipients.length === 1) return [{ address: only, transport: transports[0] ?? '' }];
  const transportByAddress = new Map(recipients.map((address, index) => [address, transports[index] ?? '']));
  return [...transportByAddress].map(([address, transport]) => ({ address, transport }));
}
