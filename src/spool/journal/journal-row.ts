// What the journal keeps of a message, as values: who handed in what, when, and what became of it.

import type { Transcript } from '../../mail/transcript.ts';

/** A header field as it came. */
export interface ReceivedField {
  readonly name: string;
  readonly rawBytes: Buffer;
  /** What keeps the line from being a field: `no-colon` where the name is only what stands in place of one. */
  readonly fault?: string;
}

/** Details of one message. Everything here is used once, when its row is made, and nothing is copied before. */
export interface JournalDetails extends ContentKept {
  /** Why nothing of the content is kept although `content` says so. */
  readonly lacking?: string;
  readonly fields: readonly ReceivedField[];
  /** One letter for each field (`verdictLetters` of the policy). */
  readonly verdicts: string;
  /** The whole message as it came; absent for a request of REST's `send`. */
  readonly octets?: Buffer | undefined;
  /** The body within `octets`. */
  readonly body?: Buffer | undefined;
  /** Octets of a body that was too large to be held here. */
  readonly largeBody?: number;
  /** Decoded. */
  readonly subject?: string | undefined;
  readonly mailer?: string | undefined;
  readonly transcript?: Transcript | undefined;
  /** Milliseconds that stages took, by their names. */
  readonly timings: Readonly<Record<string, number>>;
}

/** Details that hold no octets which are not kept: of a message with a large body, a copy of its header section alone. */
export function withoutLargeBody(details: JournalDetails): JournalDetails {
  const { content, maxBodyOctets, octets, body } = details;
  if (!octets || !body || (content === 'full' && body.length <= maxBodyOctets)) return details;
  const head = Buffer.from(octets.subarray(0, octets.length - body.length));
  return { ...withNames(details), octets: head, body: head.subarray(head.length), largeBody: body.length };
}

const nothing = Buffer.alloc(0);

/** The names of the fields alone: their octets are views that hold the whole message in memory. */
function withNames(details: JournalDetails): JournalDetails {
  return { ...details, fields: details.fields.map((field) => ({ ...field, rawBytes: nothing })) };
}

/** Details that hold nothing of the message but the names of its fields, and its Subject where that is kept. */
export function withoutContent(details: JournalDetails, lacking: string): JournalDetails {
  if (details.content === 'none') return details;
  return { ...withNames(details), octets: undefined, body: undefined, lacking };
}

/** What has become of a message, with the number that stores keep. */
export const outcomeNumbers = { accepted: 1, delivered: 2, deferred: 3, failed: 4, dropped: 5, refused: 6 } as const;

/** What has become of a message: of all its recipients together. */
export type JournalOutcome = keyof typeof outcomeNumbers;

/** Every outcome. */
// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the keys of the table are the outcomes
export const journalOutcomes = Object.keys(outcomeNumbers) as readonly JournalOutcome[];

/** The outcome of a stored number. */
export function outcomeOf(number: unknown): JournalOutcome {
  return journalOutcomes.find((name) => outcomeNumbers[name] === Number(number)) ?? 'accepted';
}

/** In PostgreSQL, whether a row is a copy that came to a shadow listener: by a key that it has (`keyWords`). */
export const isCopyByKeys = "strpos(keys, ' wtrue ') > 0";

/** The time in a UUIDv7, or in the bound of a partition that such ids have, milliseconds since 1970. */
export function timeOf(id: string): number {
  return Number.parseInt(id.slice(0, 13).replace('-', ''), 16);
}

/** The least UUIDv7 of a time or later. @param at milliseconds since 1970 */
export function leastIdOf(at: number): string {
  const time = at.toString(16).padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}`;
}

/** One reason, of a refusal or for the removal of a header while the policy is observed. */
export interface JournalReason {
  /** The E_ token, or the number of an error without a token. */
  readonly code: string;
  readonly message: string;
  /** Name of the header, where the reason is about one. */
  readonly field?: string;
  /** JSON pointer of the faulty part of the request. */
  readonly pointer?: string;
}

/** The facts of a row as lists show them, kept as JSON. */
export interface JournalFacts {
  readonly credential?: string | undefined;
  /** `smtp`, `rest`, `raw`, or `dsn` for our own reports. */
  readonly via?: string | undefined;
  /** The client's address. */
  readonly client?: string | undefined;
  readonly helo?: string | undefined;
  /** The mark of the program, as it came. */
  readonly mailer?: string | undefined;
  /** The reverse-path that the client gave. */
  readonly sender?: string | undefined;
  /** The first recipients. */
  readonly recipients: readonly string[];
  readonly count: number;
  /** Only where content is kept. */
  readonly subject?: string | undefined;
  /** Octets as they came. */
  readonly size?: number | undefined;
  /** The codes of the reasons, each once. */
  readonly codes?: readonly string[] | undefined;
  /** The headers that the reasons name, each once, as given. */
  readonly fields?: readonly string[] | undefined;
  /** With brackets, as it left. */
  readonly messageId?: string | undefined;
  /** It was a copy that came to a shadow listener: the outcome says what would have become of it (D4f). */
  readonly shadow?: true | undefined;
}

/** The facts that only one entry shows, kept as JSON. */
export interface JournalMore {
  readonly session: string;
  /** Name of the SMTP listener. */
  readonly listener?: string | undefined;
  /** What was refused: MAIL, one RCPT, or the message. */
  readonly stage?: string | undefined;
  readonly reasons?: readonly JournalReason[] | undefined;
  readonly reasonCount?: number | undefined;
  /** A reason without a code, in words. */
  readonly reason?: string | undefined;
  /** The answer: an SMTP reply, or the HTTP status where it came by REST. */
  readonly reply?: { readonly code: number; readonly enhanced?: string } | undefined;
  /** The names of the fields in their order, with line feeds between; left out where the header section itself is kept. */
  readonly names?: string | undefined;
  /** One letter for each field (`verdictLetters` of the policy). */
  readonly verdicts?: string | undefined;
  /** `Transcript.text`. */
  readonly dialogue?: string | undefined;
  readonly tls?: { readonly version: string; readonly cipher: string } | undefined;
  /** Milliseconds that stages took. */
  readonly timings?: Readonly<Record<string, number>> | undefined;
  readonly clientMessageId?: string | undefined;
  readonly sizeAsSent?: number | undefined;
  /** Why less was kept of the content than the configuration asks for. */
  readonly lacking?: string | undefined;
}

/** A row as stores write it. */
export interface JournalRow {
  /** UUIDv7; of an accepted message the id in the spool. */
  readonly id: string;
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly account: string;
  /** `outcomeNumbers`. */
  readonly outcome: number;
  /** Recipients without an outcome for good. */
  readonly waiting: number;
  /** Those that are kept of the message. */
  readonly octets: number;
  /** `JournalFacts` and `JournalMore` as JSON. */
  readonly facts: string;
  readonly more: string;
}

/** The octets that are kept of a message. */
export interface JournalContent {
  /** The header section as it came, with the empty line. */
  readonly receivedHead?: Buffer | undefined;
  /** As it came; absent: not kept. */
  readonly receivedBody?: Buffer | undefined;
  readonly sentHead?: Buffer | undefined;
  readonly sentBody?: Buffer | undefined;
}

/** Bounds of what a row keeps, in characters. */
export const journalBounds = {
  /** All recipients of a row together. */
  recipients: 1024,
  subject: 300,
  /** A name, an id, a path. */
  name: 320,
  /** The names of all fields together. */
  names: 16_384,
  codes: 20,
} as const;

/** How much of each message is kept. */
export interface ContentKept {
  readonly content: 'none' | 'headers' | 'full';
  /** Octets of a body above which it is not kept (`journal.maxBodyOctets`). */
  readonly maxBodyOctets: number;
}

/** What links a refusal to the page that tells more: the id of its row is chosen by the door that answers. */
export interface EntryLink {
  /** Makes the id of a row, a UUIDv7. */
  readonly newId: () => string;
  /** The URL of a row's page. */
  readonly urlOf: (id: string) => string;
}
