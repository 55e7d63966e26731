// The DNS records that a sending domain needs: DKIM, SPF and MX of the reverse-path, DMARC (D26, D27, D52).

import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import type { SendingDomain } from '../../accounts/account.ts';
import { publicRecord, txtRecord } from '../../pipeline/sign/dkim-key.ts';
import type { SigningKey } from '../../pipeline/sign/sign.ts';
import type { DnsRecord } from './domain-schemas.ts';

type Publisher = DnsRecord['published_by'];

/** What the records are made from beside the domain itself. */
export interface RecordFacts {
  /** The platform's bounce domain (D40a). */
  readonly bounceDomain: string;
  /** The host that takes bounces: the SMTP host name. */
  readonly mailHost: string;
  /** A listener takes bounces. */
  readonly takesBounces: boolean;
  /** SPF terms of the hosts that mail leaves from; see `spfSenders`. */
  readonly senders: readonly string[];
}

interface ListedRoute {
  readonly type: string;
  readonly host?: string;
  readonly standby?: readonly { readonly host: string }[];
  readonly localAddress?: readonly { readonly address: string }[];
}

/** Private ranges of addresses. Mail to a next hop in one of them leaves for the Internet by this host's own address. */
const inside: ReadonlySet<string> = new Set([
  'loopback',
  'private',
  'linkLocal',
  'uniqueLocal',
  'unspecified',
  'carrierGradeNat',
]);

/** The SPF terms (RFC 7208 §5) of the smarthosts, and of this host where there is none or one on its own network. */
export function spfSenders(routes: readonly ListedRoute[], mailHost: string): string[] {
  const terms = routes.flatMap(hostsOf).flatMap((host) => {
    if (isIP(host) === 0) return [host === 'localhost' ? `a:${mailHost}` : `a:${host}`];
    const address = ipaddr.process(host);
    if (inside.has(address.range())) return [`a:${mailHost}`];
    return [`${address.kind() === 'ipv4' ? 'ip4' : 'ip6'}:${address.toString()}`];
  });
  return terms.length === 0 ? [`a:${mailHost}`] : [...new Set(terms)];
}

/** What a route's mail leaves by: its smarthosts; by MX its own addresses, or those of this machine, which has no name here. */
function hostsOf({ type, host = 'localhost', standby = [], localAddress = [] }: ListedRoute): readonly string[] {
  if (type === 'capture') return [];
  if (type === 'mx') return localAddress.length > 0 ? localAddress.map(({ address }) => address) : ['localhost'];
  return [host, ...standby.map((one) => one.host)];
}

function spf(name: string, terms: readonly string[], published_by: Publisher): DnsRecord {
  return { purpose: 'spf', type: 'TXT', ...txtRecord(name, `v=spf1 ${terms.join(' ')} ~all`), published_by };
}

/** What the MX record is worth while no listener takes bounces. */
const nobodyTakesBounces =
  'nobody takes bounces there yet: enable a listener with role: bounce in smtp.listeners, or name the host of a mailbox that somebody reads';

function mx(name: string, facts: RecordFacts, published_by: Publisher): DnsRecord {
  const { mailHost: host, takesBounces } = facts;
  return {
    ...{ purpose: 'mx', type: 'MX', name, value: `10 ${host}`, zone: `${name}. IN MX 10 ${host}.`, published_by },
    ...(takesBounces ? {} : { remark: nobodyTakesBounces }),
  };
}

function dkim(key: SigningKey, published_by: Publisher): DnsRecord {
  return { purpose: 'dkim', type: 'TXT', ...publicRecord(key), published_by };
}

/** SPF and MX of the platform's bounce domain. */
function bounceRecords(facts: RecordFacts): DnsRecord[] {
  const { bounceDomain, senders } = facts;
  return [spf(bounceDomain, senders, 'platform'), mx(bounceDomain, facts, 'platform')];
}

/** The records of a sending domain: its own, then those of the domain that its reverse-paths are in (D26). */
export function domainRecords(
  domain: SendingDomain,
  keys: readonly SigningKey[],
  facts: RecordFacts,
): readonly DnsRecord[] {
  const { returnPathDomain } = domain;
  const own = [
    ...keys.map((key) => dkim(key, 'domain')),
    {
      purpose: 'dmarc',
      type: 'TXT',
      ...txtRecord(`_dmarc.${domain.name}`, 'v=DMARC1; p=none'),
      published_by: 'domain',
    },
  ] as const satisfies DnsRecord[];
  if (returnPathDomain === undefined || returnPathDomain === facts.bounceDomain) {
    return [...own, ...bounceRecords(facts)];
  }
  // With the include, a change of the sending hosts needs a change of the platform's record alone.
  const terms = [`include:${facts.bounceDomain}`];
  return [...own, spf(returnPathDomain, terms, 'domain'), mx(returnPathDomain, facts, 'domain')];
}

/** The records of the platform itself: those of its DKIM keys, and of the bounce domain. */
export function platformRecords(keys: readonly SigningKey[], facts: RecordFacts): readonly DnsRecord[] {
  return [...keys.map((key) => dkim(key, 'platform')), ...bounceRecords(facts)];
}
