// Writes the part of a report that people read: what happened to which recipient, in whose words, and what can be done.

import { escapeCharacters } from '../base/escape-text.ts';
import { mailDate } from '../mail/mail-date.ts';
import type { DueReport, ReportAction, ReportedRecipient } from '../spool/reports/report.ts';
import { oneLine, type StatusFacts, statusFacts } from './status-facts.ts';

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
export function reportSubject({ recipients }: DueReport): string {
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

/**
 * Writes the text, with CRLF.
 * @param options.isUtf8 false: everything outside ASCII is escaped
 */
export function reportText(
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
