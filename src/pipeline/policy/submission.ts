// The Submission, which every door makes and without which nothing gets into the pipeline; and one that passed the policy, which
// alone compose takes, so the check cannot be skipped.

import type { SendingDomain, Submitter } from '../../accounts/account.ts';
import type { ObservePeriod } from '../../accounts/observe-period.ts';
import type { MappedSender, SenderMap } from '../../accounts/sender-map.ts';
import type { Envelope } from '../../mail/envelope.ts';
import type { HeaderField } from '../../mail/header/header-reader.ts';
import type { Transcript } from '../../mail/transcript.ts';
import type { RejectionCode, Violation } from './rejections.ts';

/** How a message came in. It shows in Received (D25) and in the log; it never changes a verdict on a custom header (D1). */
export interface Via {
  readonly kind: 'smtp' | 'rest' | 'raw' | 'dsn';
  /** One id from connection to delivery. */
  readonly sessionId: string;
  /** What the client called itself; absent for REST. */
  readonly helo?: string;
  /** The client's IP address; IPv4 is never in IPv6 form. */
  readonly remoteAddress?: string;
  readonly listener?: string;
  /** The `with` of Received (RFC 3848, RFC 6531): ESMTP, ESMTPA, ESMTPS, ESMTPSA, UTF8SMTPSA, HTTP ...; '' for none. */
  readonly protocol: string;
  /** The charset of raw 8-bit text that is not UTF-8 (D13): the credential's, else the listener's; an iconv-lite name. */
  readonly legacyCharset: string;
  /** Received fields are kept as trace (D4): the listener's or the credential's flag. */
  readonly trustedHop: boolean;
  /** What becomes of a bare CR or LF in the body (D11). */
  readonly lineEndings: 'fix' | 'reject';
}

/** One attachment of a message made of parts (D43). */
export interface Attachment {
  readonly content: Buffer;
  readonly filename?: string | undefined;
  readonly contentType: string;
  readonly disposition: 'attachment' | 'inline';
  readonly contentId?: string | undefined;
}

/** The body: a MIME tree's octets as they came (without the top-level header section), or parts to compose (D20, D21). */
export type SubmissionBody =
  | { readonly kind: 'mime'; readonly bytes: Buffer }
  | {
      readonly kind: 'parts';
      readonly text?: string | undefined;
      readonly html?: string | undefined;
      readonly attachments: readonly Attachment[];
    };

/** A message as a door hands it over, before it is judged. */
export interface Submission {
  readonly via: Via;
  readonly submitter: Submitter;
  readonly envelope: Envelope;
  /** In the order of the text. */
  readonly fields: readonly HeaderField[];
  /** Set by the reader when the header section was larger than it reads: everything else was dropped unread. */
  readonly headerSectionTooLarge?: boolean;
  readonly body: SubmissionBody;
  /** Until when the policy is only observed (D4c): set by the listener or the credential; never for REST's send. */
  readonly observe?: ObservePeriod | undefined;
  /** The listener's own map of senders that nobody owns (D4d); absent: the credential's holds. */
  readonly senders?: SenderMap | undefined;
  /** What the reverse-path was, where the pipeline has mapped it (D4d). */
  readonly mappedPath?: MappedSender;
  /** The whole message as it came, of which `body` is the end; absent for REST's `send`, which brings none. */
  readonly octets?: Buffer;
  /** What was said in the session, for the journal. */
  readonly transcript?: Transcript | undefined;
  /** The id of its entry in the journal, should it be refused: a door that names the entry in its answer chooses it. */
  readonly journalId?: string | undefined;
  /** Octets received, for the size limit and the log (D42). */
  readonly size: number;
  /** The most octets that the composed message may have: REST's limit (D42). */
  readonly composedBytesLimit?: number;
  /** Called once the body is composed: the parts' octets are no longer read, and their memory may be given back. */
  readonly release?: () => void;
  /** The request's Idempotency-Key, kept with the message in one commit (D48). */
  readonly idempotency?: Idempotency;
  /** The message is the report that was made of what is kept under this key; both change in one commit. */
  readonly answers?: { readonly seq: number; readonly version: number };
  /** The message is a report of TLS that Postern itself sends (D30, RFC 8460 §5.3). Both are domains. */
  readonly tlsReport?: { readonly domain: string; readonly submitter: string };
  /** A copy is no submission: it does not compile where one is wanted. */
  readonly shadow?: never;
}

/** A copy that came to a shadow listener (D4f) to be judged: it is no `Submission`, so nothing that keeps or sends takes it. */
export interface ShadowCopy extends Omit<Submission, 'shadow'> {
  readonly shadow: true;
  /** What the door would have refused before it had seen the message. */
  readonly ofDoor: readonly Violation[];
}

/** An Idempotency-Key and what it was used for (D48). */
export interface Idempotency {
  readonly key: string;
  /** SHA-256 of the endpoint and the body, hex: shows whether the same key comes with another body. */
  readonly digest: string;
}

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
