// What a next hop offers in its EHLO reply (RFC 5321 §4.1.1.1).

import type { SmtpReply } from '../../mail/smtp-reply.ts';

/** The extensions that relaying makes use of. */
export interface Capabilities {
  /** RFC 2920. */
  readonly pipelining: boolean;
  /** RFC 1870: SIZE is offered. */
  readonly size: boolean;
  readonly maxSize?: number;
  /** RFC 6152. */
  readonly eightBitMime: boolean;
  /** RFC 6531. */
  readonly smtputf8: boolean;
  /** RFC 3207. */
  readonly startTls: boolean;
  /** RFC 8689. */
  readonly requireTls: boolean;
  /** RFC 3461. */
  readonly dsn: boolean;
  /** RFC 4954: mechanisms in upper case. */
  readonly auth: ReadonlySet<string>;
}

/** Reads the extensions of an EHLO reply; the first line is the name of the next hop. */
export function capabilitiesOf(reply: SmtpReply): Capabilities {
  const offered = new Map<string, string>();
  const auth = new Set<string>();
  for (const line of reply.text.split('\n').slice(1)) {
    // Old servers write `AUTH=PLAIN`.
    const [keyword = '', ...parameters] = line.trim().toUpperCase().split(/[ =]+/);
    offered.set(keyword, parameters.join(' '));
    if (keyword === 'AUTH') for (const mechanism of parameters) auth.add(mechanism);
  }
  const maxSize = Number(offered.get('SIZE') ?? 0);
  return {
    pipelining: offered.has('PIPELINING'),
    size: offered.has('SIZE'),
    // RFC 1870 §3: SIZE with 0 or without a number sets no fixed limit.
    ...(Number.isSafeInteger(maxSize) && maxSize > 0 ? { maxSize } : {}),
    eightBitMime: offered.has('8BITMIME'),
    smtputf8: offered.has('SMTPUTF8'),
    startTls: offered.has('STARTTLS'),
    requireTls: offered.has('REQUIRETLS'),
    dsn: offered.has('DSN'),
    auth,
  };
}

/** The capabilities of a next hop that knows only HELO: none. */
export const noCapabilities = capabilitiesOf({ code: 250, text: '' });
