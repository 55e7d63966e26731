// Writes the MAIL and RCPT commands of a transaction from what the next hop offers and the message needs (RFC 5321 §3.3,
// 1870, 6152, 6531, 8689). A message that the next hop cannot carry fails here, before anything is sent (D40).

import { isAscii } from 'node:buffer';
import { asciiDomain, splitMailbox } from '../../mail/address/domain.ts';
import { asciiOrcpt, type Envelope, type RecipientRequest } from '../../mail/envelope.ts';
import { hasNonAscii } from '../../mail/header/encoded-word.ts';
import type { SmtpReply } from '../../mail/smtp-reply.ts';
import type { TlsFacts } from '../../mail/tls-facts.ts';
import type { TlsFault } from './handshake-failure.ts';

/** The extensions that relaying makes use of. */
export interface Capabilities {
  /** RFC 2920. */
  readonly pipelining: boolean;
  /** RFC 1870: SIZE is offered. */
  readonly size: boolean;
  readonly maxSize?: number;
  /** RFC 6152. */
  readonly eightBitMime: boolean;
  /** RFC 6531. */
  readonly smtputf8: boolean;
  /** RFC 3207. */
  readonly startTls: boolean;
  /** RFC 8689. */
  readonly requireTls: boolean;
  /** RFC 3461. */
  readonly dsn: boolean;
  /** RFC 4954: mechanisms in upper case. */
  readonly auth: ReadonlySet<string>;
}

/** Reads the extensions of an EHLO reply; the first line is the name of the next hop. */
export function capabilitiesOf(reply: SmtpReply): Capabilities {
  const offered = new Map<string, string>();
  const auth = new Set<string>();
  for (const line of reply.text.split('\n').slice(1)) {
    // Old servers write `AUTH=PLAIN`.
    const [keyword = '', ...parameters] = line.trim().toUpperCase().split(/[ =]+/);
    offered.set(keyword, parameters.join(' '));
    if (keyword === 'AUTH') for (const mechanism of parameters) auth.add(mechanism);
  }
  const maxSize = Number(offered.get('SIZE') ?? 0);
  return {
    pipelining: offered.has('PIPELINING'),
    size: offered.has('SIZE'),
    // RFC 1870 §3: SIZE with 0 or without a number sets no fixed limit.
    ...(Number.isSafeInteger(maxSize) && maxSize > 0 ? { maxSize } : {}),
    eightBitMime: offered.has('8BITMIME'),
    smtputf8: offered.has('SMTPUTF8'),
    startTls: offered.has('STARTTLS'),
    requireTls: offered.has('REQUIRETLS'),
    dsn: offered.has('DSN'),
    auth,
  };
}

/** The capabilities of a next hop that knows only HELO: none. */
export const noCapabilities = capabilitiesOf({ code: 250, text: '' });

/** A message to be sent in one transaction. */
export interface OutgoingMail extends Omit<Envelope, 'smtputf8'> {
  /** The header section with its empty line, in one piece or several. */
  readonly head: readonly Buffer[];
  readonly body: Buffer;
}

/** The state of the connection. */
export interface Session {
  readonly capabilities: Capabilities;
  /** TLS is on, the certificate was verified for the next hop's name, and that name is no stranger's word: REQUIRETLS may go. */
  readonly verifiedTls: boolean;
  readonly tls: TlsFacts;
  /** STARTTLS was put off (RFC 3207 §4: 454), so that there may be TLS later. */
  readonly isTlsPutOff?: boolean;
  /** What is wrong with a certificate that nobody asked to be verified. */
  readonly certificateFault?: TlsFault;
}

/** A recipient's RCPT command, or why the recipient cannot be sent. */
type RecipientCommand =
  | { readonly address: string; readonly command: string }
  | { readonly address: string; readonly refused: SmtpReply };

/** The commands of a transaction, or why there can be no transaction. */
export type EnvelopeCommands =
  | { readonly refused: SmtpReply }
  | { readonly mail: string; readonly recipients: readonly RecipientCommand[] };

const refusals = {
  unsafe: { code: 553, enhanced: '5.1.3', text: 'The address holds a control character' },
  requireTls: {
    code: 550,
    enhanced: '5.7.30',
    text: 'REQUIRETLS needs a next hop with a verified certificate that offers it',
  },
  tlsPutOff: { code: 451, enhanced: '4.7.0', text: 'REQUIRETLS waits, since the next hop puts STARTTLS off' },
  tooBig: { code: 552, enhanced: '5.3.4', text: 'The message is larger than the next hop accepts' },
  smtputf8: { code: 550, enhanced: '5.6.7', text: 'A non-ASCII address needs a next hop with SMTPUTF8' },
  eightBit: { code: 554, enhanced: '5.6.3', text: '8-bit content needs a next hop with 8BITMIME' },
} as const satisfies Record<string, SmtpReply>;

/** Octets of a message, as SIZE declares them (RFC 1870 §5: without doubled dots). */
export function sizeOf(mail: OutgoingMail): number {
  return mail.head.reduce((sum, part) => sum + part.length, mail.body.length);
}

/** Tells whether an address has a line end, which would start another command. None comes this far; none passes here. */
function isUnsafe(address: string): boolean {
  for (let index = 0; index < address.length; index += 1) {
    const code = address.charCodeAt(index);
    if (code < 0x20 || code === 0x7f) return true;
  }
  return false;
}

/** Gives an address in ASCII by its A-label (RFC 6531 §3.2); undefined where the local part is not ASCII. */
function asciiAddress(address: string): string | undefined {
  if (!hasNonAscii(address)) return address;
  const { localPart, domain } = splitMailbox(address);
  if (domain === undefined || hasNonAscii(localPart)) return undefined;
  const ascii = asciiDomain(domain);
  return ascii === undefined ? undefined : `${localPart}@${ascii}`;
}

/** NOTIFY and ORCPT as they were given (RFC 3461 §5.2.1). */
function recipientParameters({ notify, orcpt }: RecipientRequest = {}, usesUtf8: boolean): string {
  const asked = notify === undefined ? '' : ` NOTIFY=${notify}`;
  return orcpt === undefined ? asked : `${asked} ORCPT=${usesUtf8 ? orcpt : asciiOrcpt(orcpt)}`;
}

/** Writes the commands, each with its line end. */
export function envelopeCommands(mail: OutgoingMail, session: Session): EnvelopeCommands {
  const { capabilities, verifiedTls, isTlsPutOff } = session;
  if (mail.requireTls && !(verifiedTls && capabilities.requireTls))
    return { refused: isTlsPutOff ? refusals.tlsPutOff : refusals.requireTls };
  const size = sizeOf(mail);
  if (capabilities.maxSize !== undefined && size > capabilities.maxSize) return { refused: refusals.tooBig };
  if (isUnsafe(mail.reversePath)) return { refused: refusals.unsafe };

  const headIsAscii = mail.head.every((part) => isAscii(part));
  const reversePath = asciiAddress(mail.reversePath);
  const recipients = mail.recipients.map((address) => ({ address, ascii: asciiAddress(address) }));
  const messageNeedsUtf8 = !headIsAscii || reversePath === undefined;
  if (messageNeedsUtf8 && !capabilities.smtputf8) return { refused: refusals.smtputf8 };
  const isEightBit = !headIsAscii || !isAscii(mail.body);
  if (isEightBit && !capabilities.eightBitMime) return { refused: refusals.eightBit };

  const usesUtf8 =
    capabilities.smtputf8 && (messageNeedsUtf8 || recipients.some((recipient) => recipient.ascii === undefined));
  let command = `MAIL FROM:<${reversePath ?? mail.reversePath}>`;
  if (capabilities.size) command += ` SIZE=${size}`;
  if (isEightBit) command += ' BODY=8BITMIME';
  if (usesUtf8) command += ' SMTPUTF8';
  if (mail.requireTls) command += ' REQUIRETLS';
  const dsn = capabilities.dsn ? (mail.dsn ?? {}) : {};
  if (dsn.ret !== undefined) command += ` RET=${dsn.ret}`;
  if (dsn.envid !== undefined) command += ` ENVID=${dsn.envid}`;
  return {
    mail: `${command}\r\n`,
    recipients: recipients.map(({ address, ascii }): RecipientCommand => {
      if (isUnsafe(address)) return { address, refused: refusals.unsafe };
      if (ascii === undefined && !usesUtf8) return { address, refused: refusals.smtputf8 };
      const asked = recipientParameters(dsn.recipients?.get(address), usesUtf8);
      return { address, command: `RCPT TO:<${ascii ?? address}>${asked}\r\n` };
    }),
  };
}
