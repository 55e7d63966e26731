// What happened to mail, as values: one event for each acceptance, refusal, and outcome of an attempt for a recipient. The
// event is written in the same commit as the change that it reports, so that neither exists without the other.

import type { SmtpReply } from '../../mail/smtp-reply.ts';
import type { TlsFacts } from '../../mail/tls-facts.ts';
import type { JournalMore, JournalReason } from '../journal/journal-row.ts';

/** How the message came in: by SMTP, by the REST send or send_raw endpoint, or as a report of our own. */
export type EventVia = 'smtp' | 'rest' | 'raw' | 'dsn';

/** The facts of every event, as far as they were known then. */
interface EventBase {
  /** Milliseconds since 1970, when it happened. */
  readonly at: number;
  /** Name of the account. */
  readonly account: string;
  readonly credential?: string | undefined;
  /** One id from connection to delivery. */
  readonly sessionId: string;
  /** Absent for messages that an earlier release accepted. */
  readonly via?: EventVia | undefined;
  /** The client's IP address. */
  readonly clientAddress?: string | undefined;
  /** What the client called itself. */
  readonly helo?: string | undefined;
  /** The reverse-path that the client gave; '' is null. */
  readonly senderPath?: string | undefined;
}

/** An event of a message that was accepted. */
interface MessageEventBase extends EventBase {
  /** The id in the spool. */
  readonly queueId: string;
  /** With brackets, as it leaves. */
  readonly messageId: string;
}

/** A message is on disk. */
export interface AcceptedEvent extends MessageEventBase {
  readonly kind: 'accepted';
  /** The client's own Message-ID (D23). */
  readonly clientMessageId?: string | undefined;
  /** The first recipients: as many as fit the bound (`eventBounds`). */
  readonly recipients: readonly string[];
  /** The number of all recipients. */
  readonly recipientCount: number;
  /** Octets as they came in, where the door gave the number. */
  readonly size?: number | undefined;
  /** Octets of head and body as they leave. */
  readonly sizeAsSent: number;
  /** Names of the fields that were removed because of its credential (D4a). */
  readonly stripped?: readonly string[] | undefined;
  /** What the sender was that nobody owns, what it became, and by which pattern of `senders` (D4d). */
  readonly mappedSender?: { readonly given: string; readonly address: string; readonly pattern: string } | undefined;
  /** The first headers removed because the policy is only observed (D4c), with token and words; earlier releases kept no words. */
  readonly observed?: readonly { readonly field: string; readonly code: string; readonly message?: string }[];
  /** How many headers were removed so; absent where none was. */
  readonly observedCount?: number;
  /** Where headers were removed so: the mark of the program that made the message, as refused events have it. */
  readonly mailer?: string | undefined;
}

/** One reason of a refusal, which the journal keeps as it is. */
export type EventViolation = JournalReason;

/** A verdict of which the spool keeps nothing but this. */
interface VerdictEventBase extends EventBase, Pick<JournalMore, 'listener' | 'reason' | 'reply'> {
  /** The id of its entry in the journal, a UUIDv7; absent in events of an earlier release. */
  readonly journalId?: string;
  /** What was refused: MAIL, one RCPT, or the message. */
  readonly stage: 'sender' | 'recipient' | 'message';
  /** The first of the recipients that were named by then, or the one that was refused. */
  readonly recipients: readonly string[];
  readonly recipientCount?: number | undefined;
  /** Octets that came in or were declared. */
  readonly size?: number | undefined;
  /** The first of the reasons; empty where the refusal was for want of room. */
  readonly violations: readonly EventViolation[];
  readonly violationCount: number;
  /** The mark of the program that made the message: `User-Agent: s-nail v14.9.24`; printable, at most 200 octets. */
  readonly mailer?: string | undefined;
}

/** A sender, a recipient or a whole message was refused. The spool keeps nothing of it. */
export interface RefusedEvent extends VerdictEventBase {
  readonly kind: 'refused';
}

/** A copy that came to a shadow listener was judged (D4f). Nothing of it is sent, whatever the verdict. */
export interface ShadowedEvent extends VerdictEventBase {
  readonly kind: 'shadowed';
  readonly shadow: true;
}

/** Whether a copy would have been accepted: it then has neither violations nor a reason. */
export function wouldPass({ violations, reason }: ShadowedEvent): boolean {
  return violations.length === 0 && reason === undefined;
}

/** What became of one attempt for one recipient. */
interface OutcomeEventBase extends MessageEventBase {
  readonly recipient: string;
  /** The address that the message left to in place of the recipient's, because of staging safety (D98a). */
  readonly redirectedTo?: string | undefined;
  /** Name of the route. */
  readonly route: string;
  /** Who replied: `route name (host:port)`. */
  readonly host: string;
  /** How the connection was protected; absent where there was none. */
  readonly tls?: TlsFacts | undefined;
  /** The next hop's reply, or ours. */
  readonly reply: SmtpReply;
  /** Attempts made so far, this one included. */
  readonly attempts: number;
  /** When the message was accepted, milliseconds since 1970. */
  readonly acceptedAt: number;
  /** Octets as they leave. */
  readonly sizeAsSent: number;
}

/** Where a delivered message went: `final` to a mailbox of ours, `passed-on` to a hop with DSN (RFC 3461 §5.2); absent: neither. */
export type Handover = 'final' | 'passed-on';

/** The next hop accepted the message for this recipient. */
export interface DeliveredEvent extends OutcomeEventBase {
  readonly kind: 'delivered';
  readonly handover?: Handover | undefined;
}

/** The attempt failed for now; another one follows. */
export interface DeferredEvent extends OutcomeEventBase {
  readonly kind: 'deferred';
  /** Milliseconds since 1970. */
  readonly nextAttemptAt: number;
  /** The next hop was not reached: the attempt does not count, and `attempts` leaves it out. */
  readonly isUntried?: boolean | undefined;
}

/** Delivery to this recipient has failed for good. */
export interface FailedEvent extends OutcomeEventBase {
  readonly kind: 'failed';
}

/** A webhook was disabled, because its endpoint is gone or has failed for a day. `sessionId` and `webhook` are the webhook's id. */
export interface WebhookDisabledEvent extends EventBase {
  readonly kind: 'webhook_disabled';
  readonly webhook: string;
  readonly url: string;
  /** Why, for people. */
  readonly reason: string;
}

/** What a report means for a recipient: nobody is there, not now, or mail of this kind is not wanted there. */
export type BounceClass = 'hard' | 'soft' | 'policy';

/** What came back about a message, and who brought it. */
export interface ReturnEventBase extends MessageEventBase {
  /** When the message was accepted, milliseconds since 1970. */
  readonly acceptedAt: number;
  /** The IP address that the report came from. */
  readonly reportedBy: string;
}

/** A report says that the message did not reach a recipient, or not yet, after a next hop had taken it. */
export interface BouncedEvent extends ReturnEventBase {
  readonly kind: 'bounced';
  readonly recipient: string;
  readonly bounceClass: BounceClass;
  /** The rule that decided on the class (`bounceRules`). */
  readonly rule: string;
  /** The report's enhanced status code (RFC 3463). */
  readonly status?: string | undefined;
  /** What the server that refused the message said. */
  readonly diagnostic?: string | undefined;
  /** The server that refused the message, and the one that made the report, as the report names them. */
  readonly remoteMta?: string | undefined;
  readonly reportingMta?: string | undefined;
}

/** A recipient has complained about the message (RFC 5965, RFC 9477). */
export interface ComplainedEvent extends ReturnEventBase {
  readonly kind: 'complained';
  /** Absent where the report names nobody and the message had several recipients. */
  readonly recipient?: string | undefined;
  /** RFC 5965 §3.1: abuse, fraud, not-spam ... */
  readonly feedbackType: string;
  /** The program that made the report. */
  readonly userAgent?: string | undefined;
}

/** A recipient was put on the account's suppression list because of an event (D51). */
export interface SuppressedEvent extends MessageEventBase {
  readonly kind: 'suppressed';
  readonly recipient: string;
  readonly reason: 'hard_bounce' | 'complaint';
  /** The kind of the event that was the reason, and its id. */
  readonly source: 'bounced' | 'complained' | 'failed';
  readonly cause: number;
  /** The rule that decided; a complaint has none. */
  readonly rule?: string | undefined;
}

/** An event that reports no change of the spool, and so is written in a commit of its own. */
export type ReturnEvent = BouncedEvent | ComplainedEvent | SuppressedEvent | WebhookDisabledEvent;

/** The outcome of an attempt. */
export type OutcomeEvent = DeliveredEvent | DeferredEvent | FailedEvent;

/** Somebody acted on a message in the queue, by a command or the API. */
interface QueueEventBase extends MessageEventBase {
  /** The first of the recipients that it is about: as many as fit the bound (`eventBounds`). */
  readonly recipients: readonly string[];
  readonly recipientCount: number;
}

/** Recipients were made due at once; those that had failed are queued again. */
export interface RequeuedEvent extends QueueEventBase {
  readonly kind: 'requeued';
  /** How many of the recipients had failed. */
  readonly failedCount: number;
}

/** The message was removed before these recipients had received it. */
export interface DroppedEvent extends QueueEventBase {
  readonly kind: 'dropped';
}

/** What was done to a message in the queue. */
export type QueueEvent = RequeuedEvent | DroppedEvent;

/** What happened, before it is written; `kind` tells the members apart. Of a further one the compiler asks for its row of `eventKinds`. */
export type EventFacts = AcceptedEvent | RefusedEvent | ShadowedEvent | OutcomeEvent | QueueEvent | ReturnEvent;

/** The names of the kinds. */
export type EventKind = EventFacts['kind'];

/** An event that is written. `id`, from 1 on, is never used twice and the cursor of readers: none becomes visible behind a larger one. */
export type MailEvent = EventFacts & { readonly id: number };

/** The share of room that an event's kind takes. Of refusals and copies (D4f) a client can cause any number: they push out none but their own. */
export type EventShare = 'mail' | 'refusals' | 'copies';

/** What readers of events need to know of a kind. */
interface KindFacts<Facts extends EventFacts> {
  /** The share that it takes room from. */
  readonly share: EventShare;
  /** How its line stands in the log. */
  readonly level: 'info' | 'warn';
  /** What its log line has beside what all have: names, each with the member. `own`: it has its line in `log-event.ts`. */
  readonly logged: 'own' | Readonly<Record<string, keyof Facts>>;
  /** What it makes of the recipient that it is about; undefined: nothing. */
  readonly state: string | undefined;
  /** It makes or changes a row of the journal. */
  readonly isOfRow: boolean;
  /** What it counts as among the figures: its kind alone, or with its reasons, its route, or its route and how long it took. */
  readonly figure: 'none' | 'kind' | 'reasons' | 'route' | 'latency';
  /** What counts it among the metrics: the counter of outcomes or of the queue's actions, or `own`, one in `mail-metrics.ts`. */
  readonly metric: 'none' | 'own' | 'outcome' | 'queue';
}

const action = { share: 'mail', level: 'info', isOfRow: true, figure: 'none', metric: 'queue' } as const;
const outcome = { ...action, logged: 'own', figure: 'route', metric: 'outcome' } as const;
const comeBack = { share: 'mail', level: 'info', isOfRow: false, figure: 'kind', metric: 'own' } as const;
const bouncedMembers = {
  class: 'bounceClass',
  rule: 'rule',
  status: 'status',
  diagnostic: 'diagnostic',
  remoteMta: 'remoteMta',
  reportingMta: 'reportingMta',
  client: 'reportedBy',
} as const;
const complainedMembers = { feedbackType: 'feedbackType', userAgent: 'userAgent', client: 'reportedBy' } as const;
const suppressedMembers = { reason: 'reason', source: 'source', rule: 'rule' } as const;

/** Every kind. What reads events reads this table: a kind without a row, or with a row that leaves a column out, does not compile. */
export const eventKinds = {
  accepted: { ...outcome, state: 'queued', figure: 'kind', metric: 'own' },
  refused: { ...outcome, share: 'refusals', state: undefined, figure: 'reasons', metric: 'own' },
  shadowed: { ...outcome, share: 'copies', state: undefined, figure: 'none', metric: 'none' },
  delivered: { ...outcome, state: 'delivered', figure: 'latency' },
  deferred: { ...outcome, state: 'deferred' },
  failed: { ...outcome, level: 'warn', state: 'failed' },
  webhook_disabled: { ...comeBack, level: 'warn', logged: 'own', state: undefined, figure: 'none', metric: 'none' },
  requeued: { ...action, logged: { failed: 'failedCount' }, state: 'queued' },
  dropped: { ...action, level: 'warn', logged: {}, state: 'dropped' },
  bounced: { ...comeBack, logged: bouncedMembers, state: 'bounced' },
  complained: { ...comeBack, logged: complainedMembers, state: 'complained' },
  suppressed: { ...comeBack, logged: suppressedMembers, state: undefined, figure: 'none' },
} as const satisfies { readonly [Kind in EventKind]: KindFacts<Extract<EventFacts, { readonly kind: Kind }>> };

/** The names of the kinds, in the order in which they are listed. */
// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the keys of the table are the kinds
export const kindNames = Object.keys(eventKinds) as readonly EventKind[];

/** The kinds that webhooks are told of: all but what shadow listeners judge. */
export const toldKinds = kindNames.filter((kind) => kind !== 'shadowed');

/** The columns of `eventKinds` by which a reader tells events apart. */
type WordColumn = 'logged' | 'figure' | 'metric';

/** The events of the kinds whose rows have a word in a column. */
export type EventsOfWord<Column extends WordColumn, Word> = Extract<
  EventFacts,
  { readonly kind: { [Kind in EventKind]: (typeof eventKinds)[Kind][Column] extends Word ? Kind : never }[EventKind] }
>;

/** Tells whether the row of an event's kind has this word in the column; the event then has what all kinds of that word have. */
export function isOfWord<Column extends WordColumn, Word extends (typeof eventKinds)[EventKind][Column] & string>(
  event: EventFacts,
  column: Column,
  word: Word,
): event is EventsOfWord<Column, Word> {
  return eventKinds[event.kind][column] === word;
}

/** Tells whether this program knows a kind; a newer program may have written others. */
export function isEventKind(text: string): text is EventKind {
  return Object.hasOwn(eventKinds, text);
}
