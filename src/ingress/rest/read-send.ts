// A request of send made into a Submission: schema, fields, recipients, limits (D42, D43). Every fault is collected, none
// ends the reading, so that headers are judged too (D42b).

import type { Fault } from '../../http/envelope.ts';
import { isJsonObject, type JsonDocument, type JsonObject, type JsonValue } from '../../http/json-reader.ts';
import { documentFaults } from '../../http/request-body.ts';
import { createCompiler } from '../../http/schema-compiler.ts';
import type { HeaderField } from '../../mail/header-field.ts';
import type { Submission, SubmissionBody, Violation } from '../../submit.ts';
import { type ApiMailbox, readAddresses, writeAddresses } from './addresses.ts';
import { readAttachments } from './attachments.ts';
import { customHeaders } from './custom-headers.ts';
import { faultOf } from './merge-faults.ts';
import {
  countOf,
  isAscii,
  judge,
  noFields,
  type ReadContext,
  type ReadRequest,
  stringOf,
  suppressedOf,
  viaOf,
} from './read-request.ts';
import { SendRequest } from './schemas.ts';
import type { RestLimits } from './settings.ts';

const judgeSend = createCompiler()(SendRequest);

const addressFields = ['from', 'to', 'cc', 'bcc', 'reply_to'] as const;
type AddressField = (typeof addressFields)[number];

const control = /[\p{Cc}\u2028\u2029]/u;

/** Under a field of addresses and in `headers` others judge: the readers of addresses, the policy. */
function isJudgedElsewhere({ pointer = '', ...fault }: Fault): boolean {
  if ('token' in fault && fault.token === 'E_FIELD_MISSING') return false;
  return addressFields.some((field) => pointer === `/${field}` || pointer.startsWith(`/${field}/`));
}

function ofHeaders({ pointer = '' }: Fault): boolean {
  return pointer.startsWith('/headers/');
}

interface Addresses {
  readonly boxes: Readonly<Record<AddressField, readonly ApiMailbox[]>>;
  readonly violations: readonly Violation[];
  /** Entries of to, cc and bcc, readable or not. */
  readonly recipients: number;
}

function readAllAddresses(body: JsonObject, { submitter, limits }: ReadContext): Addresses {
  const { defaultDomain } = submitter.credential;
  const violations: Violation[] = [];
  const boxes = { from: [], to: [], cc: [], bcc: [], reply_to: [] } as Record<AddressField, readonly ApiMailbox[]>;
  let recipients = 0;
  for (const field of addressFields) {
    const value = body[field];
    const read = readAddresses(value, field, defaultDomain);
    boxes[field] = read.mailboxes;
    violations.push(...read.violations);
    const pointer = `/${field}`;
    if ((field === 'from' || field === 'to') && value !== undefined && countOf(value) === 0) {
      violations.push({ code: 'E_FIELD_MISSING', message: `"${field}" holds no address`, pointer });
    }
    if (field === 'from' && countOf(value) > 1) {
      const message = `from must be one address, got ${countOf(value)}`;
      violations.push({ code: 'E_VALIDATION_ERROR', message, pointer });
    }
    if (field === 'from' || field === 'reply_to') continue;
    const before = recipients;
    recipients += countOf(value);
    if (before <= limits.recipients && recipients > limits.recipients) {
      const message = `to, cc and bcc hold ${countOf(body['to']) + countOf(body['cc']) + countOf(body['bcc'])} recipients, at most ${limits.recipients} are allowed`;
      violations.push({ code: 'E_TOO_MANY_RECIPIENTS', message, pointer });
    }
  }
  return { boxes, violations, recipients };
}

/** The subject: its length in characters, and nothing that would end the line (D42). */
function subjectViolations(subject: JsonValue | undefined, limits: RestLimits): Violation[] {
  if (typeof subject !== 'string') return [];
  const pointer = '/subject';
  if (control.test(subject.replaceAll('\t', ' '))) {
    return [
      { code: 'E_VALIDATION_ERROR', message: 'subject holds a line break or another control character', pointer },
    ];
  }
  // A character is one or two units of UTF-16: short ones need no count.
  if (subject.length <= limits.subjectCharacters) return [];
  const characters = Array.from(subject).length;
  if (characters <= limits.subjectCharacters) return [];
  const message = `subject has ${characters} characters, at most ${limits.subjectCharacters} are allowed`;
  return [{ code: 'E_VALIDATION_ERROR', message, pointer }];
}

function contentViolations(body: JsonObject, limits: RestLimits, octets: number): Violation[] {
  const violations: Violation[] = [];
  if (body['text'] === undefined && body['html'] === undefined) {
    violations.push({ code: 'E_FIELD_MISSING', message: 'One of "text" and "html" is missing', pointer: '/text' });
  }
  const attachments = countOf(body['attachments']);
  if (Array.isArray(body['attachments']) && attachments > limits.attachments) {
    const message = `There are ${attachments} attachments, at most ${limits.attachments} are allowed`;
    violations.push({ code: 'E_TOO_MANY_ATTACHMENTS', message, pointer: '/attachments' });
  }
  if (octets > limits.messageBytes) {
    const message = `The attachments have ${octets} octets, the message at most ${limits.messageBytes}`;
    violations.push({ code: 'E_CONTENT_TOO_LARGE', message, pointer: '/attachments' });
  }
  return violations;
}

function ownFields(body: JsonObject, boxes: Addresses['boxes']): HeaderField[] {
  const fields: HeaderField[] = [];
  const add = (name: string, pointer: string, text: string): void => {
    fields.push({ name, rawBytes: Buffer.from(text), pointer });
  };
  for (const [field, name] of [
    ['from', 'From'],
    ['to', 'To'],
    ['cc', 'Cc'],
    ['reply_to', 'Reply-To'],
  ] as const) {
    if (boxes[field].length > 0) add(name, `/${field}`, writeAddresses(boxes[field]));
  }
  const { subject } = body;
  if (typeof subject === 'string' && !control.test(subject.replaceAll('\t', ' '))) add('Subject', '/subject', subject);
  return fields;
}

function partsOf(
  body: JsonObject,
  attachments: Extract<SubmissionBody, { kind: 'parts' }>['attachments'],
): SubmissionBody {
  const text = stringOf(body['text']);
  const html = stringOf(body['html']);
  return {
    kind: 'parts',
    attachments,
    ...(text === undefined ? {} : { text }),
    ...(html === undefined ? {} : { html }),
  };
}

/** Reads a request of `send` (D43). */
export function readSend(document: JsonDocument, size: number, context: ReadContext): ReadRequest {
  const body = isJsonObject(document.value) ? document.value : noFields;
  const { boxes, violations, recipients } = readAllAddresses(body, context);
  const { attachments, violations: ofAttachments, octets } = readAttachments(body['attachments'], document.decoded);
  const [sender] = boxes.from;
  const receivers = [...boxes.to, ...boxes.cc, ...boxes.bcc];
  const faults = [
    ...documentFaults(document).filter((fault) => !ofHeaders(fault)),
    ...judge(judgeSend, document.value).filter((fault) => !isJudgedElsewhere(fault)),
    ...[
      ...violations,
      ...subjectViolations(body['subject'], context.limits),
      ...ofAttachments,
      ...contentViolations(body, context.limits, octets),
      ...suppressedOf(receivers, context),
    ].map(faultOf),
  ];
  const addresses = new Set(receivers.map(({ address }) => address));
  const submission: Submission = {
    via: viaOf('rest', context),
    submitter: context.submitter,
    envelope: {
      reversePath: sender?.address ?? '',
      recipients: [...addresses],
      smtputf8: ![sender?.address ?? '', ...addresses].every(isAscii),
      requireTls: false,
    },
    fields: [...ownFields(body, boxes), ...customHeaders(document.kept)],
    body: partsOf(body, attachments),
    size,
    composedBytesLimit: context.limits.messageBytes,
  };
  return { submission, faults, recipients };
}
