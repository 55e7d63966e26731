// What is asked of the TLS of a connection to a mail exchanger. Where its DNS records name its certificate (DANE), they decide;
// else the policy of the recipient's domain (MTA-STS); else the route (RFC 7672, RFC 8461 §2, RFC 8689).

import type { TLSSocket } from 'node:tls';
import type { TlsaRecord } from '../../base/dns/dns-records.ts';
import type { TlsPolicy } from '../../mail/tls-facts.ts';
import type { TlsFault } from '../smtp/smtp-client.ts';
import type { DaneFinding } from './dane.ts';
import type { MxTls } from './settings.ts';
import { isNamedBy, type StsPolicy } from './sts-policy.ts';

/** What a message itself says of TLS: `required` is REQUIRETLS, `no` is the field `TLS-Required: No` (RFC 8689). */
export type MessageTls = 'required' | 'no';

/** What is asked of one mail exchanger. */
export interface TlsDemand {
  readonly policy: TlsPolicy;
  readonly mode: MxTls['mode'];
  /** The certificate has to be verified by an authority. */
  readonly verify: boolean;
  /** The records that the certificate is judged by in place of an authority; absent: no DANE. */
  readonly tlsa?: readonly TlsaRecord[];
  /** Nothing may be sent there at all, and why. */
  readonly forbidden?: string;
  /** Nobody can have forged the name of this mail exchanger: DNSSEC or a policy vouches for it (RFC 8689 §4.2.1). */
  readonly isNameTrusted: boolean;
}

interface DemandFacts {
  /** What the route says for the domain. */
  readonly tls: MxTls;
  readonly message: MessageTls | undefined;
  readonly sts: StsPolicy | undefined;
  readonly dane: DaneFinding;
  /** DNSSEC vouches for the names of the mail exchangers. */
  readonly isSecure: boolean;
}

/** The demand on one mail exchanger. @param exchanger its name in lower case */
export function demandOn(exchanger: string, { tls, message, sts, dane, isSecure }: DemandFacts): TlsDemand {
  const isNamed = sts !== undefined && sts.mode !== 'none' && isNamedBy(sts, exchanger);
  const isNameTrusted = isSecure || isNamed;
  const strict = { mode: 'required', verify: false, isNameTrusted } as const;
  // RFC 8689 §5: what the recipient's side asks for is passed over, what the operator asks for is not.
  const isRelaxed = message === 'no' || tls.mode === 'none';
  if (!isRelaxed && dane.kind === 'failed') return { ...strict, policy: 'dane', forbidden: dane.why };
  if (!isRelaxed && dane.kind === 'records') return { ...strict, policy: 'dane', tlsa: dane.records };
  if (!isRelaxed && sts?.mode === 'enforce') {
    const forbidden = isNamed ? {} : { forbidden: `the policy of its domain (MTA-STS) does not name ${exchanger}` };
    return { ...strict, policy: 'mta-sts', verify: true, ...forbidden };
  }
  if (message === 'required') return { ...strict, policy: 'required', verify: true };
  return { policy: tls.mode, mode: tls.mode, verify: tls.mode === 'required' && tls.verify, isNameTrusted };
}

/** How the SMTP client has to go about a demand. @param judge makes the judge of a certificate from usable TLSA records */
export function clientTls(
  { policy, mode, verify, tlsa, isNameTrusted }: TlsDemand,
  judge: (records: readonly TlsaRecord[]) => (peer: TLSSocket) => string | undefined,
) {
  const options = { tls: mode, tlsVerify: verify, policy, hostIsTrusted: isNameTrusted };
  // Records of which none can be used ask for TLS, and verify nothing (RFC 7672 §2.2).
  return tlsa && tlsa.length > 0 ? { ...options, judgePeer: judge(tlsa) } : options;
}

/** Why a domain that says it has a policy of MTA-STS has none that could be had (RFC 8460 §4.3.2.2). */
export interface StsFault {
  readonly failure: 'sts-policy-fetch-error' | 'sts-policy-invalid' | 'sts-webpki-invalid';
  /** A clause for people. */
  readonly why: string;
}

/** What went wrong: with TLS itself, or with the policy that asks for it. */
export type TlsFailure = TlsFault | 'dnssec-invalid' | StsFault['failure'];

/** How the TLS of one attempt to reach a mail exchanger went, as reports of TLS tell it (RFC 8460 §4.3). */
export interface TlsResult {
  readonly domain: string;
  readonly policy: /** `sts`: absent where the policy could not be had. */
    | { readonly type: 'sts'; readonly sts?: StsPolicy }
    | { readonly type: 'tlsa'; readonly tlsa: readonly TlsaRecord[] }
    | { readonly type: 'no-policy-found' };
  readonly exchanger: string;
  readonly address: string;
  /** Our own address, where there was a connection. */
  readonly localAddress?: string;
  /** Absent: TLS was established, and what the policy asks for holds. */
  readonly failure?: TlsFailure;
  readonly reason?: string;
}
