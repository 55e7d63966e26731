// A message that a program describes by its fields, and the request body of `send` that is made of it: names are translated,
// bytes written in base64, and nothing is judged (D43, D49). The server judges, so that a message gets the same verdict by REST
// and SMTP (D1).

import { type Bytes, base64, isBytes } from './bytes.ts';
import { EmailError, type EmailViolation } from './email-error.ts';

/** One address: `a@example.com`, `Name <a@example.com>`, or its parts. */
export type EmailAddress =
  | string
  | { readonly address: string; readonly name?: string | null | undefined }
  | { readonly email: string; readonly name?: string | null | undefined };

/** One address or several. */
export type EmailAddresses = EmailAddress | readonly EmailAddress[];

/** A file that is sent with the message. */
export interface EmailAttachment {
  /** The file's bytes; a string is taken as base64 and sent as it is. */
  readonly content: string | Bytes;
  readonly filename?: string | null | undefined;
  /** Media type, such as `application/pdf`. */
  readonly type?: string | null | undefined;
  /** `inline` is for images that the HTML names by `cid:`. */
  readonly disposition?: 'attachment' | 'inline' | null | undefined;
  /** The text that stands behind `cid:` in the HTML, without angle brackets. */
  readonly contentId?: string | null | undefined;
  /** Another spelling of `contentId`. */
  readonly content_id?: string | null | undefined;
}

/**
 * Custom headers: an object, or pairs of name and value (an array, a Map), which keep their order and may repeat. An
 * object's names come in JavaScript's order, whole numbers first.
 */
export type EmailHeaders = Readonly<Record<string, string>> | Iterable<readonly [string, string]>;

/** A message to send, described by its fields; Postern composes it. `text` or `html` is needed, or both. */
export interface MessageFields {
  readonly from: EmailAddress;
  readonly to: EmailAddresses;
  readonly cc?: EmailAddresses | null | undefined;
  readonly bcc?: EmailAddresses | null | undefined;
  readonly replyTo?: EmailAddresses | null | undefined;
  readonly subject: string;
  readonly html?: string | null | undefined;
  readonly text?: string | null | undefined;
  readonly headers?: EmailHeaders | null | undefined;
  readonly attachments?: readonly EmailAttachment[] | null | undefined;
}

type Members = Readonly<Record<string, unknown>>;

function isObject(value: unknown): value is Members {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isGiven(value: Members, name: string): boolean {
  return Object.hasOwn(value, name) && value[name] !== undefined && value[name] !== null;
}

/**
 * Renames one member. All others, and the order, stay as they are: the server names the members that it does not know. Where
 * both spellings are there, the one whose value is undefined or null counts as absent.
 */
function renamed(value: Members, from: string, to: string): Members {
  if (!Object.hasOwn(value, from) || (isGiven(value, from) && isGiven(value, to))) return value;
  const left = isGiven(value, to) ? from : to;
  const members = Object.entries(value).filter(([name]) => name !== left);
  return Object.fromEntries(members.map(([name, member]) => [name === from ? to : name, member]));
}

function writeAddress(value: unknown): unknown {
  return isObject(value) ? renamed(value, 'email', 'address') : value;
}

function writeAddresses(value: unknown): unknown {
  return Array.isArray(value) ? value.map(writeAddress) : writeAddress(value);
}

function writeAttachment(value: unknown): unknown {
  if (!isObject(value)) return value;
  const { content } = value;
  return renamed(isBytes(content) ? { ...value, content: base64(content) } : value, 'contentId', 'content_id');
}

function attachmentFaults(attachments: unknown): readonly EmailViolation[] {
  if (!Array.isArray(attachments)) return [];
  return attachments.flatMap((value: unknown, index): EmailViolation[] => {
    const content = isObject(value) ? value['content'] : undefined;
    // JSON would turn such a content into something else without a word: a Blob or a Promise into {}.
    if (content === undefined || content === null || typeof content !== 'object' || isBytes(content)) return [];
    const message = 'An attachment’s content must be a Uint8Array, an ArrayBuffer or a string of base64';
    return [{ code: 'E_VALIDATION_ERROR', message, pointer: `/attachments/${index}/content` }];
  });
}

function isPairs(headers: object): headers is Iterable<readonly [string | number, unknown]> {
  return Symbol.iterator in headers;
}

/** Writes headers in their order, with repeated names. A value that JSON lacks becomes null, which the server refuses. */
function writeHeaders(headers: unknown): string | undefined {
  if (typeof headers !== 'object' || headers === null) return JSON.stringify(headers);
  const pairs = isPairs(headers) ? [...headers] : Object.entries(headers);
  const members = pairs.map(([name, value]) => `${JSON.stringify(String(name))}:${JSON.stringify(value) ?? 'null'}`);
  return `{${members.join(',')}}`;
}

const writers: Readonly<Record<string, (value: unknown) => string | undefined>> = {
  from: (value) => JSON.stringify(writeAddress(value)),
  to: (value) => JSON.stringify(writeAddresses(value)),
  cc: (value) => JSON.stringify(writeAddresses(value)),
  bcc: (value) => JSON.stringify(writeAddresses(value)),
  reply_to: (value) => JSON.stringify(writeAddresses(value)),
  attachments: (value) => JSON.stringify(Array.isArray(value) ? value.map(writeAttachment) : value),
  headers: writeHeaders,
};

/** Fields of the server that a message need not have: null in one is the same as leaving it out (D5). */
const optional: ReadonlySet<string> = new Set(['cc', 'bcc', 'reply_to', 'html', 'text', 'headers', 'attachments']);

/**
 * Writes the request body as JSON, with the members in the order of the object. Members that are undefined are left out, and
 * so are optional ones that are null. Unknown members are sent too, so that the server names them.
 * @throws EmailError when an attachment's content is nothing that can be sent
 */
export function writeMessageFields(message: MessageFields): string {
  const [fault, ...more] = attachmentFaults(message.attachments);
  if (fault) throw new EmailError([fault, ...more]);
  const members: string[] = [];
  for (const [given, value] of Object.entries(message)) {
    const name = given === 'replyTo' ? 'reply_to' : given;
    if (value === null && optional.has(name)) continue;
    const writer = Object.hasOwn(writers, name) ? writers[name] : undefined;
    const json = writer ? writer(value) : JSON.stringify(value);
    if (json !== undefined) members.push(`${JSON.stringify(name)}:${json}`);
  }
  return `{${members.join(',')}}`;
}
