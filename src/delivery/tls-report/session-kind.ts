// What a report tells of one attempt (RFC 8460 §4.3). Attempts of the same kind are counted together.

import { createHash } from 'node:crypto';
import type { TlsResult } from '../mx/tls-demand.ts';

/** A kind of attempts. The texts of what does not apply are empty. */
export interface SessionKind {
  /** Of UTC: `2026-11-21`. */
  readonly day: string;
  /** The recipient's domain, which is asked where it wants reports. */
  readonly domain: string;
  /** A digest of `policy`. */
  readonly policyId: string;
  /** As JSON. */
  readonly policy: string;
  /** A result type of RFC 8460 §4.3; empty for attempts that were in order. */
  readonly result: string;
  readonly exchanger: string;
  readonly address: string;
  /** The address that we connected from, where it is known. */
  readonly localAddress: string;
  /** What was said of the first failure of the kind. */
  readonly reason: string;
}

/** Octets of a policy's strings together; those behind are left out. A domain decides how long its own policy is. */
const mostPolicy = 4096;
const mostRecords = 20;
/** Characters of what was said of a failure. */
const mostReason = 200;

/** The texts that fit into `most` octets together. */
function fitting(texts: readonly string[], most: number): readonly string[] {
  let octets = 0;
  const end = texts.findIndex((text) => (octets += Buffer.byteLength(text)) > most);
  return end < 0 ? texts : texts.slice(0, end);
}

/** The policy that applied, as a report writes it (RFC 8460 §4.4). */
function policyOf({ policy, domain, exchanger }: TlsResult) {
  if (policy.type === 'no-policy-found') return { 'policy-type': policy.type, 'policy-domain': domain };
  if (policy.type === 'tlsa') {
    const records = policy.tlsa
      .filter(({ data }) => data.length <= mostPolicy / 2)
      .slice(0, mostRecords)
      .map(({ usage, selector, matching, data }) => `${usage} ${selector} ${matching} ${data.toString('hex')}`);
    // RFC 8460 §1.1: the policy domain of DANE is the name that the TLSA records stand below.
    return {
      'policy-type': policy.type,
      'policy-string': fitting(records, mostPolicy),
      'policy-domain': exchanger,
      'mx-host': [exchanger],
    };
  }
  if (!policy.sts) return { 'policy-type': policy.type, 'policy-domain': domain };
  const { mode, mx, maxAge } = policy.sts;
  const names = fitting(mx, mostPolicy / 2);
  return {
    'policy-type': policy.type,
    'policy-string': ['version: STSv1', `mode: ${mode}`, ...names.map((name) => `mx: ${name}`), `max_age: ${maxAge}`],
    'policy-domain': domain,
    'mx-host': names,
  };
}

/** The day of a moment, in UTC. @param now milliseconds since 1970 */
export function dayOf(now: number): string {
  return new Date(now).toISOString().slice(0, 10);
}

/** The end of a day, which is the beginning of the next, in milliseconds since 1970. */
export function endOfDay(day: string): number {
  return Date.parse(`${day}T00:00:00Z`) + 86_400_000;
}

/** The kind of an attempt. @param now when it was made, in milliseconds since 1970 */
export function kindOf(attempt: TlsResult, now: number): SessionKind {
  const { domain, failure = '', exchanger, address, localAddress = '', reason = '' } = attempt;
  const policy = JSON.stringify(policyOf({ ...attempt, domain: domain.toLowerCase() }));
  const policyId = createHash('sha256').update(policy).digest('hex').slice(0, 32);
  const common = { day: dayOf(now), domain: domain.toLowerCase(), policyId, policy, result: failure };
  if (failure === '') return { ...common, exchanger: '', address: '', localAddress: '', reason: '' };
  // What a server says may hold anything.
  const said = reason.replace(/[^\x20-\x7e]+/g, ' ').slice(0, mostReason);
  return { ...common, exchanger, address, localAddress, reason: said };
}
