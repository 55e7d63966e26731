// Composes the exact message that leaves, CRLF throughout: platform fields, order, casing, folding (D20-D30; order D22).

import type { KeyObject } from 'node:crypto';
import { addressLiteral, asciiDomain } from '../../mail/address/domain.ts';
import type { Envelope } from '../../mail/envelope.ts';
import { hasNonAscii } from '../../mail/header/encoded-word.ts';
import type { HeaderField } from '../../mail/header/header-reader.ts';
import { mailDate } from '../../mail/mail-date.ts';
import { makeTokens } from '../../mail/return-token.ts';
import { type FieldKind, writeField } from '../../mail/write-field.ts';
import type { Violation } from '../policy/rejections.ts';
import type { Checked, CheckedField, MimeFieldName, Submission, Via } from '../policy/submission.ts';
import { fieldKind, longFieldLength, readRaw, verbatimField, type WriteLongField } from './field-text.ts';

/** A finished field: folded, encoded, with its line end. */
export interface MessageField {
  readonly name: string;
  /** `Name: value CRLF`, folds included. ASCII except for addresses of an SMTPUTF8 message, which leave as UTF-8. */
  readonly line: string;
}

/** A composed message, not yet signed. Once it is composed, fields are only put before the others. */
export interface Message {
  readonly checked: Checked;
  /** UUIDv7: the queue id and the local part of Message-ID (D23). */
  readonly id: string;
  /** `<uuid@platform domain>`, with the brackets. */
  readonly messageId: string;
  /** The reverse-path that leaves: b+TOKEN@..., or '' (D26, D50). */
  readonly reversePath: string;
  /** Acceptance time, milliseconds since 1970. */
  readonly acceptedAt: number;
  /** Trace fields (ours first), which stand above the signatures (D22). */
  readonly trace: readonly MessageField[];
  /** All other fields in the order of D22. */
  readonly fields: readonly MessageField[];
  /** CRLF throughout, 7-bit (D20). */
  readonly body: Buffer;
  /** A header field holds raw UTF-8: the next hop must offer SMTPUTF8. */
  readonly smtputf8: boolean;
}

/** A body as it leaves, and the changes to the fields that describe it. */
export interface BodyPlan {
  /** CRLF throughout, 7-bit, ends with CRLF or is empty. The given Buffer itself where nothing had to change. */
  readonly body: Buffer;
  /** The new value of Content-Type, in one line; absent: the given one stays. */
  readonly contentType?: string;
  /** The new value of Content-Transfer-Encoding; absent: the given one stays. */
  readonly transferEncoding?: string;
}

/** The plan, or every reason why the body cannot leave. */
export type BodyPlanResult =
  | { readonly ok: true; readonly plan: BodyPlan }
  | { readonly ok: false; readonly violations: readonly Violation[] };

const plainMailbox = /^[!-~]+@[!-~]+$/;

/** Writes our Received field (RFC 5321 §4.4, RFC 3848). It names the recipient only where there is just one, so that it reveals no Bcc (D22). */
function receivedField({ submission, passes = 0 }: Checked, { hostname, id }: ComposeContext, date: string): string {
  const { via, envelope } = submission;
  // Removed traces (D4a) would hide a loop: the count lives on here.
  const software = passes === 0 ? 'Postern' : `Postern; pass ${passes + 1}`;
  const [recipient = ''] = envelope.recipients;
  // The clause is optional: a mailbox with white space, or outside ASCII, is left out instead of being encoded.
  const named = envelope.recipients.length === 1 && plainMailbox.test(recipient) && !/[<>;]/.test(recipient);
  const from = via.kind === 'smtp' ? `from ${client(submission)} ` : '';
  const protocol = protocolOf(via, envelope);
  const rcpt = named ? ` for <${recipient}>` : '';
  return writeField(
    'Received',
    `${from}by ${hostname} (${software})${protocol === '' ? '' : ` with ${protocol}`} id ${id}${rcpt}; ${date}`,
  );
}

function client({ via, submitter }: Submission): string {
  const { showClientAddress } = submitter.account;
  const address = showClientAddress ? via.remoteAddress : undefined;
  const name = heloName(via.helo, showClientAddress);
  if (address === undefined) return name;
  return `${name} ([${address.includes(':') ? 'IPv6:' : ''}${address}])`;
}

/** Accepts a domain or an address literal (RFC 5321 §4.1.2); any other HELO is useless and could be an attack on the field. */
function heloName(helo: string | undefined, showLiteral: boolean): string {
  if (helo === undefined || helo.length > 255) return 'unknown';
  if (addressLiteral(helo) !== undefined) return showLiteral ? helo : 'unknown';
  return asciiDomain(helo) ?? 'unknown';
}

/** Gives the protocol name: ESMTPSA of an SMTPUTF8 message is UTF8SMTPSA (RFC 6531 §4.3). */
function protocolOf(via: Via, envelope: Envelope): string {
  const { protocol } = via;
  return envelope.smtputf8 && protocol.startsWith('ESMTP') ? `UTF8SMTP${protocol.slice('ESMTP'.length)}` : protocol;
}

/** A Received field of a trusted hop: as it was, or written anew where its octets may not leave as they are (D4). */
function traceField({ rawBytes }: HeaderField, { legacyCharset }: Via): MessageField {
  const line = verbatimField('Received', rawBytes) ?? writeField('Received', readRaw(rawBytes, legacyCharset));
  return { name: 'Received', line };
}

/** The platform's own names and its secret (D26, D29). */
export interface Platform {
  /** A-label, lower case: used in Message-ID, Feedback-ID and the platform's signature. */
  readonly domain: string;
  /** A-label, lower case: the platform's bounce processor. */
  readonly bounceDomain: string;
  /** Authenticates reverse-paths and feedback ids. */
  readonly hmacKey: KeyObject;
}

interface ComposeContext {
  /** UUIDv7 of the message. */
  readonly id: string;
  /** Acceptance time, milliseconds since 1970. */
  readonly nowMs: number;
  /** The host name in Received `by`. */
  readonly hostname: string;
  readonly platform: Platform;
  /** Fields that have been written already: see `writeLongFields`. */
  readonly written?: WrittenFields | undefined;
}

/** Finished fields by what they were made of: a field, or the body's plan for the Content-Type that it changes. */
type WrittenFields = ReadonlyMap<CheckedField | BodyPlan, string>;

/** The fields that are written from their text. */
function writtenOf({ lifted, custom, mime }: Checked): readonly CheckedField[] {
  return [...Object.values(lifted), ...custom, ...Object.values(mime)];
}

function isLong({ text }: CheckedField): boolean {
  return text.length > longFieldLength;
}

/** Whether there are fields that `writeLongFields` would write. */
export function hasLongFields(checked: Checked, { contentType = '' }: BodyPlan): boolean {
  return contentType.length > longFieldLength || writtenOf(checked).some(isLong);
}

/** Writes in advance the fields that take long; `compose` writes the others. @param plan as for `compose` */
export async function writeLongFields(checked: Checked, plan: BodyPlan, writeLong: WriteLongField) {
  const kindOf = kindsOf(checked);
  const lines = new Map<CheckedField | BodyPlan, string>();
  for (const field of writtenOf(checked)) {
    if (!isLong(field)) continue;
    lines.set(field, await writeLong(field.name, field.text, kindOf(field)));
  }
  const { contentType = '' } = plan;
  if (contentType.length > longFieldLength) {
    lines.set(plan, await writeLong('Content-Type', contentType, fieldKind('Content-Type')));
  }
  return lines;
}

/** Composes an admitted submission. @param plan what `planBody` decided about its body */
export function compose(checked: Checked, plan: BodyPlan, context: ComposeContext): Message {
  const { submission } = checked;
  const date = mailDate(context.nowMs);
  const tokens = makeTokens(context.id, context.platform.hmacKey);
  const messageId = `<${context.id}@${context.platform.domain}>`;
  const kindOf = kindsOf(checked);
  const write: Write = (field) => {
    const { name, text } = field;
    return { name, line: context.written?.get(field) ?? writeField(name, text, kindOf(field)) };
  };
  const trace: MessageField[] = [{ name: 'Received', line: receivedField(checked, context, date) }];
  for (const field of checked.trace) trace.push(traceField(field, submission.via));
  const fields = [
    { name: 'Date', line: `Date: ${date}\r\n` },
    ...liftedFields(checked, write),
    { name: 'Message-ID', line: `Message-ID: ${messageId}\r\n` },
    ...checked.custom.map(write),
    ...platformFields(checked, context.platform, tokens.feedback),
    ...mimeFields(checked, plan, { write, contentType: context.written?.get(plan) }),
  ];
  const returnDomain = checked.sendingDomain.returnPathDomain ?? context.platform.bounceDomain;
  return {
    checked,
    id: context.id,
    messageId,
    // D50: a null reverse-path stays null, so that the message never causes a report.
    reversePath: submission.envelope.reversePath === '' ? '' : `b+${tokens.bounce}@${returnDomain}`,
    acceptedAt: context.nowMs,
    trace,
    fields,
    body: plan.body,
    smtputf8: fields.some((field) => hasNonAscii(field.line)) || trace.some((field) => hasNonAscii(field.line)),
  };
}

/** Writes a field, or gives it as it was written in advance. */
type Write = (field: CheckedField) => MessageField;

/**
 * Chooses how each field of a message is written. Where the sender did not ask for SMTPUTF8 (RFC 6531 §3.4), a later hop
 * without SMTPUTF8 must not fail the message for an address that only people read. The sender asks for it in MAIL, by a
 * From outside ASCII, or by using REST, whose addresses are UTF-8 and which has no other way to ask.
 */
function kindsOf({ lifted, submission, from }: Checked): (field: CheckedField) => FieldKind {
  const { envelope, via } = submission;
  const isAscii = !envelope.smtputf8 && via.kind !== 'rest' && !hasNonAscii(from.address);
  return (field) => {
    const kind = fieldKind(field.name);
    return kind === 'addresses' && isAscii && field !== lifted.from ? 'ascii-addresses' : kind;
  };
}

function liftedFields({ lifted }: Checked, write: Write): MessageField[] {
  const fields = [write(lifted.from)];
  if (lifted.to) fields.push(write(lifted.to));
  if (lifted.cc) fields.push(write(lifted.cc));
  if (lifted.replyTo) fields.push(write(lifted.replyTo));
  if (lifted.subject) fields.push(write(lifted.subject));
  return fields;
}

const campaign = /^[A-Za-z0-9._-]{1,64}$/;
/** The channel of each door (D42a). */
const channels: Record<Via['kind'], string> = { smtp: 'smtp', dsn: 'smtp', rest: 'rest', raw: 'rest' };

/** Feedback-ID (D28), CFBL-Address and CFBL-Feedback-ID (RFC 9477; D29), TLS-Required (RFC 8689), TLS-Report-* (RFC 8460; D30). */
function platformFields(checked: Checked, platform: Platform, feedbackToken: string): MessageField[] {
  const { via, envelope, submitter, tlsReport } = checked.submission;
  const given = checked.custom.find((field) => field.name.toLowerCase() === 'x-campaign-id')?.decoded ?? '';
  const feedback = [campaign.test(given) ? given : '-', submitter.account.name, channels[via.kind], platform.domain];
  const fields = [
    { name: 'Feedback-ID', line: writeField('Feedback-ID', feedback.join(':')) },
    { name: 'CFBL-Address', line: writeField('CFBL-Address', `fbl@${platform.bounceDomain}; report=arf`) },
    { name: 'CFBL-Feedback-ID', line: writeField('CFBL-Feedback-ID', feedbackToken) },
  ];
  // RFC 8689 §4: REQUIRETLS on the envelope overrides the field.
  if (submitter.account.tlsRequiredNo && !envelope.requireTls) {
    fields.push({ name: 'TLS-Required', line: 'TLS-Required: No\r\n' });
  }
  if (tlsReport) {
    fields.push({ name: 'TLS-Report-Domain', line: writeField('TLS-Report-Domain', tlsReport.domain) });
    fields.push({ name: 'TLS-Report-Submitter', line: writeField('TLS-Report-Submitter', tlsReport.submitter) });
  }
  return fields;
}

/** The MIME fields that describe the top-level entity, besides Content-Type and Content-Transfer-Encoding (D3). */
const describing = [
  ['content-disposition', 'Content-Disposition'],
  ['content-id', 'Content-ID'],
  ['content-description', 'Content-Description'],
  ['content-location', 'Content-Location'],
] as const satisfies readonly (readonly [MimeFieldName, string])[];

function mimeFields(
  { mime }: Checked,
  plan: BodyPlan,
  { write, contentType }: { readonly write: Write; readonly contentType: string | undefined },
): MessageField[] {
  const field = (
    name: string,
    given: CheckedField | undefined,
    { value, otherwise }: { readonly value: string | undefined; readonly otherwise: string },
  ): MessageField =>
    given && value === undefined
      ? asGiven(name, given, write)
      : { name, line: writeField(name, value ?? otherwise, fieldKind(name)) };
  const fields = [
    { name: 'MIME-Version', line: 'MIME-Version: 1.0\r\n' },
    contentType === undefined
      ? field('Content-Type', mime['content-type'], {
          value: plan.contentType,
          otherwise: 'text/plain; charset=us-ascii',
        })
      : { name: 'Content-Type', line: contentType },
    field('Content-Transfer-Encoding', mime['content-transfer-encoding'], {
      value: plan.transferEncoding,
      otherwise: '7bit',
    }),
  ];
  for (const [lowerName, name] of describing) {
    const given = mime[lowerName];
    if (given) fields.push(asGiven(name, given, write));
  }
  return fields;
}

function asGiven(name: string, field: CheckedField, write: Write): MessageField {
  const line = verbatimField(name, field.rawBytes);
  return line === undefined ? write(field) : { name, line };
}
