// Writes our own Received field (RFC 5321 §4.4, RFC 3848, RFC 6531 §4.3; D25), and those of a trusted hop (D4).

import { addressLiteral, asciiDomain } from '../../mail/address/domain.ts';
import type { Envelope } from '../../mail/envelope.ts';
import type { HeaderField } from '../../mail/header/header-field.ts';
import { writeField } from '../../mail/write-field.ts';
import type { Via } from '../policy/submission.ts';
import type { MessageField } from './message.ts';
import { readRaw } from './raw-text.ts';
import { verbatimField } from './verbatim-field.ts';

const plainMailbox = /^[!-~]+@[!-~]+$/;

/** What our Received field tells. */
export interface ReceivedFacts {
  readonly via: Via;
  readonly envelope: Envelope;
  /** The account's setting (D25). */
  readonly showClientAddress: boolean;
  /** The host name in `by`. */
  readonly hostname: string;
  readonly id: string;
  /** RFC 5322 date. */
  readonly date: string;
  /** How often the message has passed the gateway before, where no other field shows it any more; 0: never. */
  readonly passes: number;
}

/** Writes our Received field. It names the recipient only where there is just one, so that it reveals no Bcc (D22). */
export function receivedField(facts: ReceivedFacts): string {
  const { via, envelope, hostname, id, date, passes } = facts;
  // Removed traces (D4a) would hide a loop: the count lives on here.
  const software = passes === 0 ? 'Postern' : `Postern; pass ${passes + 1}`;
  const [recipient = ''] = envelope.recipients;
  // The clause is optional: a mailbox with white space, or outside ASCII, is left out instead of being encoded.
  const named = envelope.recipients.length === 1 && plainMailbox.test(recipient) && !/[<>;]/.test(recipient);
  const from = via.kind === 'smtp' ? `from ${client(facts)} ` : '';
  const protocol = protocolOf(via, envelope);
  const rcpt = named ? ` for <${recipient}>` : '';
  return writeField(
    'Received',
    `${from}by ${hostname} (${software})${protocol === '' ? '' : ` with ${protocol}`} id ${id}${rcpt}; ${date}`,
  );
}

function client({ via, showClientAddress }: ReceivedFacts): string {
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
export function traceField({ rawBytes }: HeaderField, { legacyCharset }: Via): MessageField {
  const line = verbatimField('Received', rawBytes) ?? writeField('Received', readRaw(rawBytes, legacyCharset));
  return { name: 'Received', line };
}
