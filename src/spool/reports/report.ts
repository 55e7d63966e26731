// Reports that are to be made: which outcomes the sender wants to know of (RFC 3461 §4.1, §6), and the facts of a report. They
// are written in the commit of the outcome that they tell, and deleted in the commit of the report that was made of them.

import { type DsnRequest, notifies, type ReportKind, type ReportWish } from '../../mail/envelope.ts';
import type { SmtpReply } from '../../mail/smtp-reply.ts';
import type { AcceptedEvent, Handover, OutcomeEvent } from '../events/mail-event.ts';

/** The kinds of report that a recipient's sender wants, as a number: the sum of these. */
export const reportBits = { success: 1, failure: 2, delay: 4 } as const satisfies Record<ReportKind, number>;

/** Names a report that is to be made, as it was when it was read: `version` grows with everything that is added to it. */
export interface ReportKey {
  readonly seq: number;
  readonly version: number;
}

/** What became of a recipient, as RFC 3464 §2.3.3 says it: `relayed` to a hop that sends no reports, `delivered` finally here. */
export type ReportAction = 'failed' | 'delayed' | 'delivered' | 'relayed';

/** A recipient in a report. */
export interface ReportedRecipient {
  readonly address: string;
  /** As given. */
  readonly orcpt?: string | undefined;
  readonly action: ReportAction;
  /** When the attempt ended, milliseconds since 1970. */
  readonly at: number;
  readonly reply: SmtpReply;
  /** Who gave that reply: `route name (host:port)`. */
  readonly host: string;
}

/** A report that is due. Its message may be gone by now. */
export interface DueReport
  extends Pick<AcceptedEvent, 'queueId' | 'account' | 'sessionId' | 'messageId' | 'clientMessageId'> {
  readonly key: ReportKey;
  /** Where the report goes. */
  readonly senderPath: string;
  readonly ret?: 'FULL' | 'HDRS';
  /** As given. */
  readonly envid?: string | undefined;
  readonly smtputf8: boolean;
  /** The message came with REQUIRETLS, so the report asks for it too (RFC 8689 §5). */
  readonly requireTls: boolean;
  /** Milliseconds since 1970. */
  readonly acceptedAt: number;
  /** Until when delivery is tried, milliseconds since 1970. */
  readonly expiresAt: number;
  /** The header section of the message, perhaps cut behind a field. */
  readonly head: Uint8Array;
  /** At most `reportedRecipients`. */
  readonly recipients: readonly ReportedRecipient[];
  /** How many further recipients there are that it does not list. */
  readonly more: number;
}

/** Stands for RET of a message with REQUIRETLS, which is never returned whole and whose report asks for it too (RFC 8689 §5). */
export const retOfRequiredTls = 'REQUIRETLS';

/** Recipients that one report lists. */
export const reportedRecipients = 1000;
/** Octets of a header section that are kept for a report. */
const keptHead = 65_536;

/** How many reports are made and when. */
export interface ReportLimits {
  /** Reports about one message. */
  readonly perMessage: number;
  /** Reports to one address within a day. */
  readonly perAddressPerDay: number;
  /** Reports to all addresses of an account within a day. */
  readonly perAccountPerDay: number;
  /** How long the outcomes of a message gather for one report while other recipients are not done, in seconds. */
  readonly gatherSeconds: number;
  /** A message is delayed when it was not delivered within these seconds. */
  readonly delaySeconds: number;
}

/** No limits, and nothing gathers. */
export const unlimitedReports: ReportLimits = {
  perMessage: Number.POSITIVE_INFINITY,
  perAddressPerDay: Number.POSITIVE_INFINITY,
  perAccountPerDay: Number.POSITIVE_INFINITY,
  gatherSeconds: 0,
  delaySeconds: 14_400,
};

/** Which reports the sender wants, as `reportBits`: NOTIFY, else the account's; none for the null reverse-path (RFC 3461 §6.1). */
export function wantedReports(
  mail: { readonly senderPath: string; readonly dsn?: DsnRequest | undefined; readonly reports?: ReportWish },
  address: string,
): number {
  if (mail.senderPath === '') return 0;
  const notify = mail.dsn?.recipients?.get(address)?.notify;
  const wants = (kind: ReportKind): boolean =>
    notify === undefined ? (mail.reports?.[kind] ?? false) : notifies(notify, kind);
  let sum = 0;
  for (const kind of ['success', 'failure', 'delay'] as const) if (wants(kind)) sum += reportBits[kind];
  return sum;
}

/** An outcome for one recipient that may have to be reported. */
export interface NotedOutcome extends Pick<OutcomeEvent, 'kind' | 'reply' | 'host'> {
  readonly handover?: Handover | undefined;
  readonly position: number;
  readonly address: string;
  /** The sum of `reportBits`. */
  readonly wanted: number;
}

/** Outcomes of one message in one transaction, as far as reports need them. */
export interface NotedMail<Message> {
  readonly message: Message;
  /** No recipient is queued any more: a report need not wait for others. */
  readonly isLast: boolean;
  readonly outcomes: readonly NotedOutcome[];
}

/** Tells what is reported of an outcome, if anything. @param wanted the sum of `reportBits` @param ageMilliseconds of the message */
export function reportAction(
  { kind, handover }: Pick<NotedOutcome, 'kind' | 'handover'>,
  wanted: number,
  { ageMilliseconds, delaySeconds }: { readonly ageMilliseconds: number; readonly delaySeconds: number },
): ReportAction | undefined {
  const wants = (one: ReportKind): boolean => (wanted & reportBits[one]) > 0;
  switch (kind) {
    case 'failed':
      return wants('failure') ? 'failed' : undefined;
    case 'deferred':
      return wants('delay') && ageMilliseconds >= delaySeconds * 1000 ? 'delayed' : undefined;
    case 'delivered':
      // RFC 3461 §5.2.2: a next hop that was asked for the report makes it.
      if (handover === 'passed-on' || !wants('success')) return undefined;
      return handover === 'final' ? 'delivered' : 'relayed';
  }
  return kind satisfies never;
}

/** The fields of a header section that fit into what is kept for a report; at least the beginning of the first one. */
export function headToKeep(head: Uint8Array): Uint8Array {
  if (head.length <= keptHead) return head;
  const start = Buffer.from(head.buffer, head.byteOffset, keptHead);
  for (let end = start.lastIndexOf('\r\n'); end > 0; end = start.lastIndexOf('\r\n', end - 1)) {
    const next = start[end + 2];
    if (next !== undefined && next !== 0x20 && next !== 0x09) return start.subarray(0, end + 2);
  }
  return start;
}
