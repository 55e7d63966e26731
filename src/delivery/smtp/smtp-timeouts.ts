// How long the client waits at each stage (RFC 5321 §4.5.3.2), in milliseconds.

import type { Stage } from './smtp-transaction.ts';

/** Waiting times, in milliseconds. */
export type SmtpTimeouts = Readonly<typeof defaultTimeouts>;

const minute = 60_000;

/** The waiting times of RFC 5321 §4.5.3.2. */
export const defaultTimeouts = {
  connect: minute / 2,
  /** RFC 5321 §4.5.3.2.1. */
  greeting: 5 * minute,
  /** For EHLO, for STARTTLS with its TLS handshake, and for AUTH: each. */
  handshake: 5 * minute,
  /** RFC 5321 §4.5.3.2.2. */
  mail: 5 * minute,
  /** RFC 5321 §4.5.3.2.3. */
  rcpt: 5 * minute,
  /** RFC 5321 §4.5.3.2.4. */
  data: 2 * minute,
  /** How long none of the content may go out; RFC 5321 §4.5.3.2.5. */
  dataBlock: 3 * minute,
  /** RFC 5321 §4.5.3.2.6. */
  endOfData: 10 * minute,
  /** A whole transaction; it must be shorter than the spool's lease, or another process could send the message too. */
  transaction: 45 * minute,
  /** How long a connection without work stays open. */
  idle: minute / 4,
};

/** The timeout of each stage. */
export const stageTimeouts = {
  RSET: 'mail',
  MAIL: 'mail',
  RCPT: 'rcpt',
  DATA: 'data',
  content: 'dataBlock',
  'end of data': 'endOfData',
} as const satisfies Record<Stage, keyof SmtpTimeouts>;
