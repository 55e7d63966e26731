// Makes the report of what became of a message as a submission: multipart/report (RFC 6522) of a text, the delivery status
// (RFC 3464), and the header section or the whole of the message. The pipeline judges, composes and signs it like any mail.

import type { Account } from '../../accounts/account.ts';
import { stripRules } from '../../accounts/strip-rules.ts';
import { escapeCharacters } from '../../base/escape-text.ts';
import { randomHex } from '../../base/ids.ts';
import { asciiOrcpt, envidText, readOrcpt } from '../../mail/envelope.ts';
import { readMessage } from '../../mail/header/header-reader.ts';
import { mailDate } from '../../mail/mail-date.ts';
import { encodeQuotedPrintable } from '../../mail/mime/transfer-encoding.ts';
import type { Submission } from '../../pipeline/submit.ts';
import type { DueReport, ReportAction, ReportedRecipient } from '../../spool/reports/report.ts';

/** The most characters of a reply that a report quotes. */
const quoted = 500;

interface StatusFacts {
  /** RFC 3463, of the class that the action needs. */
  readonly status: string;
  /** The host that replied; absent where the message went into a mailbox of our own. */
  readonly remote?: string;
  /** The reply on one line, as the next hop gave it: `550 5.1.1 No such user`. */
  readonly words: string;
  /** Why it failed although the reply was temporary: `Expired after 5 days`. */
  readonly why?: string;
}

// How delivery words a failure after its last attempt (delivery/outcome.ts).
const expired = /^(Expired after [^;]{1,40}); last reply: (.*)$/s;
// Who replied, as delivery writes it: `route (name[address]:port)`, `route (host:port)`, or `route (name)` without a connection.
const withPort = /\(\[?([^()[\]\s/,]+?)\]?(?:\[[0-9a-f.:]+\])?:\d+\)$/i;
const alone = /\(([^()[\]\s/,:]+)\)$/;
const enhancedStatus = /^[245]\.\d{1,3}\.\d{1,3}$/;
const classes = { failed: '45', delayed: '4', delivered: '2', relayed: '2' } as const;

/** One line of printable ASCII, or with other characters where `isUtf8`; a next hop's words can begin no field or line. */
function oneLine(text: string, length: number, isUtf8 = false): string {
  const line = text.replace(/[\r\n\t ]+/g, ' ').trim();
  const plain = escapeCharacters(line, isUtf8 ? /[\p{Cc}\p{Cf}\p{Cs}\u2028\u2029]/gu : /[^\x20-\x7e]/gu);
  return plain.length <= length ? plain : `${plain.slice(0, length).toWellFormed()} ...`;
}

function statusOf({ action, reply }: ReportedRecipient): string {
  const { enhanced = '', code } = reply;
  const allowed = classes[action];
  if (enhancedStatus.test(enhanced) && allowed.includes(enhanced.charAt(0))) return enhanced;
  const first = String(code).charAt(0);
  return `${allowed.includes(first) ? first : allowed.at(-1)}.0.0`;
}

/** Takes the facts of a recipient. */
export function statusFacts(recipient: ReportedRecipient, isUtf8: boolean): StatusFacts {
  const { reply, host } = recipient;
  const status = statusOf(recipient);
  const remote = (withPort.exec(host) ?? alone.exec(host))?.[1];
  const end = expired.exec(reply.text);
  const words = end?.[2] ?? `${reply.code} ${reply.enhanced === undefined ? '' : `${reply.enhanced} `}${reply.text}`;
  return {
    status,
    ...(remote === undefined ? {} : { remote: oneLine(remote, 255) }),
    words: oneLine(words, quoted, isUtf8),
    ...(end?.[1] === undefined ? {} : { why: end[1] }),
  };
}

/** Recipients that are described one by one; the machine part lists the others. */
const described = 20;

/** What a person can do, by the status code (RFC 3463 §3): the first entry whose beginning fits. */
const advice: readonly (readonly [string, string])[] = [
  ['5.1.10', 'The domain of this address takes no mail. Check how the address is written.'],
  ['5.1.2', 'The domain of this address is not known. Check how the address is written.'],
  ['5.1.', 'This address does not seem to exist. Check how it is written, and send the message again.'],
  ['5.2.2', 'The mailbox is full. Reach the person another way, or send the message again later.'],
  ['5.2.', 'The mailbox cannot take mail. Reach the person another way.'],
  ['5.3.4', 'The message is too large for the other side. Send it again without large attachments.'],
  ['5.4.6', 'The message went in a circle. Tell the administrator of this mail gateway.'],
  ['5.6.7', 'The other side cannot take addresses with these characters. Use an address in plain letters.'],
  ['5.6.', 'The other side cannot take a message of this form. Send it again in a simpler form.'],
  ['5.7.30', 'The message demands an encrypted way that the other side does not offer.'],
  ['5.7.', 'The other side refuses the message by its rules. Its words above may say what it wants.'],
  ['5.', 'The other side refuses the message for good. Its words above may say why.'],
  ['4.', 'The other side could not take the message in all this time. Send it again if it still matters.'],
];

const headings: Readonly<Record<ReportAction, string>> = {
  failed: 'It could not be delivered to these recipients. No further attempt is made:',
  delayed: 'It has not reached these recipients yet. Delivery goes on; you need not send it again:',
  delivered: 'It was delivered to these recipients:',
  relayed:
    'It was handed on for these recipients, to a mail server that sends no reports of success. You will hear of it again only if it fails there:',
};

const order = ['failed', 'delayed', 'delivered', 'relayed'] as const;

const subjects: Readonly<Record<ReportAction, string>> = {
  failed: 'Your message could not be delivered',
  delayed: 'Your message is delayed',
  delivered: 'Your message was delivered',
  relayed: 'Your message was handed on',
};

/** The subject of a report: its gravest part decides. */
function reportSubject({ recipients }: DueReport): string {
  const action = order.find((one) => recipients.some((recipient) => recipient.action === one)) ?? 'failed';
  return subjects[action];
}

function spoken({ remote, words, why }: StatusFacts): string[] {
  const said = remote === undefined ? [`    ${words}`] : [`    ${remote} said:`, `      ${words}`];
  return why === undefined ? said : [...said, `    ${why.replace('Expired', 'Given up')}.`];
}

function describe(recipient: ReportedRecipient, report: DueReport, isUtf8: boolean): string[] {
  const facts = statusFacts(recipient, isUtf8);
  const lines = ['', `  ${oneLine(recipient.address, 320, isUtf8)}`];
  if (recipient.action === 'failed') {
    const [, what = ''] = advice.find(([beginning]) => facts.status.startsWith(beginning)) ?? [];
    return [...lines, ...spoken(facts), `    ${what}`];
  }
  if (recipient.action === 'delayed') {
    return [...lines, ...spoken(facts), `    Delivery is tried until ${mailDate(report.expiresAt)}.`];
  }
  return lines;
}

/** Wraps a line at blanks to at most 76 characters, where it has any; what follows is indented as it is. */
function wrapped(line: string): string[] {
  const indent = /^ */.exec(line)?.[0] ?? '';
  const lines: string[] = [];
  let rest = line;
  while (rest.length > 76) {
    const blank = rest.lastIndexOf(' ', 76);
    const at = blank > indent.length ? blank : rest.indexOf(' ', 76);
    if (at < 0) break;
    lines.push(rest.slice(0, at));
    rest = `${indent}${rest.slice(at + 1)}`;
  }
  return [...lines, rest];
}

/** Writes the text, with CRLF. @param options.isUtf8 false: everything outside ASCII is escaped */
function reportText(
  report: DueReport,
  { hostname, isUtf8 }: { readonly hostname: string; readonly isUtf8: boolean },
): string {
  const id = report.clientMessageId ?? report.messageId;
  const lines = [
    `This is the mail gateway ${hostname}. It reports on a message that it accepted from you on ${mailDate(report.acceptedAt)}.`,
    `Message-ID: ${oneLine(id, 250)}`,
  ];
  let room = described;
  for (const action of order) {
    const these = report.recipients.filter((recipient) => recipient.action === action);
    if (these.length === 0) continue;
    lines.push('', headings[action]);
    for (const recipient of these.slice(0, room))
      for (const line of describe(recipient, report, isUtf8)) lines.push(line);
    const rest = these.length - Math.min(room, these.length);
    if (rest > 0) lines.push('', `  and ${rest} more; the next part of this report names them all`);
    room = Math.max(0, room - these.length);
  }
  if (report.more > 0) lines.push('', `${report.more} further recipients are not listed in this report.`);
  lines.push('', 'The parts below are for programs, and show the header of your message.');
  const text = lines.flatMap(wrapped).join('\r\n');
  return isUtf8 ? `${text}\r\n` : `${escapeCharacters(text, /[^\x20-\x7e\r\n]/gu)}\r\n`;
}

// Writes a report's part for programs: message/delivery-status (RFC 3464 §2), or global-delivery-status (RFC 6533 §4).

interface StatusOptions {
  readonly hostname: string;
  /** Addresses may be written in UTF-8. */
  readonly isGlobal: boolean;
}

const printable = /^[\x20-\x7e]*$/;

/** RFC 3464 §2.1.2, RFC 6533 §3: an address with its type. Without UTF-8 it is written as utf-8-addr-xtext. */
function typedAddress(type: string, address: string, isGlobal: boolean): string {
  const safe = oneLine(address, 1000, true);
  if (printable.test(safe)) return `${type}; ${safe}`;
  return isGlobal ? `utf-8; ${safe}` : `utf-8; ${asciiOrcpt(safe)}`;
}

function group(recipient: ReportedRecipient, report: DueReport, { isGlobal }: StatusOptions): string[] {
  const { status, remote, words } = statusFacts(recipient, isGlobal);
  const original = recipient.orcpt === undefined ? undefined : readOrcpt(recipient.orcpt);
  return [
    '',
    ...(original ? [`Original-Recipient: ${typedAddress(original.type, original.address, isGlobal)}`] : []),
    `Final-Recipient: ${typedAddress('rfc822', recipient.address, isGlobal)}`,
    `Action: ${recipient.action}`,
    `Status: ${status}`,
    ...(remote === undefined ? [] : [`Remote-MTA: dns; ${remote}`]),
    `Diagnostic-Code: ${remote === undefined ? 'x-postern' : 'smtp'}; ${words}`,
    `Last-Attempt-Date: ${mailDate(recipient.at)}`,
    `Final-Log-ID: ${report.queueId}`,
    ...(recipient.action === 'delayed' ? [`Will-Retry-Until: ${mailDate(report.expiresAt)}`] : []),
  ];
}

/** Writes the part's content, with CRLF. */
function deliveryStatus(report: DueReport, options: StatusOptions): string {
  const lines = [
    `Reporting-MTA: dns; ${options.hostname}`,
    ...(report.envid === undefined ? [] : [`Original-Envelope-Id: ${envidText(report.envid)}`]),
    `Arrival-Date: ${mailDate(report.acceptedAt)}`,
    ...report.recipients.flatMap((recipient) => group(recipient, report, options)),
  ];
  return `${lines.join('\r\n')}\r\n`;
}

/** Who a report is from. */
export interface ReportingParts {
  /** A-label, lower case. */
  readonly platformDomain: string;
  readonly hostname: string;
}

/** The octets of the message that a report is about. */
export interface Original {
  readonly head: Buffer;
  readonly body: Buffer;
}

/** The credential of reports: it has no scopes, and nothing is stripped or changed for it. */
const credential = { name: 'reports', scopes: new Set<never>(), strip: stripRules(), trustedHop: false } as const;

/** A message of ours as nobody's submission, whoever gets it. Its session is its own: a report is no outcome of what it tells. */
export function ownSubmission(
  message: Buffer,
  account: Account,
): Pick<Submission, 'via' | 'submitter' | 'fields' | 'body' | 'size'> {
  const { fields, body } = readMessage(message);
  return {
    via: {
      kind: 'dsn',
      sessionId: randomHex(6),
      protocol: '',
      legacyCharset: 'utf-8',
      trustedHop: false,
      lineEndings: 'fix',
    },
    submitter: { account, credential },
    fields,
    body: { kind: 'mime', bytes: body },
    size: message.length,
  };
}

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
  const head = Buffer.from(report.head);
  const isGlobal = !isAscii(head.toString('latin1'));
  if (whole) {
    const type = isGlobal ? 'message/global' : 'message/rfc822';
    return part(`Content-Type: ${type}\r\nContent-Description: Your message`, Buffer.concat([whole.head, whole.body]));
  }
  const type = isGlobal ? 'message/global-headers' : 'text/rfc822-headers';
  return part(`Content-Type: ${type}\r\nContent-Description: The header of your message`, head);
}

/** The ids that mail programs find the message by: the sender's own one, where it can be quoted, and the one it left with. */
function references({ clientMessageId, messageId }: DueReport): string {
  const own =
    clientMessageId !== undefined && /^<[!-;=?-~]{1,250}>$/.test(clientMessageId) ? clientMessageId : messageId;
  return `In-Reply-To: ${own}\r\nReferences: ${own === messageId ? own : `${own} ${messageId}`}\r\n`;
}

function multipart(head: string, parts: readonly Buffer[], boundary: string): Buffer {
  const delimiter = Buffer.from(`\r\n--${boundary}\r\n`);
  const all = parts.flatMap((one) => [delimiter, one]);
  return Buffer.concat([Buffer.from(head), ...all, Buffer.from(`\r\n--${boundary}--\r\n`)]);
}

/** Makes a report. @param whole the whole message, if the report is to return it */
export async function composeReport(
  report: DueReport,
  given: { readonly account: Account; readonly whole: Original | undefined; readonly from: ReportingParts },
): Promise<Submission> {
  const addresses = report.recipients.map(({ address }) => address);
  const isGlobal = ![report.senderPath, ...addresses].every(isAscii);
  const { account, whole, from } = given;
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
  const head = `From: "Mail Delivery System" <mailer-daemon@${platformDomain}>\r
To: <${report.senderPath}>\r
Subject: ${reportSubject(report)}\r
Auto-Submitted: auto-replied\r
${references(report)}MIME-Version: 1.0\r
Content-Type: multipart/report; report-type=delivery-status; boundary="${boundary}"\r
\r
This is a report of a mail server in several parts (RFC 3464).\r
`;
  return {
    ...ownSubmission(multipart(head, parts, boundary), account),
    envelope: {
      reversePath: '',
      recipients: [report.senderPath],
      smtputf8: !isAscii(report.senderPath),
      // RFC 8689 §5
      requireTls: report.requireTls,
    },
    answers: report.key,
  };
}
