// Violations as an SMTP reply (D7): a line for each, all with the first one's code and enhanced status.

import { type RejectionCode, rejections, type Violation } from '../../submit.ts';
import type { Answer } from './replies.ts';

/** RFC 5321 §4.5.3.1.5: a reply line has at most 512 octets, CRLF included. */
const maxLineOctets = 512;
/** `554-5.7.1 ` and CRLF. */
const frameOctets = 12;
const maxNameOctets = 60;
const maxLines = 20;

function escapeCharacter(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  return code <= 0xff
    ? `\\x${code.toString(16).toUpperCase().padStart(2, '0')}`
    : `\\u{${code.toString(16).toUpperCase()}}`;
}

/**
 * Makes text fit for a reply line: printable ASCII, everything else escaped (`\xC3`, `\u{20AC}`), so that no text of a
 * client can end the line or begin another.
 * @param maxOctets longer text is cut there and ends in `...`
 */
export function printableAscii(text: string, maxOctets: number): string {
  // Nothing behind this can be printed, so nothing behind it is looked at.
  const escaped = text.slice(0, maxOctets + 1).replace(/[^\x20-\x7e]/gu, escapeCharacter);
  return escaped.length <= maxOctets ? escaped : `${escaped.slice(0, maxOctets - 3)}...`;
}

function lineOf(violation: Violation): string {
  const { code, name, message } = violation;
  const shownName = name === undefined ? '' : printableAscii(name, maxNameOctets);
  const words = name !== undefined && name.length > 0 ? message.replace(name, () => shownName) : message;
  return printableAscii(`${code}: ${words}`, maxLineOctets - frameOctets);
}

/**
 * Writes violations as one reply.
 * @param violations at least one, in the order of the answer (D2)
 */
export function refusalReply(violations: readonly Violation[]): Answer {
  const first: RejectionCode = violations[0]?.code ?? 'E_INTERNAL_SERVER_ERROR';
  const { smtpCode, enhanced } = rejections[first];
  const lines = violations.slice(0, maxLines).map(lineOf);
  const rest = violations.length - maxLines;
  if (rest > 0) lines.push(`and ${rest} more`);
  const reply = { code: smtpCode, enhanced, text: lines.join('\n') };
  // RFC 5321 §3.8: 421 closes the channel.
  return smtpCode === 421 ? { ...reply, next: 'close' } : reply;
}
