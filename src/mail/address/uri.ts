// The hosts of URIs in header fields (RFC 3986 §3.2.2, RFC 6068 §2), and URIs written in ASCII (RFC 3987 §3.1).

import ipaddr from 'ipaddr.js';
import { asciiDomain } from './domain.ts';

/**
 * Gives a URI's host as it leaves.
 * @param host as given: a name, percent-encoded or not, or an IP address, that of version 6 in brackets
 * @returns a name as A-labels in lower case; an address as given; undefined where it is neither
 */
function uriHost(host: string): string | undefined {
  if (host.startsWith('[')) return host.endsWith(']') && ipaddr.IPv6.isValid(host.slice(1, -1)) ? host : undefined;
  if (ipaddr.IPv4.isValidFourPartDecimal(host)) return host;
  const octets = host.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  const name = octets === host ? host : Buffer.from(octets, 'latin1').toString('utf8');
  return asciiDomain(name.endsWith('.') ? name.slice(0, -1) : name);
}

/** What stands before the host of a URI, and the host: behind `//`, or behind the `@` of a mailto. */
const beforeHost = /^(?:[a-z][a-z0-9+.-]*:\/\/(?:[^/?#@]*@)?|mailto:[^?@]*@)/i;

/**
 * Writes a URI in ASCII: its host as A-labels, everything else that is not ASCII percent-encoded as UTF-8. Linear, never
 * throws: a lone surrogate becomes U+FFFD.
 * @param uri any text
 */
export function asciiUri(uri: string): string {
  const text = uri.toWellFormed();
  const start = beforeHost.exec(text)?.[0].length ?? 0;
  const given = start === 0 ? '' : (/^[^/?#:,]*/.exec(text.slice(start))?.[0] ?? '');
  const host = uriHost(given) ?? given;
  return percentEncode(text.slice(0, start)) + percentEncode(host) + percentEncode(text.slice(start + given.length));
}

function percentEncode(text: string): string {
  return text.replace(/[^\x00-\x7f]+/gu, (run) => encodeURIComponent(run));
}
