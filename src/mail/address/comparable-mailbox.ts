// Gives all spellings of one mailbox the same form, for lists that ask whether two addresses are the same (D51).

import { atext, quotedString, withoutQuotedPairs } from '../header/quoted-text.ts';
import { asciiDomain, splitMailbox } from './domain.ts';
import { readPath } from './path.ts';

/** What may stand in a local part without quotes: atext, dots, and the non-ASCII of RFC 6531 §3.3. */
const unquoted = new RegExp(`^[${atext}.\\u{a0}-\\u{10ffff}]+$`, 'u');

/** RFC 5321 §4.1.2: the quotes are no part of the local part, so `"a"@b` is `a@b`. */
function withoutNeedlessQuotes(localPart: string): string {
  if (localPart.length < 3 || !localPart.startsWith('"') || !localPart.endsWith('"')) return localPart;
  const content = withoutQuotedPairs(localPart.slice(1, -1));
  if (unquoted.test(content)) return content;
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
