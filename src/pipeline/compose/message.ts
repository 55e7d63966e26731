// The exact message: finished header fields in order and the body's octets, CRLF throughout.

import type { Checked } from '../policy/checked.ts';
import type { Violation } from '../policy/rejections.ts';

/** A finished field: folded, encoded, with its line end. */
export interface MessageField {
  /** As written. */
  readonly name: string;
  /** `Name: value CRLF`, folds included. ASCII except for addresses of an SMTPUTF8 message, which leave as UTF-8. */
  readonly line: string;
}

/** A composed message, not yet signed. Once it is composed, fields are only put before the others. */
export interface Message {
  readonly checked: Checked;
  /** UUIDv7: the queue id and the local part of Message-ID (D23). */
  readonly id: string;
  /** `<uuid@platform domain>`, with the brackets. */
  readonly messageId: string;
  /** The reverse-path that leaves: b+TOKEN@..., or '' (D26, D50). */
  readonly reversePath: string;
  /** Acceptance time, milliseconds since 1970. */
  readonly acceptedAt: number;
  /** Trace fields (ours first), which stand above the signatures (D22). */
  readonly trace: readonly MessageField[];
  /** All other fields in the order of D22. */
  readonly fields: readonly MessageField[];
  /** CRLF throughout, 7-bit (D20). */
  readonly body: Buffer;
  /** A header field holds raw UTF-8: the next hop must offer SMTPUTF8. */
  readonly smtputf8: boolean;
}

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
