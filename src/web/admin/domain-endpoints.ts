// GET .../email/sending/domains: what to publish in DNS for each sending domain, and what DNS answers now (D26, D27,
// D50, D52).

import { Type } from 'typebox';
import type { Account, SendingDomain } from '../../accounts/account.ts';
import type { SigningKey } from '../../pipeline/sign/signed.ts';
import { accountPath, endpointsAt } from '../http/endpoint.ts';
import { refusal } from '../http/envelope.ts';
import type { V4Plugin } from '../http/v4-app.ts';
import { checkRecords, type DnsSettings } from './check-records.ts';
import { type DnsRecord, domainRecords, type RecordFacts } from './domain-records.ts';
import type { RecordCheck } from './judge-record.ts';
import { flag, isOn, isoTime, queryOf } from './schemas.ts';

/** What the endpoint needs. */
export interface DomainEndpointsParts {
  /** The keys of a sending domain. */
  readonly domainKeys: (domain: string) => readonly SigningKey[];
  readonly facts: RecordFacts;
  readonly dns: DnsSettings;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

const check = Type.Object(
  {
    state: Type.Enum(['ok', 'missing', 'different', 'error']),
    found: Type.Array(Type.String(), { description: 'The values that DNS answers' }),
    detail: Type.Optional(Type.String({ description: 'In what it differs, or what failed' })),
  },
  { title: 'RecordCheck' },
);

const record = Type.Object(
  {
    purpose: Type.Enum(['dkim', 'spf', 'mx', 'dmarc']),
    type: Type.Enum(['TXT', 'MX']),
    name: Type.String({ example: 's1._domainkey.example.com' }),
    value: Type.String({ description: "A TXT record's strings joined; an MX record's preference and host" }),
    zone: Type.String({ description: 'The same as a line of a zone file' }),
    published_by: Type.Enum(['domain', 'platform'], { description: 'Whose name it is' }),
    remark: Type.Optional(Type.String({ description: 'What is to be done before the record is of use' })),
    check: Type.Optional(check),
  },
  { title: 'DnsRecord' },
);

/** A sending domain in answers. */
export const sendingDomain = Type.Object(
  {
    name: Type.String({ example: 'example.com' }),
    subdomains: Type.Boolean({ description: 'Names below it may send too' }),
    return_path_domain: Type.String({ description: 'The domain of the reverse-paths that leave' }),
    checked_at: Type.Optional(Type.String({ description: 'When DNS was asked last, RFC 3339' })),
    records: Type.Array(record),
  },
  { title: 'SendingDomain' },
);

function shown(wanted: DnsRecord, verdict: RecordCheck | undefined) {
  const { publishedBy, ...record } = wanted;
  return { ...record, published_by: publishedBy, ...(verdict ? { check: verdict } : {}) };
}

const domainPath = Type.Object({
  ...accountPath.properties,
  name: Type.String({ description: 'A sending domain of the account', example: 'example.com' }),
});

/** The domain of the path. @throws Refusal 404 where it is not the account's */
function domainOf(account: Account, name: string): SendingDomain {
  const found = account.sendingDomains.find((domain) => domain.name === name.toLowerCase());
  if (found) return found;
  throw refusal('E_NOT_FOUND', 'The account has no such sending domain');
}

/** The endpoints of sending domains. */
export function domainEndpoints({ domainKeys, facts, dns, now }: DomainEndpointsParts): V4Plugin {
  /** The records of each domain, made once for the keys that are in force. */
  const made = new Map<string, readonly DnsRecord[]>();
  /** Checks under way, by account. Requests that come meanwhile share their answer. */
  const checking = new Map<string, Promise<ReadonlyMap<DnsRecord, RecordCheck>>>();
  /** What the last check of each account found, and when. */
  const last = new Map<string, { readonly at: number; readonly verdicts: ReadonlyMap<DnsRecord, RecordCheck> }>();

  function recordsOf(domain: SendingDomain): readonly DnsRecord[] {
    const found = made.get(domain.name) ?? domainRecords(domain, domainKeys(domain.name), facts);
    made.set(domain.name, found);
    return found;
  }

  async function checkAll(account: Account): Promise<ReadonlyMap<DnsRecord, RecordCheck>> {
    const records = account.sendingDomains.flatMap(recordsOf);
    const verdicts = await checkRecords(records, dns);
    const found = new Map(records.flatMap((one, index) => (verdicts[index] ? [[one, verdicts[index]] as const] : [])));
    last.set(account.id, { at: now(), verdicts: found });
    return found;
  }

  function checkOnce(account: Account): Promise<ReadonlyMap<DnsRecord, RecordCheck>> {
    const underWay = checking.get(account.id);
    if (underWay) return underWay;
    const started = checkAll(account).finally(() => checking.delete(account.id));
    checking.set(account.id, started);
    return started;
  }

  return (app) => {
    const register = endpointsAt(app, {
      path: '/accounts/:account_id/email/sending/domains',
      tag: 'Sending domains',
      reads: ['email:send', 'console:read'],
    });
    const ofDomain = { params: domainPath, result: sendingDomain.properties.records };
    register(
      'GET /:name/records',
      { ...ofDomain, operationId: 'listDomainRecords', summary: 'List the DNS records of a sending domain' },
      ({ account, params }) => recordsOf(domainOf(account, params.name)).map((one) => shown(one, undefined)),
    );
    register(
      'POST /:name/check',
      {
        ...ofDomain,
        operationId: 'checkDomainRecords',
        summary: 'Compare the DNS records of a sending domain with what DNS answers now',
        description: 'That takes up to some seconds.',
      },
      async ({ account, params }) => {
        const domain = domainOf(account, params.name);
        const verdicts = await checkOnce(account);
        return recordsOf(domain).map((one) => shown(one, verdicts.get(one)));
      },
    );
    register(
      'GET',
      {
        operationId: 'listSendingDomains',
        summary: 'List sending domains with their DNS records',
        description:
          'With `check=1` each record tells what DNS answers now; that takes up to some seconds. Without it each tells what the last check found.',
        query: queryOf({ check: Type.Optional(flag) }),
        result: Type.Array(sendingDomain),
      },
      async ({ account, query }) => {
        if (isOn(query.check)) await checkOnce(account);
        const known = last.get(account.id);
        return account.sendingDomains.map((domain) => ({
          name: domain.name,
          subdomains: domain.subdomains,
          return_path_domain: domain.returnPathDomain ?? facts.bounceDomain,
          ...(known ? { checked_at: isoTime(known.at) } : {}),
          records: recordsOf(domain).map((one) => shown(one, known?.verdicts.get(one))),
        }));
      },
    );
  };
}
