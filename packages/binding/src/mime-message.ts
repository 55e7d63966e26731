// A finished MIME message with its envelope, and the request body of `send_raw` that is made of it (D46, D49).

import { type Bytes, isBytes, octetsOf } from './bytes.ts';
import { EmailError } from './email-error.ts';
import type { EmailAddress, EmailAddresses } from './message-fields.ts';

/** A finished message. `from` and `to` are the envelope, as of MAIL FROM and RCPT TO; header fields add no recipient. */
export interface MimeMessage {
  /** The reverse-path. Of an object only its address is taken; the empty string is the null reverse-path. */
  readonly from: EmailAddress;
  /** One recipient or several. Of an object only its address is taken. */
  readonly to: EmailAddresses;
  /** Header section and body, lines ending with CRLF; a message without any CRLF may end them with LF. Bytes are UTF-8. */
  readonly raw: string | Bytes;
}

/** A finished message as an object of a class, for programs that construct one; `send` takes it like any other. */
export class EmailMessage implements MimeMessage {
  readonly from: EmailAddress;
  readonly to: EmailAddresses;
  readonly raw: string | Bytes;

  /**
   * @param from the reverse-path
   * @param to one recipient or several
   * @param raw header section and body
   */
  constructor(from: EmailAddress, to: EmailAddresses, raw: string | Bytes) {
    this.from = from;
    this.to = to;
    this.raw = raw;
  }
}

/** Whether a message is a finished one, which has `raw`, and not one described by its fields. */
export function isMimeMessage(message: object): message is MimeMessage {
  return 'raw' in message && message.raw !== undefined && message.raw !== null;
}

function invalidRaw(message: string, cause?: unknown): EmailError {
  return new EmailError([{ code: 'E_VALIDATION_ERROR', message, pointer: '/raw' }], { cause });
}

/** Reads `raw` as text. JSON carries only text, so bytes must be UTF-8; a byte order mark is kept. */
function textOf(raw: unknown): string {
  if (typeof raw === 'string') return raw;
  if (!isBytes(raw)) throw invalidRaw('raw must be a string, a Uint8Array or an ArrayBuffer');
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(octetsOf(raw));
  } catch (cause) {
    throw invalidRaw('raw must be UTF-8: write what is not in quoted-printable or base64', cause);
  }
}

function addressOf(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if ('address' in value && value.address !== undefined && value.address !== null) return value.address;
  return 'email' in value ? value.email : value;
}

const own: ReadonlySet<string> = new Set(['from', 'to', 'raw']);

/**
 * Writes the request body. Members that a finished message does not have are sent too, so that the server names them; it refuses
 * one that comes twice, such as `recipients` beside `to`. Members that are undefined or null are left out.
 * @throws EmailError when `raw` is neither a string nor UTF-8
 */
export function writeMimeMessage(message: MimeMessage): string {
  const { from, to, raw } = message;
  const members: readonly (readonly [name: string, value: unknown])[] = [
    ['from', addressOf(from)],
    ['recipients', to === undefined ? undefined : [to].flat().map(addressOf)],
    ['mime_message', textOf(raw)],
    ...Object.entries(message).filter(([name, value]) => !own.has(name) && value !== null),
  ];
  const written = members.flatMap(([name, value]) => {
    const json = JSON.stringify(value);
    return json === undefined ? [] : [`${JSON.stringify(name)}:${json}`];
  });
  return `{${written.join(',')}}`;
}
