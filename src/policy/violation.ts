// One reason why a message is refused, as a value; all of a message's reasons come in one answer (D2).

import type { RejectionCode } from './rejections.ts';

/** One reason. Doors print it in their own tongue (D7, D45). */
export interface Violation {
  readonly code: RejectionCode;
  /** The header's name as given (one character an octet over SMTP), where the reason is about one header. */
  readonly name?: string;
  /** What is wrong and what would be right, without the token; it may hold non-ASCII text, the door escapes it. */
  readonly message: string;
  /** REST: the JSON pointer. */
  readonly pointer?: string;
  /** Of a limit that is reached: when to come again. */
  readonly retryAfterSeconds?: number;
}
