// Reads the body of message/delivery-status (RFC 3464 §2) and of message/global-delivery-status (RFC 6533 §3).

import { isUtf8 } from 'node:buffer';
import { readOrcpt } from '../../../mail/envelope.ts';
import { type DeliveryReport, type NamedRecipient, oneLine, type ReportedAction, reportBounds } from './report.ts';

/** Field names in lower case, each with the first value that the group gives it, unfolded. */
type FieldGroup = ReadonlyMap<string, string>;

/** Lines that are read; a report has some ten for each recipient. */
const mostLines = 20_000;
const mostCharacters = 4000;

// RFC 5322 §2.2: a name is printable ASCII without a colon. Some servers put blanks before the colon.
const fieldLine = /^([\x21-\x39\x3b-\x7e]{1,100})[ \t]*:[ \t]*(.*)$/;

/** Reads groups of fields with empty lines between them. @param octets decoded, UTF-8 or ISO 8859-1 @param groups at most */
export function readFieldGroups(octets: Uint8Array, groups: number): FieldGroup[] {
  const found: FieldGroup[] = [];
  let group = new Map<string, string>();
  let name = '';
  for (const line of linesOf(octets)) {
    if (/^[ \t]*$/.test(line)) {
      if (group.size > 0) found.push(group);
      if (found.length === groups) return found;
      group = new Map();
      name = '';
    } else if (/^[ \t]/.test(line)) {
      const value = group.get(name);
      if (value !== undefined && value.length < mostCharacters) group.set(name, `${value} ${line.trim()}`);
    } else {
      const match = fieldLine.exec(line);
      const given = match?.[1]?.toLowerCase() ?? '';
      // Of a field that stands twice the first counts, also for the lines that go on behind the second.
      name = match && !group.has(given) ? given : '';
      if (name !== '') group.set(name, (match?.[2] ?? '').trim().slice(0, mostCharacters));
    }
  }
  if (group.size > 0) found.push(group);
  return found;
}

/** A line that is UTF-8 is read as that, any other as ISO 8859-1, whatever the others are. */
function linesOf(octets: Uint8Array): readonly string[] {
  const lines = Buffer.from(octets).toString('latin1').split(/\r?\n/, mostLines);
  return lines.map((whole) => {
    const line = whole.slice(0, mostCharacters);
    const own = Buffer.from(line, 'latin1');
    return isUtf8(own) ? own.toString('utf8') : line;
  });
}

/** RFC 3464 §2.3.3; `deliverable` stands in reports about addresses that were tried without a message. */
const actions: ReadonlyMap<string, ReportedAction> = new Map([
  ...(['failed', 'delayed', 'delivered', 'relayed', 'expanded'] as const).map((action) => [action, action] as const),
  ['deliverable', 'delivered'],
]);

/** What stands behind the type of a field such as `rfc822; a@example.net`; some servers leave the type out. */
function behindType(value: string | undefined): string | undefined {
  return value === undefined ? undefined : value.replace(/^[a-zA-Z0-9-]{1,40}[ \t]*;[ \t]*/, '').trim();
}

/** An address out of its field: without angle brackets, a comment behind it, and what stands for characters beyond ASCII. */
function addressOf(value: string | undefined): string | undefined {
  const text = behindType(value);
  if (text === undefined) return undefined;
  const inner = /^<([^<>]*)>/.exec(text)?.[1] ?? withoutComment(text);
  // RFC 6533 §3: in a report of seven bits an address of this type is written as ORCPT has it.
  const decoded = /^utf-8[ \t]*;/i.test(value ?? '') ? readOrcpt(`utf-8;${inner}`)?.address : undefined;
  return oneLine(decoded ?? inner, reportBounds.address);
}

/** Cuts off a comment behind an address, in time that grows with the text: a pattern would try each of its blanks anew. */
function withoutComment(text: string): string {
  const at = text.endsWith(')') ? text.search(/[ \t]\(/) : -1;
  return at < 0 ? text : text.slice(0, at);
}

/** RFC 3464 §2.3.4: the code, without the words that some servers write behind it. */
function statusOf(value: string | undefined): string | undefined {
  return /^[ \t]*([245]\.\d{1,3}\.\d{1,3})(?!\d)/.exec(behindType(value) ?? '')?.[1];
}

function actionOf(value: string | undefined, status: string | undefined): ReportedAction | undefined {
  const known = actions.get(/^[a-z]+/.exec((value ?? '').trim().toLowerCase())?.[0] ?? '');
  const isFailure = known === 'failed' || known === 'delayed';
  // RFC 3463 §3.1: a status of class 2 is a success, whatever the word beside it.
  if (known && !(isFailure && status?.startsWith('2') === true)) return known;
  // Some servers leave Action out or have words of their own: the status tells as much.
  if (status === undefined) return undefined;
  return status.startsWith('5') ? 'failed' : status.startsWith('4') ? 'delayed' : 'delivered';
}

function recipientOf(group: FieldGroup): NamedRecipient | undefined {
  const final = addressOf(group.get('final-recipient'));
  const original = addressOf(group.get('original-recipient'));
  const status = statusOf(group.get('status'));
  const action = actionOf(group.get('action'), status);
  if ((final === undefined && original === undefined) || action === undefined) return undefined;
  const diagnostic = oneLine(behindType(group.get('diagnostic-code')));
  const remoteMta = oneLine(behindType(group.get('remote-mta')), reportBounds.address);
  return { final, original, action, status, diagnostic, remoteMta };
}

/** Reads the fields of a report. @param octets its decoded part @returns undefined where no group is about a recipient */
export function readDeliveryStatus(octets: Uint8Array): DeliveryReport | undefined {
  const groups = readFieldGroups(octets, reportBounds.recipients + 1);
  const recipients = groups.map(recipientOf).filter((recipient) => recipient !== undefined);
  if (recipients.length === 0) return undefined;
  // Some servers put the fields of the message and those of the only recipient into one group.
  const reportingMta = oneLine(behindType(groups[0]?.get('reporting-mta')), reportBounds.address);
  return { kind: 'delivery', form: 'fields', recipients, reportingMta };
}
