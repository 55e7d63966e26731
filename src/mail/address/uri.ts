// The hosts of URIs in header fields (RFC 3986 §3.2.2, RFC 6068 §2), and URIs written in ASCII (RFC 3987 §3.1).

import ipaddr from 'ipaddr.js';
import { addressLiteral, asciiDomain } from './domain.ts';

/** A URI's host as it leaves: a name, also percent-encoded, as A-labels, an address as given; undefined where it is neither. */
function uriHost(host: string): string | undefined {
  if (host.startsWith('[')) return host.endsWith(']') && ipaddr.IPv6.isValid(host.slice(1, -1)) ? host : undefined;
  // The library finds out by an exception that a name is no address, which costs more than the whole rule.
  if (/^[0-9.]+$/.test(host)) return ipaddr.IPv4.isValidFourPartDecimal(host) ? host : undefined;
  const name = host.includes('%') ? percentDecoded(host) : host;
  // RFC 3986 §3.2.2: names of the web may have underscores, which those of mail have not.
  const whole = name.endsWith('.') ? name.slice(0, -1) : name;
  return (
    asciiDomain(whole) ?? (asciiDomain(whole.replaceAll('_', 'x')) === undefined ? undefined : whole.toLowerCase())
  );
}

function percentDecoded(text: string): string {
  const octets = text.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  return Buffer.from(octets, 'latin1').toString('utf8');
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

function percentEncode(text: string): string {
  return text.replace(/[^\x00-\x7f]+/gu, (run) => encodeURIComponent(run));
}
