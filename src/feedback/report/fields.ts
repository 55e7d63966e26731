// Reads groups of fields: the form of message/delivery-status (RFC 3464 §2.1) and of message/feedback-report (RFC 5965 §3).

import { isAscii } from 'node:buffer';

/** Field names in lower case, each with the first value that the group gives it, unfolded. */
export type FieldGroup = ReadonlyMap<string, string>;

/** Lines that are read; a report has some ten for each recipient. */
const mostLines = 20_000;
/** Characters of one value that are kept. */
const mostCharacters = 4000;

// RFC 5322 §2.2: a name is printable ASCII without a colon. Some servers put blanks before the colon.
const fieldLine = /^([\x21-\x39\x3b-\x7e]{1,100})[ \t]*:[ \t]*(.*)$/;

/**
 * Reads groups of fields, one behind the other with empty lines between them.
 * @param octets the decoded body; octets that are no UTF-8 are read as ISO 8859-1
 * @param groups how many groups are read at most
 */
export function readFieldGroups(octets: Uint8Array, groups: number): FieldGroup[] {
  const found: FieldGroup[] = [];
  let group = new Map<string, string>();
  let name = '';
  for (const line of linesOf(octets)) {
    if (/^[ \t]*$/.test(line)) {
      if (group.size > 0) found.push(group);
      if (found.length === groups) return found;
      group = new Map();
      name = '';
    } else if (/^[ \t]/.test(line)) {
      const value = group.get(name);
      if (value !== undefined && value.length < mostCharacters) group.set(name, `${value} ${line.trim()}`);
    } else {
      const match = fieldLine.exec(line);
      const given = match?.[1]?.toLowerCase() ?? '';
      // Of a field that stands twice the first counts, also for the lines that go on behind the second.
      name = match && !group.has(given) ? given : '';
      if (name !== '') group.set(name, (match?.[2] ?? '').trim().slice(0, mostCharacters));
    }
  }
  if (group.size > 0) found.push(group);
  return found;
}

function* linesOf(octets: Uint8Array): Generator<string> {
  const decode = isAscii(octets) ? latin1Of : textOf;
  let start = 0;
  for (let count = 0; count < mostLines && start < octets.length; count += 1) {
    const feed = octets.indexOf(0x0a, start);
    const end = feed < 0 ? octets.length : feed;
    const isCr = end > start && octets[end - 1] === 0x0d;
    yield decode(octets.subarray(start, Math.min(isCr ? end - 1 : end, start + mostCharacters)));
    start = end + 1;
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

function textOf(octets: Uint8Array): string {
  try {
    return utf8.decode(octets);
  } catch {
    return latin1Of(octets);
  }
}

function latin1Of(octets: Uint8Array): string {
  return Buffer.from(octets.buffer, octets.byteOffset, octets.byteLength).toString('latin1');
}
