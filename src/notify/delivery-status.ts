// Writes the part of a report that programs read: message/delivery-status (RFC 3464 §2), or with addresses outside ASCII
// message/global-delivery-status (RFC 6533 §4).

import { asciiOrcpt, envidText, readOrcpt } from '../mail/dsn-request.ts';
import { mailDate } from '../mail/mail-date.ts';
import type { DueReport, ReportedRecipient } from '../spool/reports/report.ts';
import { oneLine, statusFacts } from './status-facts.ts';

/** The settings of the part. */
export interface StatusOptions {
  /** Our host name. */
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
export function deliveryStatus(report: DueReport, options: StatusOptions): string {
  const lines = [
    `Reporting-MTA: dns; ${options.hostname}`,
    ...(report.envid === undefined ? [] : [`Original-Envelope-Id: ${envidText(report.envid)}`]),
    `Arrival-Date: ${mailDate(report.acceptedAt)}`,
    ...report.recipients.flatMap((recipient) => group(recipient, report, options)),
  ];
  return `${lines.join('\r\n')}\r\n`;
}
