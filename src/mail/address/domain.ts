// Domain names as the pipeline compares and stores them: A-labels in lower case (D40b, D82, RFC 5890); address literals; and the
// hosts of URIs in header fields (RFC 3986 §3.2.2, RFC 6068 §2), with URIs written in ASCII (RFC 3987 §3.1).

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

/** A URI's host as it leaves: a name, also percent-encoded, as A-labels, an address as given; undefined where it is neither. */
function uriHost(host: string): string | undefined {
  if (host.startsWith('[')) return host.endsWith(']') && ipaddr.IPv6.isValid(host.slice(1, -1)) ? host : undefined;
  // The library finds out by an exception that a name is no address, which costs more than the whole rule.
  if (/^[0-9.]+$/.test(host)) return ipaddr.IPv4.isValidFourPartDecimal(host) ? host : undefined;
  const name = host.includes('%') ? percentDecoded(host).toString('utf8') : host;
  // RFC 3986 §3.2.2: names of the web may have underscores, which those of mail have not.
  const whole = name.endsWith('.') ? name.slice(0, -1) : name;
  return (
    asciiDomain(whole) ?? (asciiDomain(whole.replaceAll('_', 'x')) === undefined ? undefined : whole.toLowerCase())
  );
}

/** The octets that a percent-encoded text in ASCII stands for. */
export function percentDecoded(text: string): Buffer {
  const octets = text.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  return Buffer.from(octets, 'latin1');
}

/** What stands before the host, the host and a port. */
const atAuthority = /^([a-z][a-z0-9+.-]*:\/\/(?:[^/?#@]*@)?)(\[[^\]/?#@]*\]|[^/?#:@[\]]*)(?::([0-9]*))?(?=[/?#]|$)/i;

/** What stands before the domain, and the domain, of a mailto with one address. */
const atMailbox = /^(mailto:[^?#@]+@)([^?#@]*)(?=[?#]|$)/i;

function findHost(uri: string): RegExpExecArray | null {
  return atAuthority.exec(uri) ?? atMailbox.exec(uri);
}

/**
 * What no URI may hold (RFC 3986 §2), nor what programs leave where a template was not filled in: braces, a `%` without two
 * digits, `*|`, brackets that are neither an address of IP nor an index as in `a[1]`. `|`, `^` and `a[1]` are no URI's either, but
 * browsers take them and working mail has them (D9).
 */
const foreign = /[\s"<>\\`{}]|%(?![0-9a-f]{2})|\*\||\|\*|(?<!\/\/|[\w\]@])\[/i;
/** Most URIs have none of these, and this is found out sooner. */
const suspect = /[\s"<>\\`{}%*[]/;

/**
 * Says why a text with a scheme can be no URI that leads somewhere: a character that none has, a mark of a template that was not
 * filled in, no host, a port over 65,535. Linear.
 * @param uri an https or mailto URI; what is not ASCII in it may be raw (RFC 3987)
 * @returns words behind which the URI stands; undefined where nothing is wrong
 */
export function uriFault(uri: string): string | undefined {
  const character = suspect.test(uri) ? foreign.exec(uri)?.[0] : undefined;
  if (character !== undefined) {
    if (/\s/.test(character)) return 'has white space in';
    return `holds "${character}", as a template that was not filled in would, in`;
  }
  const [, before = '', host = '', port = ''] = findHost(uri) ?? [];
  if (uriHost(host) === undefined && (before.includes('//') || addressLiteral(host) === undefined))
    return 'has no host in';
  return Number(port) > 65_535 ? 'has a port over 65,535 in' : undefined;
}

/** Writes a URI in ASCII: its host as A-labels, the rest percent-encoded as UTF-8. Linear, never throws. @param uri any text */
export function asciiUri(uri: string): string {
  const text = uri.toWellFormed();
  const [, before = '', given = ''] = findHost(text) ?? [];
  const behind = text.slice(before.length + given.length);
  return percentEncode(before) + percentEncode(uriHost(given) ?? given) + percentEncode(behind);
}

/** Writes what is not ASCII as percent-encoded UTF-8. @param text without lone surrogates */
export function percentEncode(text: string): string {
  return text.replace(/[^\x00-\x7f]+/gu, (run) => encodeURIComponent(run));
}
