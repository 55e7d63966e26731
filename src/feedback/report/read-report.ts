// Reads a message that came to a bounce address: a report of deliveries, a complaint, or an answer of another kind. mailparser
// takes the MIME structure apart, within its own bounds on parts and header fields.

import { type Attachment, type ParsedMail, simpleParser } from 'mailparser';
import { automaticReply, type Headers, isFromMailer } from './automatic-reply.ts';
import { readDeliveryStatus } from './delivery-status.ts';
import { readFieldGroups } from './fields.ts';
import { type ComplaintReport, type DeliveryReport, oneLine, type Report, reportBounds } from './report.ts';
import { readTextReport } from './text-report.ts';

const deliveryTypes = new Set(['message/delivery-status', 'message/global-delivery-status']);
const returnedTypes = new Set([
  'message/rfc822',
  'message/global',
  'text/rfc822-headers',
  'message/rfc822-headers',
  'message/global-headers',
]);
/** Octets of a returned message in which its header is looked for. */
const returnedOctets = 65_536;

/** The first value of each header field, unfolded, by its name in lower case. */
function headersOf({ headerLines }: ParsedMail): Headers {
  const headers = new Map<string, string>();
  for (const { key, line } of headerLines) {
    if (headers.has(key)) continue;
    headers.set(
      key,
      line
        .slice(line.indexOf(':') + 1)
        .replaceAll(/\r?\n[ \t]+/g, ' ')
        .trim(),
    );
  }
  return headers;
}

function bareAddress(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  return oneLine(
    /<([^<>]*)>/.exec(text)?.[1] ?? text.replace(/^[a-zA-Z0-9-]{1,40}[ \t]*;[ \t]*/, ''),
    reportBounds.address,
  );
}

/** RFC 5965 §3; the token may stand in the report's header, in its fields, and in the header of the message (RFC 9477 §3.1). */
function readComplaint(fields: Attachment, headers: Headers, returned: Attachment | undefined): ComplaintReport {
  const [group = new Map<string, string>()] = readFieldGroups(fields.content, 1);
  const original = returned ? readFieldGroups(returned.content.subarray(0, returnedOctets), 1)[0] : undefined;
  const named = ['original-rcpt-to', 'removal-recipient', 'redacted-address']
    .map((name) => bareAddress(group.get(name)))
    .filter((address) => address !== undefined);
  const inMessage = bareAddress(original?.get('to'));
  const userAgent = oneLine(group.get('user-agent'), reportBounds.address);
  return {
    kind: 'complaint',
    feedbackType: /^[a-z0-9-]{1,40}/.exec((group.get('feedback-type') ?? '').toLowerCase())?.[0] ?? 'other',
    ...(userAgent === undefined ? {} : { userAgent }),
    recipients: [...named, ...(inMessage === undefined ? [] : [inMessage])],
    feedbackIds: [headers, group, original]
      .map((place) => place?.get('cfbl-feedback-id')?.replaceAll(/\s/g, ''))
      .filter((id) => id !== undefined)
      .slice(0, reportBounds.feedbackIds),
  };
}

function failedRecipients(headers: Headers): string[] {
  return (headers.get('x-failed-recipients') ?? '')
    .split(',')
    .map((one) => one.trim())
    .filter((one) => one.includes('@'))
    .slice(0, reportBounds.recipients);
}

/** The text for people; where there is none, that of the HTML without its tags. */
function textOf({ text, html }: ParsedMail): string {
  if (text !== undefined && text.trim() !== '') return text;
  if (html === false) return '';
  const searched = html.slice(0, reportBounds.searched * 2);
  return searched
    .replaceAll(/<(?:br|p|div|tr|td|li|h\d)\b[^<>]*>/gi, '\n')
    .replaceAll(/<[^<>]*>/g, '')
    .replaceAll(/&lt;/gi, '<')
    .replaceAll(/&gt;/gi, '>')
    .replaceAll(/&amp;/gi, '&');
}

/** Gives recipients without a Diagnostic-Code the words that the text for people has for them; Exim writes some only there. */
function withWords(report: DeliveryReport, text: string): DeliveryReport {
  if (report.recipients.every(({ diagnostic }) => diagnostic !== undefined)) return report;
  const told = new Map(readTextReport(text).recipients.map(({ final, diagnostic }) => [final, diagnostic]));
  const recipients = report.recipients.map((recipient) => {
    const words = told.get(recipient.final);
    return recipient.diagnostic !== undefined || words === undefined ? recipient : { ...recipient, diagnostic: words };
  });
  return { ...report, recipients };
}

/**
 * Reads a message to a bounce address.
 * @param octets the whole message
 * @param isFromNobody it came with the null reverse-path, as reports do (RFC 5321 §4.5.5)
 * @throws Error where it has more parts, header fields or octets in a header than mailparser takes
 */
export async function readReport(octets: Buffer, isFromNobody: boolean): Promise<Report> {
  const mail = await simpleParser(octets, {
    keepDeliveryStatus: true,
    skipHtmlToText: true,
    skipTextToHtml: true,
    skipImageLinks: true,
    skipTextLinks: true,
  });
  const headers = headersOf(mail);
  const { attachments } = mail;
  const returned = attachments.find(({ contentType }) => returnedTypes.has(contentType));
  const feedback = attachments.find(({ contentType }) => contentType === 'message/feedback-report');
  if (feedback) return readComplaint(feedback, headers, returned);
  if (attachments.some(({ contentType }) => contentType === 'message/disposition-notification')) {
    return { kind: 'reply', why: 'disposition' };
  }
  const status = attachments.find(({ contentType }) => deliveryTypes.has(contentType));
  const report = status && readDeliveryStatus(status.content);
  if (report) return withWords(report, textOf(mail));
  const named = failedRecipients(headers);
  const text = textOf(mail);
  // Only mailers tell of failures in words: what a person or a ticket system writes about them is an answer like any other (D51).
  const isMailer = isFromMailer(headers);
  if (named.length > 0 && (isMailer || isFromNobody)) return readTextReport(text, named);
  const reply = automaticReply(headers);
  if (reply) return reply;
  const hasMark = status !== undefined || /^Hi\. This is the/m.test(text);
  return isMailer || (isFromNobody && hasMark) ? readTextReport(text) : { kind: 'reply', why: 'other' };
}
