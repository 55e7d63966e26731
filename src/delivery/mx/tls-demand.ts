// What is asked of the TLS of a connection to a mail exchanger. Where its DNS records name its certificate (DANE), they decide;
// else the policy of the recipient's domain (MTA-STS); else the route (RFC 7672, RFC 8461 §2, RFC 8689).

import { hash, type X509Certificate } from 'node:crypto';
import type { TLSSocket } from 'node:tls';
import type { Clock } from '../../base/clock.ts';
import type { DnsLookup } from '../../base/dns/dns-lookup.ts';
import type { TlsaRecord } from '../../base/dns/dns-records.ts';
import type { TlsPolicy } from '../../mail/tls-facts.ts';
import type { TlsFault } from '../smtp/smtp-client.ts';
import type { MxTls } from './settings.ts';
import { isNamedBy, type StsPolicy } from './sts-policy.ts';

/** What DNS says of a mail exchanger's certificate. */
type DaneFinding =
  /** No TLSA records that a resolver has vouched for. */
  | { readonly kind: 'none' }
  /** Those that can be used; empty where all are of a kind that SMTP does not use: then TLS is a must, with any certificate. */
  | { readonly kind: 'records'; readonly records: readonly TlsaRecord[] }
  /** It cannot be known, so nothing may be sent to this host (RFC 7672 §2.1.1). */
  | { readonly kind: 'failed'; readonly why: string };

/** The usage of records that name an authority above the certificate (RFC 7672 §3.1.2). */
export const trustAnchor = 2;
const endEntity = 3;
/** Octets of what each matching type compares: SHA-256 and SHA-512; the whole certificate or key has any length. */
const digestOctets: Readonly<Record<number, number>> = { 1: 32, 2: 64 };
/** Records of one host, and certificates of its chain, that are looked at. */
const mostRecords = 50;
const longestChain = 10;

/** RFC 7672 §3.1: SMTP uses no other kinds; RFC 6698 §2.1.2 and §2.1.3 have the selectors and matching types. */
function isUsable({ usage, selector, matching, data }: TlsaRecord): boolean {
  const isKnown = (usage === trustAnchor || usage === endEntity) && selector <= 1 && matching <= 2;
  return isKnown && data.length > 0 && data.length === (digestOctets[matching] ?? data.length);
}

/** Finds an exchanger's TLSA records, if its address is vouched for: an unsigned zone has none (RFC 7672 §2.2.2). @param host A-label */
export async function findTlsa(lookup: DnsLookup, host: string, port: number): Promise<DaneFinding> {
  const [ipv4, ipv6] = await Promise.all([lookup.find(host, 'A'), lookup.find(host, 'AAAA')]);
  const hasSecureAddress = [ipv4, ipv6].some((one) => one.kind === 'found' && one.isSecure);
  if (!hasSecureAddress) return { kind: 'none' };
  const found = await lookup.find(`_${port}._tcp.${host}`, 'TLSA');
  if (found.kind === 'failed') return { kind: 'failed', why: found.why };
  if (found.kind !== 'found' || !found.isSecure) return { kind: 'none' };
  return { kind: 'records', records: found.records.slice(0, mostRecords).filter(isUsable) };
}

/** The issuers that the peer sent, from the one of its own certificate on. */
function issuersOf(leaf: X509Certificate): readonly X509Certificate[] {
  const issuers: X509Certificate[] = [];
  let certificate = leaf;
  for (
    let issuer = leaf.issuerCertificate;
    issuer && issuers.length < longestChain;
    issuer = issuer.issuerCertificate
  ) {
    // A certificate that signed itself is its own issuer.
    if (issuer.fingerprint256 === certificate.fingerprint256) break;
    issuers.push(issuer);
    certificate = issuer;
  }
  return issuers;
}

/** Whether a certificate or its key is the one that a record names (RFC 6698 §2.1.2 to §2.1.4). */
function isNamed(certificate: X509Certificate, { selector, matching, data }: TlsaRecord): boolean {
  const octets = selector === 0 ? certificate.raw : certificate.publicKey.export({ type: 'spki', format: 'der' });
  return data.equals(matching === 0 ? octets : hash(matching === 1 ? 'sha256' : 'sha512', octets, 'buffer'));
}

function hasSigned(issuer: X509Certificate, certificate: X509Certificate): boolean {
  try {
    return certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey);
  } catch {
    // A key of a kind that OpenSSL does not know has signed nothing.
    return false;
  }
}

/** The issuers on the way up from a certificate, each of which has really signed the one before: a peer may send any beside its own. */
function signersOf(leaf: X509Certificate, issuers: readonly X509Certificate[]): readonly X509Certificate[] {
  const signers: X509Certificate[] = [];
  for (let last = leaf; ; ) {
    const next = issuers.find((issuer) => !signers.includes(issuer) && hasSigned(issuer, last));
    if (next === undefined) return signers;
    signers.push(next);
    last = next;
  }
}

function isInForce(certificate: X509Certificate, now: number): boolean {
  return certificate.validFromDate.getTime() <= now && now <= certificate.validToDate.getTime();
}

/**
 * Makes the judge of a peer's certificate. By usage 3 the key or certificate alone counts; by usage 2 it must be in force,
 * name the host or the recipient's domain, and be signed, through authorities in force, by the one named (RFC 7672 §3.1, §3.2).
 * @param records usable ones; empty accepts any certificate
 * @param names of which the certificate has to name one
 */
export function daneJudge(
  records: readonly TlsaRecord[],
  names: readonly string[],
  clock: Pick<Clock, 'now'>,
): (peer: TLSSocket) => string | undefined {
  return (peer) => {
    if (records.length === 0) return undefined;
    const leaf = peer.getPeerX509Certificate();
    if (!leaf) return 'it sent none';
    const ofLeaf = (record: TlsaRecord): boolean => isNamed(leaf, record);
    if (records.some((record) => record.usage === endEntity && ofLeaf(record))) return undefined;
    // RFC 7671 §5.2: usage 2 means an authority above the certificate, not the certificate itself.
    const ofAnchor = records.filter((record) => record.usage === trustAnchor && !ofLeaf(record));
    if (ofAnchor.length === 0) return 'its TLSA records name another';
    const now = clock.now();
    if (!isInForce(leaf, now)) return 'it is not in force now';
    if (!names.some((name) => leaf.checkHost(name, { subject: 'never' }) !== undefined)) {
      return `it names neither ${names.join(' nor ')}`;
    }
    // RFC 7671 §5.2: only an authority may stand between, and only one in force.
    const issuers = issuersOf(leaf).filter((issuer) => issuer.ca && isInForce(issuer, now));
    const signers = signersOf(leaf, issuers);
    const isPinned = ofAnchor.some((record) => signers.some((signer) => isNamed(signer, record)));
    return isPinned ? undefined : 'no authority that its TLSA records name has signed it';
  };
}

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
