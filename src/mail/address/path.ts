// The paths of MAIL and RCPT (RFC 5321 §4.1.2, RFC 6531 §3.3). Their grammar is not that of header fields (RFC 5322 §3.4): no comments,
// folds or white space, literals that are IP addresses, and parameters on the same line. What both have in common (atext,
// quoted-strings, domains) is shared code. And the one spelling of a mailbox, for lists that ask whether two are the same (D51).

import { atext, closingEnd, quotedString, withoutQuotedPairs } from '../header/quoted-text.ts';
import { addressLiteral, asciiDomain, splitMailbox } from './domain.ts';

/** One path as it stands in a command line. */
export interface Path {
  /** The local part as given, `@` and the domain; without a domain the local part alone; '' is the null reverse-path. */
  readonly mailbox: string;
  /** A-label in lower case, or an address literal with its brackets; undefined where the path has none. */
  readonly domain: string | undefined;
  /** Index in the text right behind the path. */
  readonly end: number;
}

/** RFC 5321 §4.5.3.1.3: 256 octets with the brackets. The local part alone has no limit of its own: real ones exceed 64. */
const maxMailboxOctets = 254;

// Dots may stand anywhere: addresses like `name.@carrier` are in use, though RFC 5321's Dot-string knows none.
const unquoted = new RegExp(`[${atext}.\\u00a0-\\uffff]+`, 'y');

// RFC 5321 §4.1.2: qtextSMTP and quoted-pairSMTP hold no controls, and RFC 6531 §3.3 adds no C1 controls.
const controls = /[\x00-\x1f\x7f-\x9f]/;

/** Gives the index behind the local part that begins at `start`, or -1. */
function localPartEnd(text: string, start: number): number {
  if (text[start] !== '"') {
    unquoted.lastIndex = start;
    return unquoted.test(text) ? unquoted.lastIndex : -1;
  }
  const end = closingEnd(text, start, '"');
  return end < 0 || controls.test(text.slice(start, end)) ? -1 : end;
}

function readDomain(text: string, start: number): { readonly domain: string; readonly end: number } | undefined {
  let end = start;
  if (text[start] === '[') {
    end = text.indexOf(']', start) + 1;
    const literal = end > 0 ? addressLiteral(text.slice(start, end)) : undefined;
    return literal === undefined ? undefined : { domain: literal, end };
  }
  while (end < text.length && text[end] !== '>' && text[end] !== ' ') end += 1;
  const domain = asciiDomain(text.slice(start, end));
  return domain === undefined ? undefined : { domain, end };
}

/** RFC 5321 Appendix C: a source route is dropped. Gives the index behind its colon; `start` without a route; -1 if broken. */
function sourceRouteEnd(text: string, start: number): number {
  let index = start;
  while (text[index] === '@') {
    let end = index + 1;
    while (end < text.length && text[end] !== ',' && text[end] !== ':' && text[end] !== '>') end += 1;
    if (asciiDomain(text.slice(index + 1, end)) === undefined) return -1;
    if (text[end] === ':') return end + 1;
    if (text[end] !== ',') return -1;
    index = end + 1;
  }
  return index === start ? start : -1;
}

/** Reads the path at `start`, with or without brackets, before a blank or the end; undefined for none, or over 256 octets. */
export function readPath(text: string, start: number): Path | undefined {
  const bracketed = text[start] === '<';
  let index = bracketed ? start + 1 : start;
  if (bracketed && text[index] === '>') {
    return index + 1 === text.length || text[index + 1] === ' '
      ? { mailbox: '', domain: undefined, end: index + 1 }
      : undefined;
  }
  if (bracketed) index = sourceRouteEnd(text, index);
  const localEnd = index < 0 ? -1 : localPartEnd(text, index);
  if (localEnd < 0) return undefined;
  const localPart = text.slice(index, localEnd);
  const found = text[localEnd] === '@' ? readDomain(text, localEnd + 1) : undefined;
  if (text[localEnd] === '@' && !found) return undefined;
  let end = found ? found.end : localEnd;
  if (bracketed) {
    if (text[end] !== '>') return undefined;
    end += 1;
  }
  if (end < text.length && text[end] !== ' ') return undefined;
  const mailbox = found ? `${localPart}@${found.domain}` : localPart;
  if (mailbox.length > maxMailboxOctets || Buffer.byteLength(mailbox) > maxMailboxOctets) return undefined;
  return { mailbox, domain: found?.domain, end };
}

/** What may stand in a local part without quotes: atext, dots, and the non-ASCII of RFC 6531 §3.3. */
const bareLocalPart = new RegExp(`^[${atext}.\\u{a0}-\\u{10ffff}]+$`, 'u');

/** RFC 5321 §4.1.2: the quotes are no part of the local part, so `"a"@b` is `a@b`. */
function withoutNeedlessQuotes(localPart: string): string {
  if (localPart.length < 3 || !localPart.startsWith('"') || !localPart.endsWith('"')) return localPart;
  const content = withoutQuotedPairs(localPart.slice(1, -1));
  if (bareLocalPart.test(content)) return content;
  return quotedString(content);
}

/** The spelling by which a mailbox is looked up: A-label, lower case, no needless quotes. What is no address is lowered. */
export function comparableMailbox(mailbox: string): string {
  const { localPart, domain } = splitMailbox(mailbox);
  const local = withoutNeedlessQuotes(localPart.normalize('NFC'));
  if (domain === undefined) return local.toLowerCase();
  return `${local.toLowerCase()}@${asciiDomain(domain) ?? domain.toLowerCase()}`;
}

/** Reads a bare `user@domain`. @returns its comparable spelling; undefined without a domain, malformed or over 254 octets */
export function readComparable(text: string): string | undefined {
  // A lone surrogate is no character: what the database would keep for it is not what was given.
  if (text.startsWith('<') || !text.isWellFormed()) return undefined;
  const path = readPath(text, 0);
  return path?.domain !== undefined && path.end === text.length ? comparableMailbox(path.mailbox) : undefined;
}
