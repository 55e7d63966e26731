// Domain names as the pipeline compares and stores them: A-labels in lower case (D40b, D82, RFC 5890); address literals.

import { domainToASCII } from 'node:url';
import ipaddr from 'ipaddr.js';
import { closingEnd } from '../header/quoted-text.ts';

const label = /^_?[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
/** ASCII that no label has. Node would read it as part of a URL: it cuts a name at `/` and decodes `%2E`. */
const foreignAscii = /[^a-z0-9._\-\u0080-\uffff]/;
const dottedNumbers = /^[0-9.]+$/;

/**
 * Turns a domain name into A-labels in lower case.
 * @param domain as given, U-labels or A-labels, without a trailing dot
 * @returns undefined when it is no domain name: an empty label, a label over 63 octets or with another character than
 *   letters, digits and inner hyphens (a leading underscore is let pass), over 253 octets in all, or an IP address
 */
export function asciiDomain(domain: string): string | undefined {
  if (domain.length === 0 || domain.length > 1024) return undefined;
  let ascii = domain.toLowerCase();
  for (let index = 0; index < ascii.length; index += 1) {
    if (ascii.charCodeAt(index) < 0x80) continue;
    if (foreignAscii.test(ascii)) return undefined;
    ascii = domainToASCII(domain);
    break;
  }
  if (ascii.length === 0 || ascii.length > 253 || dottedNumbers.test(ascii)) return undefined;
  return ascii.split('.').every((part) => label.test(part) && part.length <= 63) ? ascii : undefined;
}

/** Reads an address literal (RFC 5321 §4.1.3): `[192.0.2.1]`, `[IPv6:2001:db8::1]`. @returns its normal spelling, if it is one */
export function addressLiteral(literal: string): string | undefined {
  // Most names are no literals, and the library finds that out by an exception: some 20 microseconds a message.
  const inner = /^\[([^[\]]*)\]$/.exec(literal)?.[1];
  if (inner === undefined) return undefined;
  if (dottedNumbers.test(inner) && ipaddr.IPv4.isValidFourPartDecimal(inner)) return `[${inner}]`;
  if (inner.slice(0, 5).toLowerCase() !== 'ipv6:') return undefined;
  const address = inner.slice(5);
  return ipaddr.IPv6.isValid(address) && !address.includes('%')
    ? `[IPv6:${ipaddr.IPv6.parse(address).toString()}]`
    : undefined;
}

/**
 * Splits a mailbox at its last @ outside quotation marks, the one place where addresses are split.
 * @param mailbox as it stands in a path or addr-spec, without comments: `"a@b"@example.com`
 * @returns the local part as given, with its quotation marks; the domain is undefined where there is none (`root`)
 */
export function splitMailbox(mailbox: string): { readonly localPart: string; readonly domain: string | undefined } {
  const at = mailbox.lastIndexOf('@');
  const isQuoted = mailbox.startsWith('"') && at < closingEnd(mailbox, 0, '"');
  return at < 0 || isQuoted
    ? { localPart: mailbox, domain: undefined }
    : { localPart: mailbox.slice(0, at), domain: mailbox.slice(at + 1) };
}
