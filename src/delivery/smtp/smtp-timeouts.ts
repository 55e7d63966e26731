// How long the client waits at each stage (RFC 5321 §4.5.3.2), in milliseconds.

import type { Stage } from './smtp-transaction.ts';

/** Waiting times, in milliseconds. */
export interface SmtpTimeouts {
  /** TCP connect. */
  readonly connect: number;
  /** RFC 5321 §4.5.3.2.1. */
  readonly greeting: number;
  /** For EHLO, for STARTTLS with its TLS handshake, and for AUTH: each. */
  readonly handshake: number;
  /** RFC 5321 §4.5.3.2.2. */
  readonly mail: number;
  /** RFC 5321 §4.5.3.2.3. */
  readonly rcpt: number;
  /** RFC 5321 §4.5.3.2.4. */
  readonly data: number;
  /** How long none of the content may go out; RFC 5321 §4.5.3.2.5. */
  readonly dataBlock: number;
  /** RFC 5321 §4.5.3.2.6. */
  readonly endOfData: number;
  /** A whole transaction; it must be shorter than the spool's lease, or another process could send the message too. */
  readonly transaction: number;
  /** How long a connection without work stays open. */
  readonly idle: number;
}

const minute = 60_000;

/** The waiting times of RFC 5321 §4.5.3.2. */
export const defaultTimeouts: SmtpTimeouts = {
  connect: minute / 2,
  greeting: 5 * minute,
  handshake: 5 * minute,
  mail: 5 * minute,
  rcpt: 5 * minute,
  data: 2 * minute,
  dataBlock: 3 * minute,
  endOfData: 10 * minute,
  transaction: 45 * minute,
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
