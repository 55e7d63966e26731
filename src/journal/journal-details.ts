// What the pipeline tells the journal of a message beside what its event says.

import type { Transcript } from '../mail/transcript.ts';
import type { ContentLevel } from './journal-row.ts';

/** A header field as it came. */
export interface ReceivedField {
  readonly name: string;
  readonly rawBytes: Buffer;
}

/** Details of one message. Everything here is used once, when its row is made, and nothing is copied before. */
export interface JournalDetails {
  /** How much of the content is kept. */
  readonly content: ContentLevel;
  readonly fields: readonly ReceivedField[];
  /** One letter for each field (`verdictLetters` of the policy). */
  readonly verdicts: string;
  /** The whole message as it came; absent for a request of REST's `send`. */
  readonly octets?: Buffer | undefined;
  /** The body within `octets`. */
  readonly body?: Buffer | undefined;
  /** Decoded. */
  readonly subject?: string | undefined;
  readonly mailer?: string | undefined;
  readonly transcript?: Transcript | undefined;
  /** Milliseconds that stages took, by their names. */
  readonly timings: Readonly<Record<string, number>>;
}
