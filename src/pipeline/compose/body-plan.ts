// What is to be done with a body, decided before the message is composed (D11, D20, D21).

import type { Violation } from '../policy/violation.ts';

/** A body as it leaves, and the changes to the fields that describe it. */
export interface BodyPlan {
  /** CRLF throughout, 7-bit, ends with CRLF or is empty. The given Buffer itself where nothing had to change. */
  readonly body: Buffer;
  /** The new value of Content-Type, in one line; absent: the given one stays. */
  readonly contentType?: string;
  /** The new value of Content-Transfer-Encoding; absent: the given one stays. */
  readonly transferEncoding?: string;
}

/** The plan, or every reason why the body cannot leave. */
export type BodyPlanResult =
  | { readonly ok: true; readonly plan: BodyPlan }
  | { readonly ok: false; readonly violations: readonly Violation[] };
