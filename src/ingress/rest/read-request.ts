// A request's JSON made into a Submission: schema, fields, recipients, limits; every fault is collected, none ends the
// reading, so that headers are judged too (D42b, D43, D46).

import type { ValidateFunction } from 'ajv';
import type { Account, Submitter } from '../../accounts/account.ts';
import type { Fault } from '../../http/envelope.ts';
import { isJsonObject, type JsonDocument, type JsonObject, type JsonValue } from '../../http/json-reader.ts';
import { documentFaults } from '../../http/request-body.ts';
import { createCompiler } from '../../http/schema-compiler.ts';
import { schemaFaults } from '../../http/schema-faults.ts';
import type { HeaderField } from '../../mail/header-field.ts';
import { readMessage } from '../../mail/header-reader.ts';
import type { Submission, SubmissionBody, Via, Violation } from '../../submit.ts';
import { type ApiMailbox, readAddresses, readPathAddress, writeAddresses } from './addresses.ts';
import { readAttachments } from './attachments.ts';
import { customHeaders } from './custom-headers.ts';
import { SendRawRequest, SendRequest } from './schemas.ts';
import type { RestLimits } from './settings.ts';

/** A request as read: what would be submitted, and what its fields alone are refused for. */
export interface ReadRequest {
  readonly submission: Submission;
  /** In the order of the answer; empty means that only the policy can still refuse it. */
  readonly faults: readonly Fault[];
  /** Recipients as given, for `validate`. */
  readonly recipients: number;
}

/** What reading needs besides the request. */
export interface ReadContext {
  readonly submitter: Submitter;
  readonly limits: RestLimits;
  /** The Ray-ID: one id from the request to delivery. */
  readonly sessionId: string;
  readonly remoteAddress: string;
  /** Whether the account's suppression list holds a recipient (D51). */
  readonly suppressed: (account: Account, recipient: string) => boolean;
}

const compile = createCompiler();
const judgeSend = compile(SendRequest);
const judgeSendRaw = compile(SendRawRequest);

const addressFields = ['from', 'to', 'cc', 'bcc', 'reply_to'] as const;
type AddressField = (typeof addressFields)[number];

const control = /[\p{Cc}\u2028\u2029]/u;

function judge(validate: ValidateFunction, value: JsonValue): Fault[] {
  return validate(value) ? [] : schemaFaults(validate.errors ?? [], 'body');
}

/** Under a field of addresses and in `headers` others judge: the readers of addresses, the policy. */
function isJudgedElsewhere({ pointer = '', ...fault }: Fault): boolean {
  if ('token' in fault && fault.token === 'E_FIELD_MISSING') return false;
  return addressFields.some((field) => pointer === `/${field}` || pointer.startsWith(`/${field}/`));
}

function ofHeaders({ pointer = '' }: Fault): boolean {
  return pointer.startsWith('/headers/');
}

function faultOf({ code, message, pointer }: Violation): Fault {
  return { token: code, message, ...(pointer === undefined ? {} : { pointer }) };
}

/** Where in the body a violation of the policy stands that names no place. */
function placeOf({ via }: Submission, { code, name, retryAfterSeconds }: Violation): string | undefined {
  if (retryAfterSeconds !== undefined || code === 'E_CONTENT_TOO_LARGE') return undefined;
  if (code === 'E_SENDER_NOT_VERIFIED' && name === undefined) return '/from';
  if (via.kind === 'raw') return '/mime_message';
  return code === 'E_HEADERS_TOO_MANY' || code === 'E_HEADERS_TOO_LARGE' ? '/headers' : undefined;
}

function isSize(fault: Fault): boolean {
  return 'token' in fault && fault.token === 'E_CONTENT_TOO_LARGE';
}

/** The faults of the fields, then what the policy has against the rest, each once (D42b). */
export function mergeFaults(
  submission: Submission,
  ofFields: readonly Fault[],
  violations: readonly Violation[],
): readonly Fault[] {
  const isUnread = ofFields.some((fault) => fault.pointer === '/mime_message' && !isSize(fault));
  // A sender that cannot be read is no sender for the policy: said once is enough.
  const fromIsTold = ofFields.some(({ pointer = '' }) => pointer === '/from' || pointer.startsWith('/from/'));
  const more = violations.flatMap((violation) => {
    const pointer = violation.pointer ?? placeOf(submission, violation);
    if (pointer === '/from' && fromIsTold) return [];
    if (isUnread && pointer === '/mime_message') return [];
    return [faultOf(pointer === undefined ? violation : { ...violation, pointer })];
  });
  return [...ofFields, ...more];
}

function viaOf(kind: 'rest' | 'raw', { submitter, sessionId, remoteAddress }: ReadContext): Via {
  const { legacyCharset, trustedHop } = submitter.credential;
  return {
    kind,
    sessionId,
    remoteAddress,
    protocol: 'HTTP',
    legacyCharset: legacyCharset ?? 'windows-1252',
    trustedHop: kind === 'raw' && trustedHop,
    lineEndings: 'fix',
  };
}

function isAscii(text: string): boolean {
  return !/[^\x00-\x7f]/.test(text);
}

const noFields: JsonObject = {};

interface Addresses {
  readonly boxes: Readonly<Record<AddressField, readonly ApiMailbox[]>>;
  readonly violations: readonly Violation[];
  /** Entries of to, cc and bcc, readable or not. */
  readonly recipients: number;
}

function countOf(value: JsonValue | undefined): number {
  return value === undefined ? 0 : Array.isArray(value) ? value.length : 1;
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

function suppressedOf(boxes: readonly ApiMailbox[], { submitter, suppressed }: ReadContext): Violation[] {
  return boxes
    .filter(({ address }) => suppressed(submitter.account, address))
    .map(({ address, pointer }) => {
      const message = `${address} is on the suppression list of account ${submitter.account.name}`;
      return { code: 'E_RECIPIENT_SUPPRESSED', message, pointer };
    });
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

function stringOf(value: JsonValue | undefined): string | undefined {
  return typeof value === 'string' ? value : undefined;
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

interface RawEnvelope {
  readonly reversePath: string;
  readonly recipients: readonly ApiMailbox[];
  readonly violations: readonly Violation[];
}

function readEnvelope(body: JsonObject, { submitter, limits }: ReadContext): RawEnvelope {
  const { defaultDomain } = submitter.credential;
  const violations: Violation[] = [];
  const recipients: ApiMailbox[] = [];
  const read = (value: JsonValue | undefined, pointer: string): string | undefined => {
    if (typeof value !== 'string') return undefined;
    const found = readPathAddress(value, defaultDomain);
    if ('address' in found) return found.address;
    const message = `${pointer.slice(1).replaceAll('/', '.')} ${found.reason}`;
    violations.push({ code: 'E_VALIDATION_ERROR', message, pointer });
    return undefined;
  };
  const { from } = body;
  // D50: the null reverse-path is anyone's.
  const reversePath = from === '' || from === '<>' ? '' : (read(from, '/from') ?? '');
  const given = Array.isArray(body['recipients']) ? body['recipients'] : [];
  given.forEach((recipient, index) => {
    const pointer = `/recipients/${index}`;
    const address = read(recipient, pointer);
    if (address !== undefined) recipients.push({ address, pointer });
  });
  if (Array.isArray(body['recipients']) && given.length === 0) {
    violations.push({ code: 'E_FIELD_MISSING', message: '"recipients" holds no address', pointer: '/recipients' });
  }
  if (given.length > limits.recipients) {
    const message = `There are ${given.length} recipients, at most ${limits.recipients} are allowed`;
    violations.push({ code: 'E_TOO_MANY_RECIPIENTS', message, pointer: '/recipients' });
  }
  return { reversePath, recipients, violations };
}

/** Reads a request of `send_raw`: what SMTP would have brought (D46). */
export function readSendRaw(document: JsonDocument, context: ReadContext): ReadRequest {
  const body = isJsonObject(document.value) ? document.value : noFields;
  const { reversePath, recipients, violations } = readEnvelope(body, context);
  const octets = Buffer.from(stringOf(body['mime_message']) ?? '');
  const { fields, body: bytes, tooLarge } = readMessage(octets);
  const { messageBytes } = context.limits;
  const size: Violation[] =
    octets.length > messageBytes
      ? [
          {
            code: 'E_CONTENT_TOO_LARGE',
            message: `The message has ${octets.length} octets, at most ${messageBytes} are allowed`,
            pointer: '/mime_message',
          },
        ]
      : [];
  const addresses = new Set(recipients.map(({ address }) => address));
  return {
    submission: {
      via: viaOf('raw', context),
      submitter: context.submitter,
      envelope: {
        reversePath,
        recipients: [...addresses],
        smtputf8: ![reversePath, ...addresses].every(isAscii),
        requireTls: false,
      },
      fields,
      ...(tooLarge ? { headerSectionTooLarge: true } : {}),
      body: { kind: 'mime', bytes },
      size: octets.length,
    },
    faults: [
      ...documentFaults(document),
      ...judge(judgeSendRaw, document.value),
      ...[...violations, ...suppressedOf(recipients, context), ...size].map(faultOf),
    ],
    recipients: countOf(body['recipients']),
  };
}
