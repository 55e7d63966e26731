// GET .../email/sending/domains: what to publish in DNS, and what it answers now (D26, D27, D50, D52).

import { Type } from 'typebox';
import type { Account, SendingDomain } from '../../accounts/account.ts';
import { oncePer } from '../../base/once-per.ts';
import type { SigningKey } from '../../pipeline/sign/sign.ts';
import { component, endpoint, endpointsOf } from '../http/endpoint.ts';
import { refusal } from '../http/envelope.ts';
import type { V4Plugin } from '../http/v4-app.ts';
import { checkRecords, type DnsSettings } from './check-records.ts';
import { domainRecords, type RecordFacts } from './domain-records.ts';
import { type DnsRecord, dnsRecord, type RecordCheck, recordCheck } from './domain-schemas.ts';
import { closed, flag, isOn, isoTime } from './schemas.ts';

interface DomainEndpointsParts {
  readonly domainKeys: (domain: string) => readonly SigningKey[];
  readonly facts: RecordFacts;
  readonly dns: DnsSettings;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

const record = component('DnsRecord', { ...dnsRecord.properties, check: Type.Optional(recordCheck) });

/** A sending domain in answers. */
export const sendingDomain = component('SendingDomain', {
  name: Type.String({ example: 'example.com' }),
  subdomains: Type.Boolean({ description: 'Names below it may send too' }),
  return_path_domain: Type.String({ description: 'The domain of the reverse-paths that leave' }),
  checked_at: Type.Optional(Type.String({ description: 'When DNS was asked last, RFC 3339' })),
  records: Type.Array(record),
});

const domainPath = Type.Object({
  name: Type.String({ description: 'A sending domain of the account', example: 'example.com' }),
});

/** The domain of the path. @throws Refusal 404 where it is not the account's */
function domainOf(account: Account, name: string): SendingDomain {
  const found = account.sendingDomains.find((domain) => domain.name === name.toLowerCase());
  if (found) return found;
  throw refusal('E_NOT_FOUND', 'The account has no such sending domain');
}

type Verdicts = ReadonlyMap<DnsRecord, RecordCheck>;

function createChecks({ domainKeys, facts, dns, now }: DomainEndpointsParts) {
  /** The records of each domain, made once for the keys that are in force. */
  const recordsOf = oncePer((domain: SendingDomain) => domainRecords(domain, domainKeys(domain.name), facts));
  /** Checks under way, by account. Requests that come meanwhile share their answer. */
  const checking = new Map<string, Promise<Verdicts>>();
  /** What the last check of each account found, and when. */
  const last = new Map<string, { readonly at: number; readonly verdicts: Verdicts }>();

  async function checkAll(account: Account): Promise<Verdicts> {
    const records = account.sendingDomains.flatMap(recordsOf);
    const checks = await checkRecords(records, dns);
    const verdicts = new Map(checks.flatMap((check, index) => (records[index] ? [[records[index], check]] : [])));
    last.set(account.id, { at: now(), verdicts });
    return verdicts;
  }

  function check(account: Account): Promise<Verdicts> {
    const underWay = checking.get(account.id) ?? checkAll(account).finally(() => checking.delete(account.id));
    checking.set(account.id, underWay);
    return underWay;
  }

  return { recordsOf, check, lastOf: (account: Account) => last.get(account.id), bounceDomain: facts.bounceDomain };
}

function withChecks(records: readonly DnsRecord[], verdicts: Verdicts | undefined) {
  return records.map((one) => ({ ...one, check: verdicts?.get(one) }));
}

type Checks = ReturnType<typeof createChecks>;

const ofDomain = { params: domainPath, result: sendingDomain.properties.records };

const listRecords = endpoint({
  at: 'GET /:name/records',
  ...ofDomain,
  operationId: 'listDomainRecords',
  summary: 'List the DNS records of a sending domain',
  answer: ({ account, params }, { recordsOf }: Checks) => recordsOf(domainOf(account, params.name)),
});

const checkDomain = endpoint({
  at: 'POST /:name/check',
  ...ofDomain,
  operationId: 'checkDomainRecords',
  summary: 'Compare the DNS records of a sending domain with what DNS answers now',
  description: 'That takes up to some seconds.',
  async answer({ account, params }, { recordsOf, check }: Checks) {
    const domain = domainOf(account, params.name);
    return withChecks(recordsOf(domain), await check(account));
  },
});

const listDomains = endpoint({
  at: 'GET',
  operationId: 'listSendingDomains',
  summary: 'List sending domains with their DNS records',
  description:
    'With `check=1` each record tells what DNS answers now; that takes up to some seconds. Without it each tells what the last check found.',
  query: closed({ check: Type.Optional(flag) }),
  result: Type.Array(sendingDomain),
  async answer({ account, query }, { recordsOf, check, lastOf, bounceDomain }: Checks) {
    if (isOn(query.check)) await check(account);
    const known = lastOf(account);
    return account.sendingDomains.map((domain) => ({
      name: domain.name,
      subdomains: domain.subdomains,
      return_path_domain: domain.returnPathDomain ?? bounceDomain,
      checked_at: known && isoTime(known.at),
      records: withChecks(recordsOf(domain), known?.verdicts),
    }));
  },
});

/** The endpoints of sending domains. */
export function domainEndpoints(parts: DomainEndpointsParts): V4Plugin {
  const path = '/accounts/:account_id/email/sending/domains';
  const place = { path, tag: 'Sending domains', reads: ['email:send', 'console:read'] } as const;
  return endpointsOf(place, createChecks(parts), [listRecords, checkDomain, listDomains]);
}
