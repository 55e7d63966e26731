// The exact message that leaves: platform fields, order, casing, folding (D20-D30; order D22).

import type { KeyObject } from 'node:crypto';
import { hasNonAscii } from '../mail/encoded-word.ts';
import { makeTokens } from '../mail/return-token.ts';
import { writeField } from '../mail/write-field.ts';
import type { Checked, CheckedField, MimeFieldName } from '../policy/checked.ts';
import type { Via } from '../policy/submission.ts';
import type { BodyPlan } from './body-plan.ts';
import { fieldKind } from './field-kind.ts';
import type { Message, MessageField } from './message.ts';
import { receivedField, traceField } from './received.ts';
import { verbatimField } from './verbatim-field.ts';

/** The platform's own names and secret (D26, D29). */
export interface Platform {
  /** A-label, lower case: Message-ID, Feedback-ID, the platform's signature. */
  readonly domain: string;
  /** A-label, lower case: the platform's bounce processor. */
  readonly bounceDomain: string;
  /** Authenticates reverse-paths and feedback ids. */
  readonly hmacKey: KeyObject;
}

/** What composing needs besides the message. */
export interface ComposeContext {
  /** UUIDv7 of the message. */
  readonly id: string;
  /** Acceptance time, milliseconds since 1970. */
  readonly nowMs: number;
  /** Received `by`. */
  readonly hostname: string;
  readonly platform: Platform;
}

/** RFC 5322 §3.3, in UTC (D24). */
export function mailDate(ms: number): string {
  return `${new Date(ms).toUTCString().slice(0, -3)}+0000`;
}

/**
 * Composes the message.
 * @param checked the submission the policy admitted
 * @param plan what `planBody` decided about its body
 */
export function compose(checked: Checked, plan: BodyPlan, context: ComposeContext): Message {
  const { submission } = checked;
  const { account } = submission.submitter;
  const date = mailDate(context.nowMs);
  const tokens = makeTokens(context.id, context.platform.hmacKey);
  const messageId = `<${context.id}@${context.platform.domain}>`;
  const received = receivedField({
    via: submission.via,
    envelope: submission.envelope,
    showClientAddress: account.showClientAddress,
    hostname: context.hostname,
    id: context.id,
    date,
  });
  const trace: MessageField[] = [{ name: 'Received', line: received }];
  for (const field of checked.trace) trace.push(traceField(field, submission.via));
  const fields = [
    { name: 'Date', line: `Date: ${date}\r\n` },
    ...liftedFields(checked),
    { name: 'Message-ID', line: `Message-ID: ${messageId}\r\n` },
    ...checked.custom.map(written),
    ...platformFields(checked, { platform: context.platform, feedbackToken: tokens.feedback }),
    ...mimeFields(checked, plan),
  ];
  const returnDomain = checked.sendingDomain.returnPathDomain ?? context.platform.bounceDomain;
  return {
    checked,
    id: context.id,
    messageId,
    // D50: a null reverse-path stays null, and so never causes a report.
    reversePath: submission.envelope.reversePath === '' ? '' : `b+${tokens.bounce}@${returnDomain}`,
    acceptedAt: context.nowMs,
    trace,
    fields,
    body: plan.body,
    smtputf8: fields.some((field) => hasNonAscii(field.line)) || trace.some((field) => hasNonAscii(field.line)),
  };
}

function liftedFields({ lifted, submission, from }: Checked): MessageField[] {
  const fields = [written(lifted.from)];
  // Where the sender did not ask for SMTPUTF8 (RFC 6531 §3.4), no later hop without it shall fail the message for an
  // address that only people read. A From outside ASCII asks for it by itself.
  const mayBeUtf8 = submission.envelope.smtputf8 || hasNonAscii(from.address);
  for (const field of [lifted.to, lifted.cc, lifted.replyTo]) {
    if (!field) continue;
    const line = writeField(field.name, field.text, mayBeUtf8 ? 'addresses' : 'ascii-addresses');
    fields.push({ name: field.name, line });
  }
  if (lifted.subject) fields.push(written(lifted.subject));
  return fields;
}

function written(field: CheckedField): MessageField {
  return { name: field.name, line: writeField(field.name, field.text, fieldKind(field.name)) };
}

const campaign = /^[A-Za-z0-9._-]{1,64}$/;
/** D42a. */
const channels = { smtp: 'smtp', dsn: 'smtp', rest: 'rest', raw: 'rest' } as const satisfies Record<
  Via['kind'],
  string
>;

/** Feedback-ID (D28), CFBL-Address and CFBL-Feedback-ID (RFC 9477; D29), TLS-Required (RFC 8689; D30). */
function platformFields(
  checked: Checked,
  context: { readonly platform: Platform; readonly feedbackToken: string },
): MessageField[] {
  const { platform, feedbackToken } = context;
  const { via, envelope, submitter } = checked.submission;
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
  return fields;
}

/** The MIME fields besides Content-Type and Content-Transfer-Encoding that describe the top-level entity (D3). */
const describing = [
  ['content-disposition', 'Content-Disposition'],
  ['content-id', 'Content-ID'],
  ['content-description', 'Content-Description'],
  ['content-location', 'Content-Location'],
] as const satisfies readonly (readonly [MimeFieldName, string])[];

function mimeFields({ mime }: Checked, plan: BodyPlan): MessageField[] {
  const fields = [
    { name: 'MIME-Version', line: 'MIME-Version: 1.0\r\n' },
    mimeField('Content-Type', {
      value: plan.contentType,
      given: mime['content-type'],
      fallback: 'text/plain; charset=us-ascii',
    }),
    mimeField('Content-Transfer-Encoding', {
      value: plan.transferEncoding,
      given: mime['content-transfer-encoding'],
      fallback: '7bit',
    }),
  ];
  for (const [lowerName, name] of describing) {
    const given = mime[lowerName];
    if (given) fields.push(asGiven(name, given));
  }
  return fields;
}

function mimeField(
  name: string,
  value: { readonly value: string | undefined; readonly given: CheckedField | undefined; readonly fallback: string },
): MessageField {
  if (value.value !== undefined) return { name, line: writeField(name, value.value, fieldKind(name)) };
  if (!value.given) return { name, line: writeField(name, value.fallback) };
  return asGiven(name, value.given);
}

function asGiven(name: string, { rawBytes, text }: CheckedField): MessageField {
  return { name, line: verbatimField(name, rawBytes) ?? writeField(name, text, fieldKind(name)) };
}
