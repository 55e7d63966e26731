// How the TLS of one attempt to reach a mail exchanger went, as reports of TLS tell it (RFC 8460 §4.3).

import type { TlsaRecord } from '../../base/dns/dns-records.ts';
import type { TlsFault } from '../smtp/smtp-client.ts';
import type { StsPolicy } from './sts-policy.ts';

/** Why a domain that says it has a policy of MTA-STS has none that could be had (RFC 8460 §4.3.2.2). */
export interface StsFault {
  readonly failure: 'sts-policy-fetch-error' | 'sts-policy-invalid' | 'sts-webpki-invalid';
  /** A clause for people. */
  readonly why: string;
}

/** What went wrong: with TLS itself, or with the policy that asks for it. */
export type TlsFailure = TlsFault | 'dnssec-invalid' | StsFault['failure'];

/** One attempt. */
export interface TlsResult {
  /** The recipient's domain. */
  readonly domain: string;
  readonly policy: /** `sts`: absent where the policy could not be had. */
    | { readonly type: 'sts'; readonly sts?: StsPolicy }
    | { readonly type: 'tlsa'; readonly tlsa: readonly TlsaRecord[] }
    | { readonly type: 'no-policy-found' };
  /** The mail exchanger's name. */
  readonly exchanger: string;
  readonly address: string;
  /** Our own address, where there was a connection. */
  readonly localAddress?: string;
  /** Absent: TLS was established, and what the policy asks for holds. */
  readonly failure?: TlsFailure;
  /** What was said of the failure. */
  readonly reason?: string;
}
