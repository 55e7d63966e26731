// The records of a sending domain, and what is made of DNS's answers: a real resolver against a server of our own.

import { generateKeyPairSync } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { SendingDomain } from '../../../src/accounts/account.ts';
import type { SigningKey } from '../../../src/pipeline/sign/sign.ts';
import { checkRecords } from '../../../src/web/admin/check-records.ts';
import { domainRecords, platformRecords, type RecordFacts, spfSenders } from '../../../src/web/admin/domain-records.ts';
import type { DnsRecord } from '../../../src/web/admin/domain-schemas.ts';
import { type DnsName, startDnsServer } from '../../support/dns-server.ts';

const facts: RecordFacts = {
  bounceDomain: 'bounces.platform.example',
  mailHost: 'mx.platform.example',
  takesBounces: true,
  senders: ['a:relay.example', 'ip4:203.0.113.9'],
};

const rsa: SigningKey = {
  domain: 'news.example.com',
  selector: 's1',
  algorithm: 'rsa',
  key: generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey,
};
const ed25519: SigningKey = {
  domain: 'news.example.com',
  selector: 'e1',
  algorithm: 'ed25519',
  key: generateKeyPairSync('ed25519').privateKey,
};

const domain: SendingDomain = {
  name: 'news.example.com',
  subdomains: true,
  dkim: [{ selector: 's1', algorithm: 'rsa' }],
};
const ownPath: SendingDomain = { ...domain, returnPathDomain: 'b.example.com' };

function one(records: readonly DnsRecord[], purpose: DnsRecord['purpose']): DnsRecord {
  const [found, ...others] = records.filter((record) => record.purpose === purpose);
  if (!found || others.length > 0) throw new Error(`want one ${purpose} record`);
  return found;
}

describe('what is to be published', () => {
  test('each key, DMARC, and the platform’s bounce domain', () => {
    const records = domainRecords(domain, [rsa, ed25519], facts);
    expect(records.map(({ purpose, name, published_by: by }) => [purpose, name, by])).toEqual([
      ['dkim', 's1._domainkey.news.example.com', 'domain'],
      ['dkim', 'e1._domainkey.news.example.com', 'domain'],
      ['dmarc', '_dmarc.news.example.com', 'domain'],
      ['spf', 'bounces.platform.example', 'platform'],
      ['mx', 'bounces.platform.example', 'platform'],
    ]);
    expect(records[0]?.value).toMatch(/^v=DKIM1; k=rsa; p=[A-Za-z0-9+/=]{390,400}$/);
    expect(records[0]?.zone).toMatch(/^s1\._domainkey\.news\.example\.com\. IN TXT \( "[^"]{255}"\n\t"[^"]+" \)$/);
    expect(records[1]?.value).toMatch(/^v=DKIM1; k=ed25519; p=[A-Za-z0-9+/]{43}=$/);
    expect(one(records, 'spf')).toMatchObject({
      type: 'TXT',
      value: 'v=spf1 a:relay.example ip4:203.0.113.9 ~all',
      zone: 'bounces.platform.example. IN TXT "v=spf1 a:relay.example ip4:203.0.113.9 ~all"',
    });
    expect(one(records, 'mx')).toMatchObject({
      type: 'MX',
      value: '10 mx.platform.example',
      zone: 'bounces.platform.example. IN MX 10 mx.platform.example.',
    });
  });

  test('a return path of its own includes the platform’s SPF', () => {
    const records = domainRecords(ownPath, [ed25519], facts);
    expect(one(records, 'spf')).toMatchObject({
      name: 'b.example.com',
      value: 'v=spf1 include:bounces.platform.example ~all',
      published_by: 'domain',
    });
    expect(one(records, 'mx')).toMatchObject({
      name: 'b.example.com',
      value: '10 mx.platform.example',
      published_by: 'domain',
    });
  });

  test('the platform’s own', () => {
    const records = platformRecords([{ ...ed25519, domain: 'platform.example', selector: 'p1' }], facts);
    expect(records.map(({ purpose, name }) => [purpose, name])).toEqual([
      ['dkim', 'p1._domainkey.platform.example'],
      ['spf', 'bounces.platform.example'],
      ['mx', 'bounces.platform.example'],
    ]);
  });

  test.each([
    [[], ['a:mx.example']],
    [[{ type: 'capture' }], ['a:mx.example']],
    [[{ type: 'smarthost', host: 'relay.example' }, { type: 'capture' }], ['a:relay.example']],
    [[{ type: 'smarthost', host: '203.0.113.9' }], ['ip4:203.0.113.9']],
    [[{ type: 'smarthost', host: '8.8.8.8' }], ['ip4:8.8.8.8']],
    [[{ type: 'smarthost', host: '2001:4860:4860::8888' }], ['ip6:2001:4860:4860::8888']],
    [
      [
        { type: 'smarthost', host: '127.0.0.1' },
        { type: 'smarthost', host: '10.0.0.1' },
      ],
      ['a:mx.example'],
    ],
    [
      [
        { type: 'smarthost', host: 'localhost' },
        { type: 'smarthost', host: 'r.example' },
      ],
      ['a:mx.example', 'a:r.example'],
    ],
    [
      [{ type: 'smarthost', host: 'one.example', standby: [{ host: 'two.example' }, { host: '8.8.8.8' }] }],
      ['a:one.example', 'a:two.example', 'ip4:8.8.8.8'],
    ],
    [[{ type: 'mx' }], ['a:mx.example']],
    [
      [{ type: 'mx', localAddress: [{ address: '8.8.8.8' }, { address: '2001:4860:4860::8888' }] }],
      ['ip4:8.8.8.8', 'ip6:2001:4860:4860::8888'],
    ],
    [[{ type: 'mx', localAddress: [{ address: '10.0.0.5' }] }], ['a:mx.example']],
  ])('routes %j send from %j', (routes, wanted) => {
    expect(spfSenders(routes, 'mx.example')).toEqual(wanted);
  });
});

describe('what DNS answers', () => {
  const key = one(domainRecords(domain, [ed25519], facts), 'dkim').value.replace(/^.*p=/, '');
  const rsaRecord = domainRecords(domain, [rsa], facts)[0];

  async function check(of: SendingDomain, keys: readonly SigningKey[], names: Readonly<Record<string, DnsName>>) {
    const server = await startDnsServer(names);
    const records = domainRecords(of, keys, facts);
    const verdicts = await checkRecords(records, server.settings());
    const by = (purpose: DnsRecord['purpose']) => verdicts[records.findIndex((record) => record.purpose === purpose)];
    return { verdicts, by, asked: server.asked };
  }

  test('all is well, long records and the organizational domain’s DMARC too', async () => {
    const { verdicts, asked } = await check(ownPath, [rsa, ed25519], {
      's1._domainkey.news.example.com': { txt: [rsaRecord?.value ?? ''] },
      'e1._domainkey.news.example.com': { cname: 'keys.elsewhere.example' },
      'keys.elsewhere.example': { txt: [`k=ed25519;p=${key.slice(0, 20)} ${key.slice(20)}`] },
      '_dmarc.example.com': { txt: ['v=DMARC1;p=reject;adkim=s'] },
      'b.example.com': {
        txt: ['verification=1', 'v=spf1 mx include:Bounces.Platform.Example -all'],
        mx: ['20 backup.example', '10 MX.platform.example'],
      },
    });
    expect(verdicts).toEqual([
      { state: 'ok', found: [rsaRecord?.value] },
      { state: 'ok', found: [expect.stringMatching(/^k=ed25519;p=/)] },
      {
        state: 'ok',
        found: ['v=DMARC1;p=reject;adkim=s'],
        detail: 'it stands at _dmarc.example.com; adkim=s: mail from a name below the domain fails DMARC',
      },
      { state: 'ok', found: ['v=spf1 mx include:Bounces.Platform.Example -all'] },
      { state: 'ok', found: ['10 MX.platform.example', '20 backup.example'] },
    ]);
    expect(new Set(asked).size).toBe(6);
  });

  test('nothing is there', async () => {
    const { verdicts } = await check(domain, [rsa], { 'bounces.platform.example': { txt: ['hello'] } });
    expect(verdicts).toEqual([
      { state: 'missing', found: [] },
      { state: 'missing', found: [] },
      { state: 'missing', found: [] },
      { state: 'missing', found: [] },
    ]);
  });

  test.each([
    [[`v=DKIM1; k=ed25519; p=${'A'.repeat(43)}=`], 'p= is another key'],
    [[`v=DKIM1; p=${key}`], 'k= is not ed25519'],
    [['v=DKIM1; k=ed25519; p='], 'the key is revoked: p= is empty'],
    [[`v=DKIM2; k=ed25519; p=${key}`], 'it is no DKIM key record'],
    [[`v=DKIM1; k=ed25519; p=${key}`, 'v=spf1 -all'], 'there are several TXT records, want one'],
    [['hello'], 'k= is not ed25519'],
  ])('DKIM %j: %s', async (txt, detail) => {
    const { by } = await check(domain, [ed25519], { 'e1._domainkey.news.example.com': { txt } });
    expect(by('dkim')).toMatchObject({ state: 'different', detail });
    expect([...(by('dkim')?.found ?? [])].sort()).toEqual([...txt].sort());
  });

  test.each([
    [['v=spf1 a:relay.example ip4:203.0.113.9 -all'], 'ok'],
    [['V=SPF1 +ip4:203.0.113.9  a:RELAY.example ?all'], 'ok'],
    [['v=spf1 a:relay.example -all'], 'different'],
    [['v=spf1 -a:relay.example ip4:203.0.113.9 -all'], 'different'],
    [['v=spf1 -all', 'v=spf1 a:relay.example ip4:203.0.113.9 ~all'], 'different'],
    [['v=spf10 a:relay.example'], 'missing'],
    [['spf2.0/pra a:relay.example'], 'missing'],
  ])('SPF %j is %s', async (txt, state) => {
    const { by } = await check(domain, [], { 'bounces.platform.example': { txt } });
    expect(by('spf')?.state).toBe(state);
  });

  test('SPF by redirect is as good as by include', async () => {
    const { by } = await check(ownPath, [], { 'b.example.com': { txt: ['v=spf1 redirect=bounces.platform.example'] } });
    expect(by('spf')?.state).toBe('ok');
  });

  test('MX elsewhere, and none at all (RFC 7505)', async () => {
    const elsewhere = await check(domain, [], { 'bounces.platform.example': { mx: ['10 mx.platform.example.org'] } });
    expect(elsewhere.by('mx')).toEqual({
      state: 'different',
      found: ['10 mx.platform.example.org'],
      detail: 'mx.platform.example is not among the hosts',
    });
    const none = await check(domain, [], { 'bounces.platform.example': { mx: ['0 '] } });
    expect(none.by('mx')?.state).toBe('different');
  });

  test.each([
    [['v=DMARC1; p=none'], 'ok', undefined],
    [['v = DMARC1 ; P=reject'], 'different', 'p= is not none, quarantine or reject'],
    [['v=DMARC1; p=Quarantine; rua=mailto:a@example.com'], 'ok', undefined],
    [['v=DMARC1'], 'different', 'p= is not none, quarantine or reject'],
    [['v=DMARC1; p=monitor'], 'different', 'p= is not none, quarantine or reject'],
    [['v=DMARC1; p=none', 'v=DMARC1; p=reject'], 'different', 'there are several DMARC records, want one'],
    [['v=DMARC12; p=none'], 'missing', undefined],
  ])('DMARC %j is %s', async (txt, state, detail) => {
    const { by } = await check(domain, [], { '_dmarc.news.example.com': { txt } });
    expect(by('dmarc')).toMatchObject({ state, ...(detail === undefined ? {} : { detail }) });
  });

  test('a name server that fails is an error, and the others are judged', async () => {
    const { verdicts } = await check(domain, [rsa, ed25519], {
      's1._domainkey.news.example.com': { fails: 'SERVFAIL' },
      'e1._domainkey.news.example.com': { fails: 'REFUSED' },
      '_dmarc.example.com': { fails: 'SERVFAIL' },
      'bounces.platform.example': { mx: ['5 mx.platform.example'] },
    });
    expect(verdicts).toEqual([
      { state: 'error', found: [], detail: 'the name server answered SERVFAIL' },
      { state: 'error', found: [], detail: 'the name server refused the query' },
      { state: 'error', found: [], detail: 'the name server answered SERVFAIL' },
      { state: 'missing', found: [] },
      { state: 'ok', found: ['5 mx.platform.example'] },
    ]);
  });

  test('silence ends when the time is over, for what waits in line too', async () => {
    const many = Array.from({ length: 40 }, (_, index): SigningKey => ({ ...ed25519, selector: `k${index}` }));
    const records = domainRecords(domain, many, facts);
    const server = await startDnsServer(Object.fromEntries(records.map(({ name }) => [name, { fails: 'silence' }])));
    const verdicts = await checkRecords(records, server.settings(100));
    expect(verdicts).toHaveLength(43);
    for (const verdict of verdicts) {
      expect(verdict).toEqual({ state: 'error', found: [], detail: 'the name server did not answer in time' });
    }
    expect(new Set(server.asked).size).toBeLessThanOrEqual(16);
  });

  test('what several records ask alike is asked once', async () => {
    const server = await startDnsServer({});
    const records = ['a.example', 'b.example'].flatMap((name) => domainRecords({ ...domain, name }, [], facts));
    await checkRecords(records, server.settings());
    expect([...server.asked].sort()).toEqual([
      'MX bounces.platform.example',
      'TXT _dmarc.a.example',
      'TXT _dmarc.b.example',
      'TXT bounces.platform.example',
    ]);
  });
});
