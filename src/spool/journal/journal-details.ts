// What the pipeline tells the journal of a message beside what its event says.

import type { Transcript } from '../../mail/transcript.ts';
import type { ContentKept } from './journal-row.ts';

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
