// What becomes of a body, decided before the message is composed (D11, D20, D21).

import type { Violation } from '../policy/violation.ts';

/** A body as it leaves, and what has to be said about it. */
export interface BodyPlan {
  /** CRLF throughout, 7-bit, ends with CRLF or is empty. The given Buffer itself where nothing had to change. */
  readonly body: Buffer;
  /** The value of Content-Type, in one line, where the given one does not stand any more; absent: as given. */
  readonly contentType?: string;
  /** The value of Content-Transfer-Encoding where the given one does not stand any more; absent: as given. */
  readonly transferEncoding?: string;
}

/** The plan, or every reason why there is none. */
export type BodyPlanResult =
  | { readonly ok: true; readonly plan: BodyPlan }
  | { readonly ok: false; readonly violations: readonly Violation[] };
