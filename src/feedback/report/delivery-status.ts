// Reads the body of message/delivery-status (RFC 3464 §2) and of message/global-delivery-status (RFC 6533 §3).

import { type FieldGroup, readFieldGroups } from './fields.ts';
import { type DeliveryReport, type NamedRecipient, oneLine, type ReportedAction, reportBounds } from './report.ts';

/** RFC 3464 §2.3.3; `deliverable` stands in reports about addresses that were tried without a message. */
const actions: ReadonlyMap<string, ReportedAction> = new Map([
  ...(['failed', 'delayed', 'delivered', 'relayed', 'expanded'] as const).map((action) => [action, action] as const),
  ['deliverable', 'delivered'],
]);

/** What stands behind the type of a field such as `rfc822; a@example.net`; some servers leave the type out. */
function behindType(value: string | undefined): string | undefined {
  return value === undefined ? undefined : value.replace(/^[a-zA-Z0-9-]{1,40}[ \t]*;[ \t]*/, '').trim();
}

/** An address out of its field: without angle brackets and a comment behind it. */
function addressOf(value: string | undefined): string | undefined {
  const text = behindType(value);
  if (text === undefined) return undefined;
  const inner = /^<([^<>]*)>/.exec(text)?.[1] ?? withoutComment(text);
  return oneLine(inner, reportBounds.address);
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
  return {
    ...(final === undefined ? {} : { final }),
    ...(original === undefined ? {} : { original }),
    action,
    ...(status === undefined ? {} : { status }),
    ...(diagnostic === undefined ? {} : { diagnostic }),
    ...(remoteMta === undefined ? {} : { remoteMta }),
  };
}

/**
 * Reads the fields of a report.
 * @param octets the decoded body of the part
 * @returns undefined where no group is about a recipient
 */
export function readDeliveryStatus(octets: Uint8Array): DeliveryReport | undefined {
  const groups = readFieldGroups(octets, reportBounds.recipients + 1);
  const recipients = groups.map(recipientOf).filter((recipient) => recipient !== undefined);
  if (recipients.length === 0) return undefined;
  // Some servers put the fields of the message and those of the only recipient into one group.
  const reportingMta = oneLine(behindType(groups[0]?.get('reporting-mta')), reportBounds.address);
  return { kind: 'delivery', form: 'fields', recipients, ...(reportingMta === undefined ? {} : { reportingMta }) };
}
