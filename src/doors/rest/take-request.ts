// How the endpoints take the body of a message: the door judges it itself, and it is in memory only once.

import type { FastifyRequest } from 'fastify';
import type { Scope } from '../../accounts/account.ts';
import { yieldToEventLoop } from '../../base/yield-to-event-loop.ts';
import {
  type HeaderField,
  MAX_HEADER_FIELDS,
  MAX_HEADER_SECTION_BYTES,
  readMessage,
} from '../../mail/header/header-reader.ts';
import type { Submission, Violation } from '../../pipeline/submit.ts';
import type { Fault } from '../../web/http/envelope.ts';
import { pointerStep } from '../../web/http/json/cut-text.ts';
import {
  anyIndex,
  emptyDocument,
  isJsonObject,
  type JsonDocument,
  type JsonEntry,
  type JsonObject,
  type JsonValue,
} from '../../web/http/json/json-reader.ts';
import { compileJudge, documentFaults } from '../../web/http/schema-faults.ts';
import { submitterOf } from '../../web/http/v4-app.ts';
import { type ApiMailbox, readAddresses, readPathAddress, sizeOfAddresses, writeAddresses } from './addresses.ts';
import { faultOf, invalid } from './faults.ts';
import { readContent, subjectViolations } from './read-content.ts';
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
import { SendRawRequest, SendRequest } from './schemas.ts';
import type { RestLimits } from './settings.ts';

const noOctets = Buffer.alloc(0);

const judgeSendRaw = compileJudge(SendRawRequest);

/** So many entries of `recipients` are read even where the limit is lower, so that faults beyond the limit are told too. */
const mostRecipientsRead = 2000;

function readEnvelope(body: JsonObject, { submitter, limits }: ReadContext) {
  const { defaultDomain } = submitter.credential;
  const violations: Violation[] = [];
  const recipients: ApiMailbox[] = [];
  const read = (value: JsonValue | undefined, pointer: string): string | undefined => {
    if (typeof value !== 'string') return undefined;
    const found = readPathAddress(value, defaultDomain);
    if (typeof found === 'string') return found;
    violations.push(invalid(pointer, found.reason));
    return undefined;
  };
  const { from } = body;
  // D50: any sender may use the null reverse-path.
  const reversePath = from === '' || from === '<>' ? '' : (read(from, '/from') ?? '');
  const given = Array.isArray(body['recipients']) ? body['recipients'] : [];
  // A list with too many recipients is refused anyway, so its end is not read.
  const most = Math.max(mostRecipientsRead, limits.recipients);
  given.slice(0, most).forEach((recipient, index) => {
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

/** Octets that are converted before others get a turn. */
const sliceOctets = 65_536;

/** Gives the message as SMTP would bring it (D46): without any CRLF each LF becomes one, else a bare LF or CR stays (D11). */
async function asSentBySmtp(octets: Buffer): Promise<Buffer> {
  if (octets.includes('\r\n') || !octets.includes('\n')) return octets;
  const pieces: Buffer[] = [];
  for (let start = 0; start < octets.length; start += sliceOctets) {
    if (start > 0) await yieldToEventLoop();
    const text = octets.toString('latin1', start, start + sliceOctets);
    pieces.push(Buffer.from(text.replaceAll('\n', '\r\n'), 'latin1'));
  }
  return pieces.length === 1 ? (pieces[0] ?? octets) : Buffer.concat(pieces);
}

/** Reads a request of `send_raw` as the message and envelope that SMTP would have brought (D46). */
export async function readSendRaw(document: JsonDocument, context: ReadContext): Promise<ReadRequest> {
  const ofSchema = await judge(judgeSendRaw, document.value);
  const body = isJsonObject(document.value) ? document.value : noFields;
  const { reversePath, recipients, violations } = readEnvelope(body, context);
  const octets = await asSentBySmtp(Buffer.from(stringOf(body['mime_message']) ?? ''));
  const { fields, body: bytes, tooLarge } = readMessage(octets);
  const { messageBytes } = context.limits;
  const message = `The message has ${octets.length} octets, at most ${messageBytes} are allowed`;
  const size: Violation[] = [];
  if (octets.length > messageBytes) size.push({ code: 'E_CONTENT_TOO_LARGE', message, pointer: '/mime_message' });
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
      observe: context.submitter.credential.observe,
      // A message that is too large is not looked into.
      body: { kind: 'mime', bytes: size.length > 0 ? noOctets : bytes },
      size: octets.length,
      ...(size.length > 0 ? {} : { octets }),
    },
    faults: [
      ...documentFaults(document),
      ...ofSchema,
      ...[...violations, ...(await suppressedOf(recipients, context)), ...size].map(faultOf),
    ],
    recipients: countOf(body['recipients']),
  };
}

const judgeSend = compileJudge(SendRequest);

const addressFields = ['from', 'to', 'cc', 'bcc', 'reply_to'] as const;
type AddressField = (typeof addressFields)[number];

/** Whether others judge a fault's place: the readers of addresses judge the fields of addresses, the policy judges `headers`. */
function isJudgedElsewhere({ pointer = '', ...fault }: Fault): boolean {
  if ('token' in fault && fault.token === 'E_FIELD_MISSING') return false;
  return addressFields.some((field) => pointer === `/${field}` || pointer.startsWith(`/${field}/`));
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

/** Makes header fields of the entries of `headers`, in the order of the text, with repeated names, unjudged (D1, D5). */
function customHeaders(entries: readonly JsonEntry[]): readonly HeaderField[] {
  return entries.map(({ name, value }): HeaderField => {
    const pointer = `/headers${pointerStep(name)}`;
    if (typeof value !== 'string') return { name, rawBytes: noOctets, pointer, fault: 'not-a-string' };
    const fault = value.isWellFormed() ? {} : ({ fault: 'lone-surrogate' } as const);
    return { name, rawBytes: Buffer.from(value), pointer, ...fault };
  });
}

/** Whether header fields are more, or larger, than SMTP reads of a header: then neither REST nor SMTP judges any of them (D1). */
function areTooLarge(fields: readonly HeaderField[]): boolean {
  if (fields.length > MAX_HEADER_FIELDS) return true;
  const octets = fields.reduce((sum, { name, rawBytes }) => sum + Buffer.byteLength(name) + rawBytes.length + 4, 0);
  return octets > MAX_HEADER_SECTION_BYTES;
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
    ...documentFaults(document).filter(({ pointer = '' }) => !pointer.startsWith('/headers/')),
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

/** The two forms of a body. */
export type BodyKind = 'send' | 'send_raw';

/** The options of an endpoint that takes a message. Headers are judged whatever else is wrong with the body (D42b). */
export function messageOptions({ requestBytes }: RestLimits, scope: Scope | readonly Scope[]) {
  const config = {
    scope,
    bodyBytes: requestBytes,
    ownBodyFaults: true,
    keepMembers: 'headers',
    base64: ['attachments', anyIndex, 'content'],
    digestBody: true,
  } as const;
  return { config, validatorCompiler: () => () => true };
}

/** Tells the form of a body by its members. */
export function kindOf(document: JsonDocument | undefined): BodyKind {
  const value = document?.value;
  return typeof value === 'object' && value !== null && 'mime_message' in value ? 'send_raw' : 'send';
}

/** Reads the request and lets go of its JSON, so that its content is in memory only once from here on. */
export async function takeRequest(
  { limits, suppressed = () => false }: Pick<ReadContext, 'limits'> & Partial<Pick<ReadContext, 'suppressed'>>,
  request: FastifyRequest,
  kind: BodyKind,
): Promise<ReadRequest> {
  const { document = emptyDocument, bodyOctets } = request;
  request.body = undefined;
  request.document = undefined;
  const context = {
    submitter: submitterOf(request),
    limits,
    sessionId: request.id,
    remoteAddress: request.ip.replace(/^::ffff:(?=[0-9.]+$)/, ''),
    suppressed,
  };
  return kind === 'send' ? await readSend(document, bodyOctets, context) : await readSendRaw(document, context);
}
