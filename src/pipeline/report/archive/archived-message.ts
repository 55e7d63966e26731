// Restores an archived message to what its mailer sent, as far as what was written into it is recognised.

import { isUtf8 } from 'node:buffer';
import { type HeaderField, type ReadMessage, readMessage } from '../../../mail/header/header-reader.ts';
import type { ArchiveEntry } from './archive-files.ts';

/** One message as it was sent, as far as the archive tells. */
export interface ArchivedMessage extends ReadMessage {
  /** The file, with the number of the message behind it where it is an mbox. */
  readonly name: string;
  /** Octets with line ends of CRLF, as it would be sent; of a message too large to be kept, its octets in the archive. */
  readonly size: number;
  /** The reverse-path: of Return-Path, or '' of an mbox whose `From ` line names MAILER-DAEMON; else undefined. */
  readonly senderPath?: string | undefined;
  /** The time of its Date field, milliseconds since 1970. */
  readonly date?: number;
  readonly setAside: number;
  /** The character set of its header's raw 8-bit text, in lower case, where that is not UTF-8 and the message tells. */
  readonly charset?: string | undefined;
}

/** Fields that programs which keep mbox files write into messages. */
const mailboxFields = /^(?:status|x-status|x-keywords|x-uid|x-imap|x-imapbase|x-mozilla-.*|content-length|lines)$/i;
/** Fields that servers write above a message during transport and at delivery. */
const traceFields =
  /^(?:return-path|delivered-to|x-original-to|x-envelope-(?:from|to)|envelope-to|delivery-date|received|received-spf|authentication-results|arc-.*|dkim-signature|x-spam-.*)$/i;

/** Files at rest have the line ends of their system; a bare CR stays what it is. */
function withCrlf(octets: Buffer): Buffer {
  if (!octets.includes('\n')) return octets;
  return Buffer.from(octets.toString('latin1').replace(/\r?\n/g, '\r\n'), 'latin1');
}

function textOf({ rawBytes }: HeaderField): string {
  return rawBytes
    .toString('latin1')
    .replace(/[\r\n]/g, '')
    .trim();
}

function find(fields: readonly HeaderField[], name: string): HeaderField | undefined {
  return fields.find((field) => field.name.toLowerCase() === name);
}

/** How many fields at the top are of transport and delivery: Return-Path (RFC 5321 §4.4), and the trace fields below it. */
function deliveryFields(fields: readonly HeaderField[]): number {
  if (fields[0]?.name.toLowerCase() !== 'return-path') return 0;
  const first = fields.findIndex(({ name }) => !traceFields.test(name));
  return first < 0 ? fields.length : first;
}

/** Charsets that reading as windows-1252 covers, and names that are no charset for 8-bit text. */
const readAnyway = /^(?:us-ascii|ascii|utf-?8|windows-1252|cp1252|iso-8859-1|latin1)$/;

function headerCharset(fields: readonly HeaderField[]): string | undefined {
  const raw = fields.filter(({ rawBytes }) => rawBytes.some((octet) => octet > 0x7f) && !isUtf8(rawBytes));
  const type = raw.length === 0 ? undefined : find(fields, 'content-type');
  const charset = type && /;\s*charset\s*=\s*"?([A-Za-z0-9._:-]{1,40})/i.exec(textOf(type))?.[1]?.toLowerCase();
  return charset === undefined || readAnyway.test(charset) ? undefined : charset;
}

function senderPathOf(returnPath: HeaderField | undefined, sender = ''): string | undefined {
  const path = returnPath && /^<([^<>]*)>/.exec(textOf(returnPath))?.[1];
  return path ?? (/^MAILER-DAEMON(?:@|$)/i.test(sender) ? '' : undefined);
}

/** Restores a message of an archive, and tells what is known of it. */
export function archivedMessage(entry: Extract<ArchiveEntry, { readonly kind: 'message' }>): ArchivedMessage {
  const { sender } = entry;
  const octets = withCrlf(entry.octets);
  const isWhole = entry.octets.length === entry.size;
  const { fields: all, body, tooLarge } = readMessage(octets);
  const ofDelivery = deliveryFields(all);
  const fields = all.slice(ofDelivery).filter(({ name }) => sender === undefined || !mailboxFields.test(name));
  const date = Date.parse(textOf(find(fields, 'date') ?? { name: '', rawBytes: Buffer.alloc(0) }));
  const charset = headerCharset(fields);
  return {
    name: entry.name,
    fields,
    tooLarge,
    body: isWhole ? body : Buffer.alloc(0),
    size: isWhole ? octets.length : entry.size,
    senderPath: senderPathOf(ofDelivery > 0 ? all[0] : undefined, sender),
    ...(Number.isNaN(date) ? {} : { date }),
    setAside: all.length - fields.length,
    charset,
  };
}
