// Makes a Submission of a request of send: judges schema, fields, recipients and limits (D42, D43). All faults are collected and
// none ends the reading, so that headers are judged too (D42b).

import { yieldToEventLoop } from '../../base/yield-to-event-loop.ts';
import type { HeaderField } from '../../mail/header/header-field.ts';
import { MAX_HEADER_FIELDS, MAX_HEADER_SECTION_BYTES } from '../../mail/header/header-reader.ts';
import type { Submission, Violation } from '../../pipeline/submit.ts';
import type { Fault } from '../../web/http/envelope.ts';
import { pointerStep } from '../../web/http/json/cut-text.ts';
import {
  isJsonObject,
  type JsonDocument,
  type JsonEntry,
  type JsonObject,
  type JsonValue,
} from '../../web/http/json/json-reader.ts';
import { compileJudge, documentFaults } from '../../web/http/schema-faults.ts';
import { type ApiMailbox, readAddresses, sizeOfAddresses, writeAddresses } from './addresses.ts';
import { invalid } from './invalid.ts';
import { faultOf } from './merge-faults.ts';
import { readContent, subjectViolations } from './read-content.ts';
import {
  areTooLarge,
  countOf,
  isAscii,
  judge,
  noFields,
  type ReadContext,
  type ReadRequest,
  suppressedOf,
  viaOf,
} from './read-request.ts';
import { SendRequest } from './schemas.ts';
import type { RestLimits } from './settings.ts';

const judgeSend = compileJudge(SendRequest);

const addressFields = ['from', 'to', 'cc', 'bcc', 'reply_to'] as const;
type AddressField = (typeof addressFields)[number];

/** Whether others judge a fault's place: the readers of addresses judge the fields of addresses, the policy judges `headers`. */
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

/** How much is read of all fields of addresses together. No message needs more, and reading it would keep others waiting. */
const mostAddresses = { entries: MAX_HEADER_FIELDS, characters: MAX_HEADER_SECTION_BYTES } as const;

/** Makes a function that says whether a field can still be read, or why it cannot. */
function createAddressRoom({ recipients }: RestLimits): (field: string, value: JsonValue | undefined) => Violation[] {
  const entries = Math.max(mostAddresses.entries, recipients);
  const characters = mostAddresses.characters * Math.ceil(entries / mostAddresses.entries);
  let leftEntries = entries;
  let leftCharacters = characters;
  return (field, value) => {
    const size = sizeOfAddresses(value);
    if (size.entries <= leftEntries && (size.entries < 2 || size.characters <= leftCharacters)) {
      leftEntries -= size.entries;
      leftCharacters -= size.characters;
      return [];
    }
    const reason = `holds ${size.entries} addresses of ${size.characters} characters; of all fields together ${entries} addresses of ${characters} characters are read`;
    return [invalid(`/${field}`, reason)];
  };
}

function readAllAddresses(body: JsonObject, { submitter, limits }: ReadContext): Addresses {
  const { defaultDomain } = submitter.credential;
  const roomFor = createAddressRoom(limits);
  const violations: Violation[] = [];
  const boxes = { from: [], to: [], cc: [], bcc: [], reply_to: [] } as Record<AddressField, readonly ApiMailbox[]>;
  let recipients = 0;
  for (const field of addressFields) {
    const value = body[field];
    const over = roomFor(field, value);
    const read = over.length > 0 ? { mailboxes: [], violations: over } : readAddresses(value, field, defaultDomain);
    boxes[field] = read.mailboxes;
    for (const violation of read.violations) violations.push(violation);
    const pointer = `/${field}`;
    if ((field === 'from' || field === 'to') && value !== undefined && countOf(value) === 0) {
      violations.push({ code: 'E_FIELD_MISSING', message: `"${field}" holds no address`, pointer });
    }
    if (field === 'from' && countOf(value) > 1) {
      violations.push(invalid(pointer, `must be one address, got ${countOf(value)}`));
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

/** The message's own fields; the subject only where it can be written as one. */
function ownFields(body: JsonObject, boxes: Addresses['boxes'], canBeWritten: boolean): HeaderField[] {
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
  if (typeof subject === 'string' && canBeWritten) add('Subject', '/subject', subject);
  return fields;
}

const none = Buffer.alloc(0);

/** Makes header fields of the entries of `headers`, in the order of the text, with repeated names, unjudged (D1, D5). */
function customHeaders(entries: readonly JsonEntry[]): readonly HeaderField[] {
  return entries.map(({ name, value }): HeaderField => {
    const pointer = `/headers${pointerStep(name)}`;
    if (typeof value !== 'string') return { name, rawBytes: none, pointer, fault: 'not-a-string' };
    const fault = value.isWellFormed() ? {} : ({ fault: 'lone-surrogate' } as const);
    return { name, rawBytes: Buffer.from(value), pointer, ...fault };
  });
}

/** Reads a request of `send` (D43); between schema, addresses and content others get a turn. */
export async function readSend(document: JsonDocument, size: number, context: ReadContext): Promise<ReadRequest> {
  // This is the first step because it takes out the fields that are null (D5).
  const ofSchema = (await judge(judgeSend, document.value)).filter((fault) => !isJudgedElsewhere(fault));
  await yieldToEventLoop();
  const body = isJsonObject(document.value) ? document.value : noFields;
  const { limits } = context;
  const { boxes, violations, recipients } = readAllAddresses(body, context);
  await yieldToEventLoop();
  const ofSubject = subjectViolations(body['subject'], limits);
  const content = readContent(body, document.decoded, limits);
  const [sender] = boxes.from;
  const receivers = [...boxes.to, ...boxes.cc, ...boxes.bcc];
  const faults = [
    ...documentFaults(document).filter((fault) => !ofHeaders(fault)),
    ...ofSchema,
    ...[...violations, ...ofSubject, ...content.violations, ...(await suppressedOf(receivers, context))].map(faultOf),
  ];
  const addresses = new Set(receivers.map(({ address }) => address));
  const fields = [...ownFields(body, boxes, ofSubject.length === 0), ...customHeaders(document.kept)];
  const submission: Submission = {
    via: viaOf('rest', context),
    submitter: context.submitter,
    envelope: {
      reversePath: sender?.address ?? '',
      recipients: [...addresses],
      smtputf8: ![sender?.address ?? '', ...addresses].every(isAscii),
      requireTls: false,
    },
    ...(areTooLarge(fields) ? { fields: [], headerSectionTooLarge: true } : { fields }),
    body: content.body,
    size,
    composedBytesLimit: limits.messageBytes,
  };
  return { submission, faults, recipients };
}
