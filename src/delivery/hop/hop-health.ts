// Which replies of a next hop ask for less, the limits that it has, and the events that decide how much it is given.

import type { SmtpReply } from '../../mail/smtp-reply.ts';

/** Greylisting defers one message, however little is sent. */
const greylisting = /gr[ea]y-?\s?list/i;
const tooMuch =
  /too many|too much mail|rate.?limit|throttl|too fast|too quickly|exceed\w* .*\b(?:rate|connections?|messages)\b|slow(?:ing)? down/i;

/** Whether a hop asks for less: by 421, a temporary reply about policy (X.7.x), 4.3.2 or 4.4.5 (RFC 3463), or by its words. */
export function isThrottling({ code, enhanced = '', text }: SmtpReply): boolean {
  if (code < 400 || code > 499 || greylisting.test(text)) return false;
  if (code === 421 || tooMuch.test(text)) return true;
  const isOfServer = code === 450 || code === 451 || code === 452;
  return isOfServer && (enhanced.startsWith('4.7.') || enhanced === '4.3.2' || enhanced === '4.4.5');
}

/** Tells whether a recipient was too many for one transaction, so that it can go in another (RFC 5321 §4.5.3.1.10). */
export function isTooMany({ kind, reply }: { readonly kind: string; readonly reply: SmtpReply }): boolean {
  const codes = reply.code === 452 || reply.code === 552;
  return kind === 'deferred' && codes && (reply.enhanced === undefined || reply.enhanced.endsWith('.5.3'));
}

/** The limits of one next hop, as the configuration gives them. */
export interface HopLimits {
  readonly connections: number;
  /** Messages over one connection; then it is closed and another is opened. */
  readonly messagesPerConnection: number;
  /** Messages begun in a second, over all connections; absent: as many as it takes. */
  readonly messagesPerSecond?: number;
  /** The longest time for which a next hop that is down is left alone, in seconds. */
  readonly backoffSeconds: number;
}

/** Of each limit the lower one. */
export function strictest(one: HopLimits, other: HopLimits): HopLimits {
  const { messagesPerSecond: rate = Number.POSITIVE_INFINITY } = one;
  const slower = Math.min(rate, other.messagesPerSecond ?? Number.POSITIVE_INFINITY);
  return {
    connections: Math.min(one.connections, other.connections),
    messagesPerConnection: Math.min(one.messagesPerConnection, other.messagesPerConnection),
    ...(slower === Number.POSITIVE_INFINITY ? {} : { messagesPerSecond: slower }),
    backoffSeconds: Math.min(one.backoffSeconds, other.backoffSeconds),
  };
}

/** Why a next hop gets less than its limits allow. */
export type HopTrouble = 'down' | 'throttling' | 'deferring';

/** The other connections to the next hop at the moment of an event. */
interface Others {
  readonly open: number;
  readonly opening: number;
}

/** What happened at a next hop. */
export type HopEvent =
  | { readonly kind: 'limited'; readonly limits: HopLimits }
  /** A connection is ready. */
  | { readonly kind: 'opened' }
  /** A connection could not be made. `asksForLess`: the next hop itself said so. */
  | ({ readonly kind: 'refused'; readonly reply: SmtpReply; readonly asksForLess: boolean } & Others)
  /** A connection has ended. `by`: why the next hop, or the network, ended it. */
  | ({ readonly kind: 'closed'; readonly served: number; readonly by: SmtpReply | undefined } & Others)
  /** A message has ended with these results for its recipients. `served`: messages that its connection has served by now. */
  | ({
      readonly kind: 'ended';
      readonly results: readonly { readonly kind: string; readonly reply: SmtpReply }[];
      readonly served: number;
    } & Others);
