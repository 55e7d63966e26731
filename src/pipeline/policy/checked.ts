// A submission that passed the policy. Compose takes only this type, so the check cannot be skipped.

import type { SendingDomain } from '../../accounts/account.ts';
import type { MappedSender } from '../../accounts/sender-map.ts';
import type { HeaderField } from '../../mail/header/header-field.ts';
import type { RejectionCode } from './rejections.ts';
import type { Submission } from './submission.ts';

/** A field the policy let pass. */
export interface CheckedField {
  /** The name as it leaves: the catalogue's casing; X- names as the client wrote them (D10). */
  readonly name: string;
  /** The given text, unfolded and trimmed, which leaves refolded (D13): RFC 2047 words stay, enumerations are as catalogued (D8). */
  readonly text: string;
  /** `text` with its RFC 2047 words decoded; the policy judged this form. */
  readonly decoded: string;
  /** The octets as given, for MIME fields that stay verbatim (D20). */
  readonly rawBytes: Buffer;
}

/** The message's own fields, lifted from the header section or the API's fields (D3). */
export interface LiftedFields {
  /** One mailbox, its domain completed where D4b does so. */
  readonly from: CheckedField;
  readonly to?: CheckedField;
  readonly cc?: CheckedField;
  readonly replyTo?: CheckedField;
  readonly subject?: CheckedField;
}

/** Lower-case names of the top-level entity's MIME fields that are read as the body's description (D3). */
export type MimeFieldName =
  | 'mime-version'
  | 'content-type'
  | 'content-transfer-encoding'
  | 'content-disposition'
  | 'content-id'
  | 'content-description'
  | 'content-location';

/** The numbers that the specification limits (D6). */
export interface HeaderUsage {
  /** Allowlisted non-X headers, of at most 20. */
  readonly allowlisted: number;
  /** Sum of len(name) + 2 + len(value) + 2 over all custom headers, of at most 16,384. */
  readonly bytes: number;
}

/** A header removed because the policy is only observed (D4c), with the reason that the message would have been refused for. */
export interface ObservedHeader {
  /** As given. */
  readonly name: string;
  /** Its place among the fields as they came, from 0. */
  readonly index: number;
  readonly code: RejectionCode;
  /** What is wrong, in the words of the refusal. */
  readonly message: string;
}

/** An admitted submission with everything the policy found. */
export interface Checked {
  readonly submission: Submission;
  readonly lifted: LiftedFields;
  /** The From header's address; its domain is an A-label in lower case. */
  readonly from: { readonly address: string; readonly domain: string };
  /** The sending domain that covers From: the d= of the signature (D27, D50). */
  readonly sendingDomain: SendingDomain;
  /** Allowlisted and X- headers in the order given. */
  readonly custom: readonly CheckedField[];
  readonly mime: { readonly [Name in MimeFieldName]?: CheckedField };
  /** Received fields of a trusted hop, in their order (D4). */
  readonly trace: readonly HeaderField[];
  /** How often the message has passed this gateway, where the trace of that is removed (D4a); absent: never. */
  readonly passes?: number;
  /** The client's own Message-ID, kept with the record and in the log (D23). */
  readonly clientMessageId?: string;
  /** What the sender was that nobody owns (D4d): that of From, else of the reverse-path. */
  readonly mappedSender?: MappedSender;
  /** Names, as given, of the fields removed because the credential says so (D4a). */
  readonly stripped: readonly string[];
  /** The headers removed because the policy is only observed, in the order of the text (D4c); otherwise empty. */
  readonly observed: readonly ObservedHeader[];
  readonly usage: HeaderUsage;
}
