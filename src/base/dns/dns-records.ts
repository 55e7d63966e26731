// Reads the records of one name out of a name server's answer, aliases followed (RFC 1034 §3.6.2, RFC 2308).

import type { Answer, DecodedPacket } from 'dns-packet';
import type { DnsType } from './dns-exchange.ts';

/** One MX record. */
export interface MxRecord {
  readonly preference: number;
  /** Lower case, without a dot at the end; `.` where the domain takes no mail (RFC 7505). */
  readonly exchange: string;
}

/** One TLSA record (RFC 6698 §2.1). */
export interface TlsaRecord {
  readonly usage: number;
  readonly selector: number;
  readonly matching: number;
  readonly data: Buffer;
}

/** What a record of each type is. */
export interface DnsRecordOf {
  readonly A: string;
  readonly AAAA: string;
  readonly MX: MxRecord;
  readonly TLSA: TlsaRecord;
  /** The strings of a record, joined. */
  readonly TXT: string;
}

/** Aliases in a row that are followed. */
export const longestChain = 8;
/** Records of one answer that are kept, of MX the best ones: a hostile name may have thousands. */
const mostRecords = 50;
/** Characters of a TXT record, and octets of a TLSA record, that are kept. */
const mostText = 1024;
const mostTlsa = 8192;
const hostName = /^(?=.{1,253}$)[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?)*$/;

/** A name in lower case without a dot at the end; `.` for the root. */
export function normalName(name: string): string {
  return name === '.' || name === '' ? '.' : name.toLowerCase().replace(/\.$/, '');
}

/** Whether a name in its normal form can be asked for and connected to: letters, digits, `-` and `_`. */
export function isHostName(name: string): boolean {
  return hostName.test(name);
}

function mxOf(answer: Answer): MxRecord | undefined {
  if (answer.type !== 'MX') return undefined;
  const exchange = normalName(answer.data.exchange);
  if (exchange !== '.' && !isHostName(exchange)) return undefined;
  return { preference: answer.data.preference ?? 0, exchange };
}

function txtOf(answer: Answer): string | undefined {
  if (answer.type !== 'TXT') return undefined;
  const strings = Array.isArray(answer.data) ? answer.data : [answer.data];
  // Cut before it is decoded: a piece of a text keeps the whole text in memory. A character takes at most four octets.
  return Buffer.concat(strings.map((one) => Buffer.from(one)))
    .subarray(0, 4 * mostText)
    .toString('utf8')
    .slice(0, mostText);
}

const readers: { readonly [T in DnsType]: (answer: Answer) => DnsRecordOf[T] | undefined } = {
  A: (answer) => (answer.type === 'A' ? answer.data : undefined),
  AAAA: (answer) => (answer.type === 'AAAA' ? answer.data : undefined),
  MX: mxOf,
  TLSA: (answer) => {
    if (answer.type !== 'TLSA') return undefined;
    const { usage, selector, matchingType, certificate } = answer.data;
    // A record that is too long is kept without its data, so that it counts as one that cannot be used.
    const data = certificate.length > mostTlsa ? Buffer.alloc(0) : Buffer.from(certificate);
    return { usage, selector, matching: matchingType, data };
  },
  TXT: txtOf,
};

/** How many octets of memory records take, about: a text may have two of them for each character. */
export function octetsOf(records: readonly DnsRecordOf[DnsType][]): number {
  return records.reduce<number>((sum, record) => {
    if (typeof record === 'string') return sum + 2 * record.length;
    return sum + ('exchange' in record ? 2 * record.exchange.length : record.data.length);
  }, 0);
}

function preferenceOf(record: DnsRecordOf[DnsType]): number {
  return typeof record === 'object' && 'preference' in record ? record.preference : 0;
}

/** The records that are kept: the best ones of MX, otherwise the first. */
function firstOf<R extends DnsRecordOf[DnsType]>(records: readonly R[]): readonly R[] {
  if (records.length <= mostRecords) return records;
  return records.toSorted((one, other) => preferenceOf(one) - preferenceOf(other)).slice(0, mostRecords);
}

/**
 * Reads what an answer has of a type.
 * @param asked in its normal form
 * @returns the name at the end of the aliases; its records; whether there are some and none can be used, as an MX whose name is no
 *   host name; the seconds for which this may be kept, undefined where the answer does not say. Undefined where aliases go round or
 *   without end
 */
export function readAnswer<T extends DnsType>(
  { answers = [], authorities = [] }: DecodedPacket,
  asked: string,
  type: T,
) {
  const ttls: number[] = [];
  const aliases = new Map<string, Answer & { readonly type: 'CNAME' }>();
  for (const answer of answers)
    if (answer.type === 'CNAME') aliases.set(normalName(answer.name), { ...answer, type: 'CNAME' });
  let name = asked;
  for (let steps = 0; ; steps += 1) {
    const alias = aliases.get(name);
    if (!alias) break;
    if (steps === longestChain) return undefined;
    ttls.push(alias.ttl ?? 0);
    name = normalName(alias.data);
  }
  const records: DnsRecordOf[T][] = [];
  let isSpoilt = false;
  for (const answer of answers) {
    if (answer.type !== type || normalName(answer.name) !== name) continue;
    const record = readers[type](answer);
    if (record === undefined) isSpoilt = true;
    else records.push(record);
    ttls.push('ttl' in answer ? (answer.ttl ?? 0) : 0);
  }
  // RFC 2308 §5: how long nothing may be kept, the SOA in the authority section says.
  if (records.length === 0) {
    for (const soa of authorities) if (soa.type === 'SOA') ttls.push(Math.min(soa.ttl ?? 0, soa.data.minimum ?? 0));
  }
  return {
    name,
    records: firstOf(records),
    isSpoilt: isSpoilt && records.length === 0,
    ttl: ttls.length === 0 ? undefined : Math.min(...ttls),
  };
}
