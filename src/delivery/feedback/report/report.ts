// What a report says, as values. Others wrote it: nothing is believed before it is compared with the message (take-report.ts).

/** What became of a recipient (RFC 3464 §2.3.3). */
export type ReportedAction = 'failed' | 'delayed' | 'delivered' | 'relayed' | 'expanded';

/** What a report says of one recipient. Addresses are as the report spells them. */
export interface NamedRecipient {
  /** The address that was tried last. */
  readonly final?: string | undefined;
  /** The address that the sender of the message had given. */
  readonly original?: string | undefined;
  readonly action: ReportedAction;
  /** The enhanced status code (RFC 3463), such as `5.1.1`. */
  readonly status?: string | undefined;
  /** The words of the server that refused the message, on one line. */
  readonly diagnostic?: string | undefined;
  readonly remoteMta?: string | undefined;
}

/** A report about deliveries. */
export interface DeliveryReport {
  readonly kind: 'delivery';
  /** How it is written: as RFC 3464 says, or as text for people. */
  readonly form: 'fields' | 'text';
  /** At most `reportBounds.recipients`. */
  readonly recipients: readonly NamedRecipient[];
  readonly reportingMta?: string | undefined;
}

/** A report that a recipient complains (RFC 5965). */
export interface ComplaintReport {
  readonly kind: 'complaint';
  readonly feedbackType: string;
  readonly userAgent?: string | undefined;
  /** The addresses that it names as recipients of the message. */
  readonly recipients: readonly string[];
  /** The values of CFBL-Feedback-ID, of the report and of the message that it returns (RFC 9477 §3.1). */
  readonly feedbackIds: readonly string[];
}

/** What somebody or some program sent in answer to a message: an absence notice, a challenge, a confirmation of reading. */
interface ReplyReport {
  readonly kind: 'reply';
}

/** What a message to the bounce listener turned out to be. */
export type Report = DeliveryReport | ComplaintReport | ReplyReport;

/** The types of the part with the fields about recipients, and of the part that returns the message. */
export const statusTypes = new Set(['message/delivery-status', 'message/global-delivery-status']);
export const returnedTypes = new Set([
  ...['message/rfc822', 'message/global'],
  ...['text/rfc822-headers', 'message/rfc822-headers', 'message/global-headers'],
]);

/** The most that is taken out of a report; what is beyond is not looked at. Texts in characters. */
export const reportBounds = {
  /** A message has at most 1000 recipients by default, and a report names a few of them. */
  recipients: 1000,
  address: 320,
  text: 1000,
  /** The characters of a text for people that are searched. */
  searched: 65_536,
  feedbackIds: 8,
} as const;

/** A text of a report on one line, without control characters, cut to `length` characters; undefined where nothing is left. */
export function oneLine(text: string | undefined, length: number = reportBounds.text): string | undefined {
  if (text === undefined) return undefined;
  const line = text
    .slice(0, length * 4)
    // Control characters, those of C1 and those that turn the direction of a text.
    .replaceAll(/[\s\0-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]+/g, ' ')
    .trim()
    .slice(0, length)
    .toWellFormed();
  return line === '' ? undefined : line;
}
