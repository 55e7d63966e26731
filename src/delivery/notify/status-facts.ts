// Takes from an outcome what a report says of it: the status, who replied, and the words of the reply in a harmless form.

import { escapeCharacters } from '../../base/escape-text.ts';
import type { ReportedRecipient } from '../../spool/reports/report.ts';

/** The most characters of a reply that a report quotes. */
const quoted = 500;

/** What a report says of an attempt. */
export interface StatusFacts {
  /** RFC 3463, of the class that the action needs. */
  readonly status: string;
  /** The host that replied; absent where the message went into a mailbox of our own. */
  readonly remote?: string;
  /** The reply on one line, as the next hop gave it: `550 5.1.1 No such user`. */
  readonly words: string;
  /** Why it failed although the reply was temporary: `Expired after 5 days`. */
  readonly why?: string;
}

// How delivery words a failure after its last attempt (delivery/outcome.ts).
const expired = /^(Expired after [^;]{1,40}); last reply: (.*)$/s;
// Who replied, as delivery writes it: `route (name[address]:port)`, `route (host:port)`, or `route (name)` without a connection.
const withPort = /\(\[?([^()[\]\s/,]+?)\]?(?:\[[0-9a-f.:]+\])?:\d+\)$/i;
const alone = /\(([^()[\]\s/,:]+)\)$/;
const enhancedStatus = /^[245]\.\d{1,3}\.\d{1,3}$/;
const classes = { failed: '45', delayed: '4', delivered: '2', relayed: '2' } as const;

/** One line of printable ASCII, or with other characters where `isUtf8`; a next hop's words can begin no field or line. */
export function oneLine(text: string, length: number, isUtf8 = false): string {
  const line = text.replace(/[\r\n\t ]+/g, ' ').trim();
  const plain = escapeCharacters(line, isUtf8 ? /[\p{Cc}\p{Cf}\p{Cs}\u2028\u2029]/gu : /[^\x20-\x7e]/gu);
  return plain.length <= length ? plain : `${plain.slice(0, length).toWellFormed()} ...`;
}

function statusOf({ action, reply }: ReportedRecipient): string {
  const { enhanced = '', code } = reply;
  const allowed = classes[action];
  if (enhancedStatus.test(enhanced) && allowed.includes(enhanced.charAt(0))) return enhanced;
  const first = String(code).charAt(0);
  return `${allowed.includes(first) ? first : allowed.at(-1)}.0.0`;
}

/** Takes the facts of a recipient. */
export function statusFacts(recipient: ReportedRecipient, isUtf8: boolean): StatusFacts {
  const { reply, host } = recipient;
  const status = statusOf(recipient);
  const remote = (withPort.exec(host) ?? alone.exec(host))?.[1];
  const end = expired.exec(reply.text);
  const words = end?.[2] ?? `${reply.code} ${reply.enhanced === undefined ? '' : `${reply.enhanced} `}${reply.text}`;
  return {
    status,
    ...(remote === undefined ? {} : { remote: oneLine(remote, 255) }),
    words: oneLine(words, quoted, isUtf8),
    ...(end?.[1] === undefined ? {} : { why: end[1] }),
  };
}
