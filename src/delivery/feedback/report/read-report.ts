// Reads a message that came to a bounce address: a report of deliveries, a complaint, or an answer of another kind. mailparser
// takes the MIME structure apart, within its own bounds on parts and header fields.

import { type Attachment, type ParsedMail, simpleParser } from 'mailparser';
import { readDeliveryStatus, readFieldGroups } from './delivery-status.ts';
import {
  type ComplaintReport,
  type DeliveryReport,
  type NamedRecipient,
  oneLine,
  type Report,
  reportBounds,
  returnedTypes,
  statusTypes,
} from './report.ts';

// Reads reports that are written for people alone. Which recipients of the message they name is found out by comparing every
// address of the text with the message's recipients, so no form needs to be known for that; what is read here is which words
// belong to which address.

/** Where the returned message begins, in the words of common servers: what follows is the message's own. */
const returnedMessage = new RegExp(
  [
    // qmail (QSBMF) and netqmail
    // dma
    '^Message headers follow',
    '^--- (?:Below this line|Enclosed|Undelivered message|The header of the original message)',
    // Exim
    '^-{4,} *(?:This is a copy of (?:the|your) message|The body of the message)',
    // Sendmail before 8.7, and servers that copy its words
    '^ *-{3,} *(?:Original message|Unsent message|Returned message|Message header|The header of|Message text)',
    // Domino, and text in German, French, Japanese
    '^-{3,} *(?:Urspr|Message d|元の|Original)',
  ].join('|'),
  'im',
);

/** The mark that begins a report of qmail: QSBMF, the "qmail-send Bounce Message Format". */
const qmailMark = /^Hi\. This is the/m;

const address = /[^\s<>()[\]{}"'`,;:=]{1,64}@[a-zA-Z0-9\u{80}-\u{10ffff}][a-zA-Z0-9.\u{80}-\u{10ffff}-]{0,250}/gu;
const beginsWithAddress = /^[\s<]*[^\s@]{1,64}@/;
/** Lines behind the one with the address that belong to it. */
const linesBehind = 6;

/** The words behind an address: the rest of its line and what follows until an empty line behind words, or another address. */
function wordsBehind(lines: readonly string[], at: number, from: number): string {
  const words = [(lines[at] ?? '').slice(from)];
  let hasWords = /[\p{L}\d]{3}/u.test(words[0] ?? '');
  for (let next = at + 1; next < lines.length && next <= at + linesBehind; next += 1) {
    const line = lines[next] ?? '';
    if (line.trim() === '' && hasWords) break;
    if (beginsWithAddress.test(line)) break;
    words.push(line);
    hasWords ||= /[\p{L}\d]{3}/u.test(line);
  }
  return words.join(' ');
}

/** The enhanced status code in the words of a server: `550 5.1.1 ...`, `#5.1.1`, `(5.1.1)`; a failure before a success. */
function statusIn(text: string): string | undefined {
  const codes = text.matchAll(/(?<![\d.])([245]\.\d{1,2}\.\d{1,3})(?![\d.]*\d)/g).map(([, code]) => code ?? '');
  let first: string | undefined;
  for (const code of codes) {
    if (!code.startsWith('2')) return code;
    first ??= code;
  }
  return first;
}

/** Words that say that a message is only late. */
const late =
  /will (?:continue to|keep) (?:try|retry)|still (?:trying|being)|not (?:yet been delivered|been delivered yet)|delivery (?:is |has been )?delayed|warning:? message|you do not need to (?:resend|retry|do anything)|no action is required|wird weiterhin versucht|verz(?:ö|oe)ger/i;

/** Reads a text. @param text for people, as much as is there @param named recipients of its X-Failed-Recipients */
function readTextReport(text: string, named: readonly string[] = []): DeliveryReport {
  const searched = text.slice(0, reportBounds.searched);
  const cut = returnedMessage.exec(searched)?.index;
  const own = cut === undefined || cut === 0 ? searched : searched.slice(0, cut);
  const action = late.test(own) && !qmailMark.test(own) ? 'delayed' : 'failed';
  const found = new Map<string, NamedRecipient>();
  const lines = own.split(/\r\n|\r|\n/);
  for (const [at, line] of lines.entries()) {
    for (const match of line.slice(0, 2000).matchAll(address)) {
      const final = match[0].replace(/\.+$/, '');
      if (found.has(final) || found.size >= reportBounds.recipients || final.length > reportBounds.address) continue;
      const words = oneLine(wordsBehind(lines, at, match.index + match[0].length).replace(/^[>\s:.,;-]+/, ''));
      const status = statusIn(words ?? '') ?? statusIn(line.slice(0, match.index));
      const isSuccess = status?.startsWith('2') === true;
      found.set(final, { final, action: isSuccess ? 'delivered' : action, status, diagnostic: words });
    }
  }
  const recipients = named.length > 0 ? namedRecipients(named, found, action) : [...found.values()];
  // The words of a text that names nobody are about the message's only recipient, if it has one.
  const diagnostic = oneLine(own);
  if (named.length === 0 && diagnostic !== undefined) recipients.push({ action, diagnostic, status: statusIn(own) });
  return { kind: 'delivery', form: 'text', recipients };
}

/** The recipients that a field names, with the words that the text has for them; the addresses of the text otherwise count nothing. */
function namedRecipients(
  named: readonly string[],
  found: ReadonlyMap<string, NamedRecipient>,
  action: NamedRecipient['action'],
): NamedRecipient[] {
  const byAddress = new Map([...found].map(([key, value]) => [key.toLowerCase(), value]));
  return named
    .slice(0, reportBounds.recipients)
    .map((final) => ({ ...byAddress.get(final.toLowerCase()), final, action }));
}

// Recognises what programs answer that is no report: absence notices, challenges, confirmations (RFC 3834, RFC 8098).

/** The header of a message, by names in lower case, each with its first value. */
type Headers = ReadonlyMap<string, string>;

/** Subjects of absence notices and other automatic answers, in common languages. */
const absence =
  /^(?:(?:re|aw|antw|sv|r)\s*:\s*)?(?:auto(?:matic|mated|matische|matisk)?[\s:_-]*(?:reply|response|antwort|svar|respuesta)|auto\s*:|out of (?:the )?office|away from|vacation|on (?:holiday|leave|vacation)|abwesen|abwesenheits|ich bin (?:nicht|im urlaub)|r[ée]ponse automatique|absence|absent|je suis absent|respuesta autom|fuera de (?:la )?oficina|risposta automatica|assenza|resposta autom|automatisch antwoord|afwezig|autosvar|自動返信|自動応答|不在)/i;

const challenge =
  /\b(?:please (?:confirm|verify)|confirm(?:ation)? (?:your|is required|required|of your)|verify your (?:message|e-?mail|address)|sender (?:verification|confirmation)|challenge|needs? your confirmation|awaiting (?:your )?confirmation)\b/i;

/** Fields that only programs which answer mail write. */
const answers = ['x-autoreply', 'x-autorespond', 'x-autoreply-from', 'x-auto-reply', 'x-mail-autoreply', 'x-vacation'];

/** Names of a mailer itself; what systems that answer mail call themselves (noreply, bounces) is none. */
const mailer = /^"?(?:mailer-daemon|postmaster)"?(?:@|\s*\(|\s*$)/i;

/** Whether a mailer itself is the From of a message: MAILER-DAEMON or postmaster, with or without a domain. */
function isFromMailer(headers: Headers): boolean {
  const from = (headers.get('from') ?? '').replace(/<\s*>/, '');
  return mailer.test((/<([^<>]*)>/.exec(from)?.[1] ?? from).trim());
}

/** Whether the header says that a program answered. What servers write into their reports as well, such as Auto-Submitted, tells nothing. */
function isAutomatic(headers: Headers): boolean {
  const subject = (headers.get('subject') ?? '').trim();
  const isPrecedence = /^auto[_-]reply$/i.test((headers.get('precedence') ?? '').trim());
  return absence.test(subject) || challenge.test(subject) || isPrecedence || answers.some((name) => headers.has(name));
}

/** Octets of a returned message in which its header is looked for. */
const returnedOctets = 65_536;

/** The first value of each header field, unfolded, by its name in lower case. */
function headersOf({ headerLines }: ParsedMail): Headers {
  const headers = new Map<string, string>();
  for (const { key, line } of headerLines) {
    const value = line.slice(line.indexOf(':') + 1);
    if (!headers.has(key)) headers.set(key, value.replaceAll(/\r?\n[ \t]+/g, ' ').trim());
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
  const named = ['original-rcpt-to', 'removal-recipient', 'redacted-address'].map((name) =>
    bareAddress(group.get(name)),
  );
  const userAgent = oneLine(group.get('user-agent'), reportBounds.address);
  return {
    kind: 'complaint',
    feedbackType: /^[a-z0-9-]{1,40}/.exec((group.get('feedback-type') ?? '').toLowerCase())?.[0] ?? 'other',
    userAgent,
    // The To of the returned message tells to whom it went, and not which of them complains.
    recipients: named.filter((address) => address !== undefined),
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

/** Reads a message to a bounce address. @param isFromNobody with the null reverse-path @throws Error where it has more parts, fields or octets in a header than mailparser takes */
export async function readReport(octets: Buffer, isFromNobody: boolean): Promise<Report> {
  const mail = await simpleParser(octets, {
    keepDeliveryStatus: true,
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
    return { kind: 'reply' };
  }
  const status = attachments.find(({ contentType }) => statusTypes.has(contentType));
  const report = status && readDeliveryStatus(status.content);
  const { text = '' } = mail;
  if (report) return withWords(report, text);
  const named = failedRecipients(headers);
  // Only mailers tell of failures in words: what a person or a ticket system writes about them is an answer like any other (D51).
  const isMailer = isFromMailer(headers);
  if (named.length > 0 && (isMailer || isFromNobody)) return readTextReport(text, named);
  const hasMark = status !== undefined || qmailMark.test(text);
  const isReport = (isMailer || (isFromNobody && hasMark)) && !isAutomatic(headers);
  return isReport ? readTextReport(text) : { kind: 'reply' };
}
