// GET .../email/sending/domains: what to publish in DNS for each sending domain, and what DNS answers now (D26, D27,
// D50, D52).

import { Type } from 'typebox';
import type { Account, SendingDomain } from '../accounts/account.ts';
import { Refusal, succeed } from '../http/envelope.ts';
import { submitterOf, type V4Plugin } from '../http/v4-app.ts';
import type { SigningKey } from '../sign/signed.ts';
import { checkRecords, type DnsSettings } from './check-records.ts';
import { type DnsRecord, domainRecords, type RecordFacts } from './domain-records.ts';
import type { RecordCheck } from './judge-record.ts';
import { accountPath, flag, isOn } from './schemas.ts';

/** What the endpoint needs. */
export interface DomainEndpointsParts {
  /** The keys of a sending domain. */
  readonly domainKeys: (domain: string) => readonly SigningKey[];
  readonly facts: RecordFacts;
  readonly dns: DnsSettings;
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

const sendingDomain = Type.Object(
  {
    name: Type.String({ example: 'example.com' }),
    subdomains: Type.Boolean({ description: 'Names below it may send too' }),
    return_path_domain: Type.String({ description: 'The domain of the reverse-paths that leave' }),
    records: Type.Array(record),
  },
  { title: 'SendingDomain' },
);

function shown(wanted: DnsRecord, verdict: RecordCheck | undefined) {
  const { publishedBy, ...record } = wanted;
  return { ...record, published_by: publishedBy, ...(verdict ? { check: verdict } : {}) };
}

const path = '/accounts/:account_id/email/sending/domains';
const reads = { scope: ['email:send', 'console:read'] } as const;
const domainPath = Type.Object({
  ...accountPath.properties,
  name: Type.String({ description: 'A sending domain of the account', example: 'example.com' }),
});

/** The domain of the path. @throws Refusal 404 where it is not the account's */
function domainOf(account: Account, name: string): SendingDomain {
  const found = account.sendingDomains.find((domain) => domain.name === name.toLowerCase());
  if (found) return found;
  throw new Refusal([{ token: 'E_NOT_FOUND', message: 'The account has no such sending domain' }]);
}

/** The endpoints of sending domains. */
export function domainEndpoints({ domainKeys, facts, dns }: DomainEndpointsParts): V4Plugin {
  /** The records of each domain, made once for the keys that are in force. */
  const made = new Map<string, readonly DnsRecord[]>();
  /** Checks under way, by account. Requests that come meanwhile share their answer. */
  const checking = new Map<string, Promise<ReadonlyMap<DnsRecord, RecordCheck>>>();

  function recordsOf(domain: SendingDomain): readonly DnsRecord[] {
    const found = made.get(domain.name) ?? domainRecords(domain, domainKeys(domain.name), facts);
    made.set(domain.name, found);
    return found;
  }

  async function checkAll(account: Account): Promise<ReadonlyMap<DnsRecord, RecordCheck>> {
    const records = account.sendingDomains.flatMap(recordsOf);
    const verdicts = await checkRecords(records, dns);
    return new Map(records.flatMap((one, index) => (verdicts[index] ? [[one, verdicts[index]] as const] : [])));
  }

  function checkOnce(account: Account): Promise<ReadonlyMap<DnsRecord, RecordCheck>> {
    const underWay = checking.get(account.id);
    if (underWay) return underWay;
    const started = checkAll(account).finally(() => checking.delete(account.id));
    checking.set(account.id, started);
    return started;
  }

  return (app) => {
    const ofDomain = { config: reads, tags: ['Sending domains'], params: domainPath } as const;
    app.get(
      `${path}/:name/records`,
      {
        config: ofDomain.config,
        schema: {
          operationId: 'listDomainRecords',
          summary: 'List the DNS records of a sending domain',
          tags: ofDomain.tags,
          params: ofDomain.params,
          response: { 200: sendingDomain.properties.records },
        },
      },
      async (request, reply) => {
        const domain = domainOf(submitterOf(request).account, request.params.name);
        return succeed(
          reply,
          recordsOf(domain).map((one) => shown(one, undefined)),
        );
      },
    );
    app.post(
      `${path}/:name/check`,
      {
        config: ofDomain.config,
        schema: {
          operationId: 'checkDomainRecords',
          summary: 'Compare the DNS records of a sending domain with what DNS answers now',
          description: 'That takes up to some seconds.',
          tags: ofDomain.tags,
          params: ofDomain.params,
          response: { 200: sendingDomain.properties.records },
        },
      },
      async (request, reply) => {
        const { account } = submitterOf(request);
        const domain = domainOf(account, request.params.name);
        const verdicts = await checkOnce(account);
        return succeed(
          reply,
          recordsOf(domain).map((one) => shown(one, verdicts.get(one))),
        );
      },
    );
    app.get(
      path,
      {
        config: reads,
        schema: {
          operationId: 'listSendingDomains',
          summary: 'List sending domains with their DNS records',
          description: 'With `check=1` each record tells what DNS answers now; that takes up to some seconds.',
          tags: ['Sending domains'],
          params: accountPath,
          querystring: Type.Object({ check: Type.Optional(flag) }, { additionalProperties: false }),
          response: { 200: Type.Array(sendingDomain) },
        },
      },
      async (request, reply) => {
        const { account } = submitterOf(request);
        const verdicts = isOn(request.query.check) ? await checkOnce(account) : undefined;
        const domains = account.sendingDomains.map((domain) => ({
          name: domain.name,
          subdomains: domain.subdomains,
          return_path_domain: domain.returnPathDomain ?? facts.bounceDomain,
          records: recordsOf(domain).map((one) => shown(one, verdicts?.get(one))),
        }));
        return succeed(reply, domains);
      },
    );
  };
}
