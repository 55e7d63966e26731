// Writes violations as an SMTP reply (D7): one line for each, all with the code and enhanced status of the first. The policy
// has already cut the names inside the messages.

import { type RejectionCode, rejections, type Violation } from '../../pipeline/submit.ts';
import type { EntryLink } from '../../spool/journal/entry-link.ts';
import { printableAscii } from './printable-ascii.ts';
import { type Answer, maxReplyLineOctets } from './replies.ts';

/** `554-5.7.1 ` and CRLF. */
const frameOctets = 12;
const maxLines = 20;

function lineOf({ code, message }: Violation): string {
  return printableAscii(`${code}: ${message}`, maxReplyLineOctets - frameOctets);
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
  return { code: smtpCode, enhanced, text: lines.join('\n') };
}

/**
 * Puts the link to the journal's entry behind a refusal, as its last line with the same code.
 * @param id of the entry; undefined: there is no link
 */
export function withLink(answer: Answer, link: EntryLink | undefined, id: string | undefined): Answer {
  if (!link || id === undefined) return answer;
  return { ...answer, text: `${answer.text}\nSee ${link.urlOf(id)}` };
}
