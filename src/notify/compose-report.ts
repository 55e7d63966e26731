// Makes the report of what became of a message as a submission: multipart/report (RFC 6522) of a text, the delivery status
// (RFC 3464), and the header section or the whole of the message. The pipeline judges, composes and signs it like any mail.

import type { Account } from '../accounts/account.ts';
import { stripRules } from '../accounts/strip-rules.ts';
import { randomHex } from '../base/ids.ts';
import { readMessage } from '../mail/header/header-reader.ts';
import { encodeQuotedPrintable } from '../mail/mime/transfer-encoding.ts';
import type { DueReport } from '../spool/reports/report.ts';
import type { Submission } from '../submit.ts';
import { deliveryStatus } from './delivery-status.ts';
import { reportSubject, reportText } from './report-text.ts';

/** Who a report is from. */
export interface ReportingParts {
  /** A-label, lower case. */
  readonly platformDomain: string;
  /** Our host name. */
  readonly hostname: string;
}

/** The octets of the message that a report is about. */
export interface Original {
  readonly head: Buffer;
  readonly body: Buffer;
}

/** The credential of reports: it has no scopes, and nothing is stripped or changed for it. */
const credential = { name: 'reports', scopes: new Set<never>(), strip: stripRules(), trustedHop: false } as const;

function isAscii(text: string): boolean {
  return /^[\0-\x7f]*$/.test(text);
}

/** A part as it stands in the body. What is not ASCII is encoded, since the next hop may take 7-bit mail only. */
async function part(fields: string, content: Buffer): Promise<Buffer> {
  const plain = content.every((octet) => octet < 0x80);
  const encoded = plain ? content : await encodeQuotedPrintable(content, { text: true });
  const encoding = plain ? '7bit' : 'quoted-printable';
  return Buffer.concat([Buffer.from(`${fields}\r\nContent-Transfer-Encoding: ${encoding}\r\n\r\n`), encoded]);
}

/** The last part: the whole message where it was asked for and is given, otherwise its header section. */
function returned(report: DueReport, whole: Original | undefined): Promise<Buffer> {
  const isGlobal = !isAscii(report.head.toString('latin1'));
  if (whole) {
    const type = isGlobal ? 'message/global' : 'message/rfc822';
    return part(`Content-Type: ${type}\r\nContent-Description: Your message`, Buffer.concat([whole.head, whole.body]));
  }
  const type = isGlobal ? 'message/global-headers' : 'text/rfc822-headers';
  return part(`Content-Type: ${type}\r\nContent-Description: The header of your message`, report.head);
}

/** The ids that mail programs find the message by: the sender's own one, where it can be quoted, and the one it left with. */
function references({ clientMessageId, messageId }: DueReport): string {
  const own =
    clientMessageId !== undefined && /^<[!-;=?-~]{1,250}>$/.test(clientMessageId) ? clientMessageId : messageId;
  return `In-Reply-To: ${own}\r\nReferences: ${own === messageId ? own : `${own} ${messageId}`}\r\n`;
}

/**
 * Makes a report.
 * @param whole the whole message, if the report is to return it
 */
export async function composeReport(
  report: DueReport,
  {
    account,
    whole,
    from,
  }: { readonly account: Account; readonly whole: Original | undefined; readonly from: ReportingParts },
): Promise<Submission> {
  const addresses = report.recipients.map(({ address }) => address);
  const isGlobal = ![report.senderPath, ...addresses].every(isAscii);
  const { hostname, platformDomain } = from;
  const boundary = `report-${report.queueId}-${report.key.seq}`;
  const status = deliveryStatus(report, { hostname, isGlobal });
  const statusType = isGlobal ? 'message/global-delivery-status' : 'message/delivery-status';
  const charset = isGlobal ? 'utf-8' : 'us-ascii';
  const parts = [
    await part(
      `Content-Type: text/plain; charset=${charset}\r\nContent-Description: What happened`,
      Buffer.from(reportText(report, { hostname, isUtf8: isGlobal })),
    ),
    await part(`Content-Type: ${statusType}\r\nContent-Description: Delivery status`, Buffer.from(status)),
    await returned(report, whole),
  ];
  const delimiter = Buffer.from(`\r\n--${boundary}\r\n`);
  const head = `From: "Mail Delivery System" <mailer-daemon@${platformDomain}>\r
To: <${report.senderPath}>\r
Subject: ${reportSubject(report)}\r
Auto-Submitted: auto-replied\r
${references(report)}MIME-Version: 1.0\r
Content-Type: multipart/report; report-type=delivery-status; boundary="${boundary}"\r
\r
This is a report of a mail server in several parts (RFC 3464).\r
`;
  const message = Buffer.concat([
    Buffer.from(head),
    ...parts.flatMap((one) => [delimiter, one]),
    Buffer.from(`\r\n--${boundary}--\r\n`),
  ]);
  const { fields, body } = readMessage(message);
  return {
    via: {
      kind: 'dsn',
      // Its own: what becomes of the report is no outcome of the request that the message came by.
      sessionId: randomHex(6),
      protocol: '',
      legacyCharset: 'utf-8',
      trustedHop: false,
      lineEndings: 'fix',
    },
    submitter: { account, credential },
    envelope: {
      reversePath: '',
      recipients: [report.senderPath],
      smtputf8: !isAscii(report.senderPath),
      // RFC 8689 §5
      requireTls: report.requireTls,
    },
    fields,
    body: { kind: 'mime', bytes: body },
    size: message.length,
    answers: report.key,
  };
}
