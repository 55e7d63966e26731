// Reads the addresses that the bounce listeners take: b+TOKEN, fbl and postmaster, of the bounce domain (D26, D29, D40a).

import type { KeyObject } from 'node:crypto';
import { asciiDomain, splitMailbox } from '../../mail/address/domain.ts';
import { readBounceLocalPart, readToken } from '../../mail/return-token.ts';

/** What decides which addresses are ours, as it is in force. */
export interface BounceAddresses {
  /** A-label, lower case. */
  readonly bounceDomain: string;
  /** The domains of reverse-paths of sending domains that have their own; A-labels, lower case. */
  readonly returnPathDomains: ReadonlySet<string>;
  readonly hmacKey: KeyObject;
  readonly tokenDays: number;
}

/** What an address of a report stands for. */
export type BounceTarget =
  /** Reports about the message with this id. */
  | { readonly kind: 'bounce'; readonly queueId: string }
  /** Complaints; the report says about which message. */
  | { readonly kind: 'feedback' }
  /** Mail for the people who run this server (RFC 5321 §4.5.1). */
  | { readonly kind: 'postmaster' }
  | { readonly kind: 'unknown' }
  | { readonly kind: 'expired' };

const dayMs = 86_400_000;

/** Tells whether the message of an id is older than tokens may be. The id is a UUIDv7: it begins with its time. */
function isExpired(id: string, { tokenDays }: BounceAddresses, nowMs: number): boolean {
  const madeAt = Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16);
  return nowMs - madeAt > tokenDays * dayMs;
}

/** Reads the recipient of a report. @param nowMs milliseconds since 1970 */
export function readBounceAddress(mailbox: string, addresses: BounceAddresses, nowMs: number): BounceTarget {
  // RFC 5321 §4.5.1: postmaster is taken without a domain, too.
  if (mailbox.toLowerCase() === 'postmaster') return { kind: 'postmaster' };
  const { localPart, domain = '' } = splitMailbox(mailbox);
  const host = asciiDomain(domain);
  if (host === undefined) return { kind: 'unknown' };
  const isOwn = host === addresses.bounceDomain;
  if (isOwn && localPart.toLowerCase() === 'fbl') return { kind: 'feedback' };
  if (!isOwn && !addresses.returnPathDomains.has(host)) return { kind: 'unknown' };
  if (localPart.toLowerCase() === 'postmaster') return { kind: 'postmaster' };
  const queueId = readBounceLocalPart(localPart, addresses.hmacKey);
  if (queueId === undefined) return { kind: 'unknown' };
  return isExpired(queueId, addresses, nowMs) ? { kind: 'expired' } : { kind: 'bounce', queueId };
}

/** Finds the message of a complaint by its CFBL-Feedback-ID values; undefined where none is a token of ours that still counts. */
export function readFeedbackIds(ids: readonly string[], addresses: BounceAddresses, nowMs: number): string | undefined {
  return ids
    .map((id) => readToken(id, 'feedback', addresses.hmacKey))
    .find((id) => id !== undefined && !isExpired(id, addresses, nowMs));
}
