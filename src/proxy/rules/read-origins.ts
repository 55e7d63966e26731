// Reads where an application's traffic goes: `origin_direct`, `origin_dns` and `origin_port` (D81, D82).

import { isRecord } from '../../base/is-record.ts';
import type { ApplicationFields, PortRange } from '../application/application.ts';
import { parseDomainName } from '../application/domain-name.ts';
import { type OriginFlaw, type OriginText, parseOrigin } from '../application/origin-text.ts';
import { parsePorts } from '../application/port-ranges.ts';
import { got, quote } from '../application/quote.ts';
import { maxAddresses, member, type Reading } from './reading.ts';

const flawTexts = {
  scheme: 'does not begin with "tcp://" or "udp://"',
  brackets: 'has an IPv6 address without brackets',
  'bracketed-ipv4': 'has brackets around an IPv4 address',
  address: 'has no IP address behind its scheme',
  port: 'does not end in a port or an ascending range of ports, 1-65535',
} as const satisfies Record<OriginFlaw, string>;

/** An entry of `origin_direct` that was read. */
export interface ReadOrigin extends OriginText {
  /** As it was given. */
  readonly text: string;
  readonly pointer: string;
}

/** `origin_direct`. */
export interface ReadOrigins {
  readonly origins: readonly ReadOrigin[];
  /** Entries, readable or not. */
  readonly originCount: number;
  /** The readable ones as they were given; undefined where there is no array. */
  readonly texts: readonly string[] | undefined;
}

/** Reads `origin_direct`: 10001 for another type, 11000 for none, 11002 for each entry that cannot be read (D82). */
export function readOriginDirect(value: unknown, { report }: Reading): ReadOrigins {
  const none = { origins: [], originCount: 0, texts: undefined };
  if (value === undefined) return none;
  if (!Array.isArray(value)) {
    report(10001, '/origin_direct', `"origin_direct" must be an array of texts; got ${got(value)}`);
    return none;
  }
  const entries: readonly unknown[] = value;
  if (entries.length === 0) report(11000, '/origin_direct', '"origin_direct" is empty');
  if (entries.length > maxAddresses) {
    const text = `"origin_direct" may have at most ${maxAddresses} entries; got ${entries.length}`;
    report(10001, '/origin_direct', text);
    return { ...none, originCount: entries.length };
  }
  const origins = entries.flatMap((text, index) => {
    const pointer = `/origin_direct/${index}`;
    if (typeof text !== 'string') {
      report(11002, pointer, `an entry of "origin_direct" must be a text; got ${got(text)}`);
      return [];
    }
    const read = parseOrigin(text);
    if (typeof read === 'object') return [{ ...read, text, pointer }];
    report(11002, pointer, `origin ${quote(text)} ${flawTexts[read]}`);
    return [];
  });
  return { origins, originCount: entries.length, texts: origins.map(({ text }) => text) };
}

/** D81: seconds that an answer about an origin may be kept. */
const originTtl = { min: 600, max: 86_400 } as const;

const originTypes = ['', 'A', 'AAAA', 'SRV'] as const;

type OriginDns = NonNullable<ApplicationFields['origin_dns']>;

function readOriginName(value: unknown, { isPartial, report }: Reading): string | undefined {
  const name = typeof value === 'string' ? parseDomainName(value) : undefined;
  if (name !== undefined || (isPartial && value === undefined)) return name;
  const wrong = `"origin_dns.name" must be a domain name; got ${got(value)}`;
  return report(11001, '/origin_dns/name', value === undefined ? '"origin_dns.name" is missing' : wrong);
}

/** Reads `origin_dns`; every fault of a member is 11001 (D82). `isTypeKnown` is true for an absent type, too. */
export function readOriginDns(
  value: unknown,
  reading: Reading,
): Partial<OriginDns> & { readonly isTypeKnown: boolean } {
  const { report } = reading;
  if (value === undefined) return { isTypeKnown: false };
  if (!isRecord(value)) {
    report(10001, '/origin_dns', `"origin_dns" must be an object with "name"; got ${got(value)}`);
    return { isTypeKnown: false };
  }
  const name = readOriginName(member(value, 'name'), reading);
  const givenType = member(value, 'type');
  const type = originTypes.find((known) => known === givenType);
  const isTypeKnown = givenType === undefined || type !== undefined;
  if (!isTypeKnown) {
    report(11001, '/origin_dns/type', `"origin_dns.type" must be "", "A", "AAAA" or "SRV"; got ${got(givenType)}`);
  }
  const ttl = member(value, 'ttl');
  const { min, max } = originTtl;
  const isTtlKnown = typeof ttl === 'number' && Number.isInteger(ttl) && ttl >= min && ttl <= max;
  if (ttl !== undefined && !isTtlKnown) {
    report(11001, '/origin_dns/ttl', `"origin_dns.ttl" must be ${min} to ${max} whole seconds; got ${got(ttl)}`);
  }
  return {
    isTypeKnown,
    ...(name === undefined ? {} : { name }),
    ...(type === undefined ? {} : { type }),
    ...(isTtlKnown ? { ttl } : {}),
  };
}

/** Reads `origin_port`. D81: an integer, or `a-b`; a single port as text is neither. */
export function readOriginPort(value: unknown, { report }: Reading): PortRange | undefined {
  if (value === undefined) return undefined;
  const text =
    typeof value === 'number' ? String(value) : typeof value === 'string' && value.includes('-') ? value : '';
  const want = '"origin_port" must be a whole number or an ascending range such as "1000-2000", of 1-65535';
  return parsePorts(text) ?? report(11000, '/origin_port', `${want}; got ${got(value)}`);
}
