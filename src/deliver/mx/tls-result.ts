// How the TLS of one attempt to reach a mail exchanger went, as reports of TLS tell it (RFC 8460 §4.3).

import type { TlsaRecord } from '../../base/dns/dns-records.ts';
import type { TlsFault } from '../smtp/smtp-client.ts';
import type { StsPolicy } from './sts-policy.ts';

/** What went wrong: with TLS itself, or with the policy that asks for it. */
export type TlsFailure = TlsFault | 'dnssec-invalid';

/** One attempt. */
export interface TlsResult {
  /** The recipient's domain. */
  readonly domain: string;
  readonly policy:
    | { readonly type: 'sts'; readonly sts: StsPolicy }
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
