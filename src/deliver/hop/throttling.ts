// Tells from a reply whether a next hop says that it is given too much.

import type { SmtpReply } from '../../mail/smtp-reply.ts';

/** Greylisting defers one message, however little is sent. */
const greylisting = /gr[ea]y-?\s?list/i;
const tooMuch =
  /too many|too much mail|rate.?limit|throttl|too fast|too quickly|exceed\w* .*\b(?:rate|connections?|messages)\b|slow(?:ing)? down/i;

/**
 * Whether a next hop asks for less: 421 (RFC 5321 §3.8, it is closing the channel), a temporary reply about policy (X.7.x of
 * RFC 3463 §3.8, which servers use for rates), the system not accepting now (4.3.2) or congestion (4.4.5), or its words.
 */
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
