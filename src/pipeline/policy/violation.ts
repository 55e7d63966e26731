// One reason why a message is refused, as a value; an answer holds all reasons against a message (D2).

import type { RejectionCode } from './rejections.ts';

/** One reason. Each door prints it in its own form (D7, D45). */
export interface Violation {
  readonly code: RejectionCode;
  /** The header's name as given (one character an octet over SMTP), where the reason is about one header. */
  readonly name?: string;
  /** What is wrong and what would be right, without the token; it may hold non-ASCII text, which the door escapes. */
  readonly message: string;
  /** REST: the JSON pointer of the faulty value. */
  readonly pointer?: string;
  /** For a limit that is reached: when to try again. */
  readonly retryAfterSeconds?: number;
}
