// Which mail exchangers a domain has, and what becomes of mail where it has none: a real name server, nothing sent.

import { describe, expect, test } from 'vitest';
import { createDnsLookup } from '../../../src/base/dns/dns-lookup.ts';
import { createAddressJudge } from '../../../src/delivery/mx/address-judge.ts';
import { type FindParts, findExchangers } from '../../../src/delivery/mx/mx-plan.ts';
import { type DnsName, startDnsServer } from '../../support/dns-server.ts';
import { manualClock } from '../../support/manual-clock.ts';

async function find(
  domain: string,
  names: Readonly<Record<string, DnsName>>,
  changes: Partial<FindParts> & { readonly allowPrivate?: readonly string[] } = {},
) {
  const server = await startDnsServer(names);
  // A silent server is waited for; one that answers has its time, however busy the machine is.
  const tryMs = names[domain]?.fails === 'silence' ? 200 : 5000;
  const { allowPrivate = [], ...parts } = changes;
  const found = await findExchangers(domain, {
    lookup: createDnsLookup({ servers: [server.address], validates: true, clock: manualClock(), tryMs }),
    judge: createAddressJudge({ allowPrivate, ownDoors: () => [{ host: '198.51.100.25', port: 25 }] }),
    port: 25,
    ownNames: new Set(['gateway.test']),
    families: [6, 4],
    ...parts,
  });
  return { found, asked: server.asked };
}

/** What was found, in short: hosts with their addresses, or the outcome. */
async function summary(...input: Parameters<typeof find>): Promise<string> {
  const { found } = await find(...input);
  if ('kind' in found) return `${found.kind} ${found.reply.code} ${found.reply.enhanced}`;
  return found.exchangers.map(({ name, addresses }) => `${name}=${addresses.join('+')}`).join(' ');
}

const one = { a: ['192.0.2.1'] };
const two = { a: ['192.0.2.2'] };

describe('a domain has', () => {
  test('its MX hosts, by preference, each with both families, IPv6 first', async () => {
    const names = {
      'x.test': { mx: ['20 two.test', '10 one.test'] },
      'one.test': { a: ['192.0.2.1', '192.0.2.9'], aaaa: ['2001:4860::1'] },
      'two.test': { a: ['192.0.2.2', '192.0.2.3', '192.0.2.4'] },
    };
    expect(await summary('x.test', names)).toBe('one.test=2001:4860::1+192.0.2.1 two.test=192.0.2.2+192.0.2.3');
    expect(await summary('x.test', names, { families: [4] })).toBe(
      'one.test=192.0.2.1+192.0.2.9 two.test=192.0.2.2+192.0.2.3',
    );
  });

  test('itself, where it has no MX record: both of its families', async () => {
    const names = { 'x.test': { a: ['192.0.2.1'], aaaa: ['2001:4860::1'] } };
    expect(await summary('x.test', names)).toBe('x.test=2001:4860::1+192.0.2.1');
    expect(await summary('x.test', { 'x.test': { aaaa: ['2001:4860::1'] } })).toBe('x.test=2001:4860::1');
  });

  test('the hosts of the name that it is an alias of', async () => {
    const names = { 'x.test': { cname: 'y.test' }, 'y.test': { mx: ['10 one.test'] }, 'one.test': one };
    expect(await summary('x.test', names)).toBe('one.test=192.0.2.1');
  });

  test('what an MX host is an alias of', async () => {
    const names = { 'x.test': { mx: ['10 alias.test'] }, 'alias.test': { cname: 'one.test' }, 'one.test': one };
    expect(await summary('x.test', names)).toBe('alias.test=192.0.2.1');
  });

  test('as an address literal, that address', async () => {
    expect(await summary('[192.0.2.7]', {})).toBe('192.0.2.7=192.0.2.7');
    expect(await summary('[IPv6:2001:4860::7]', {})).toBe('2001:4860::7=2001:4860::7');
    expect(await summary('[127.0.0.1]', {})).toBe('failed 550 5.4.4');
  });

  test('those of its hosts whose addresses are known, where DNS fails for others', async () => {
    const names: Record<string, DnsName> = {
      'x.test': { mx: ['10 one.test', '20 two.test'] },
      'one.test': { fails: 'SERVFAIL' },
      'two.test': two,
    };
    expect(await summary('x.test', names)).toBe('two.test=192.0.2.2');
  });

  test('those of its MX records that name a host', async () => {
    const names = { 'x.test': { mx: ['5 mail!server.test', '10 one.test'] }, 'one.test': one };
    expect(await summary('x.test', names)).toBe('one.test=192.0.2.1');
  });

  test('names that are vouched for only where the MX records are', async () => {
    const signed = { 'x.test': { mx: ['10 one.test'], secure: true }, 'one.test': one };
    expect((await find('x.test', signed)).found).toMatchObject({ isSecure: true });
    const unsigned = { 'x.test': { mx: ['10 one.test'] }, 'one.test': { ...one, secure: true } };
    expect((await find('x.test', unsigned)).found).toMatchObject({ isSecure: false });
  });
});

describe('mail fails for good', () => {
  test.each<[string, Record<string, DnsName>, string]>([
    ['no such domain', {}, 'failed 550 5.1.2'],
    ['a null MX (RFC 7505)', { 'x.test': { mx: ['0 .'], ...one } }, 'failed 556 5.1.10'],
    ['neither MX nor address', { 'x.test': { txt: ['v=spf1 -all'] } }, 'failed 550 5.1.2'],
    [
      'our own name first',
      { 'x.test': { mx: ['10 gateway.test', '20 one.test'] }, 'one.test': one },
      'failed 554 5.4.6',
    ],
    ['our own listener', { 'x.test': { mx: ['10 me.test'] }, 'me.test': { a: ['198.51.100.25'] } }, 'failed 554 5.4.6'],
    [
      'loopback',
      { 'x.test': { mx: ['10 l.test'] }, 'l.test': { a: ['127.0.0.1'], aaaa: ['::1'] } },
      'failed 550 5.4.4',
    ],
    ['a private network', { 'x.test': { a: ['10.1.2.3'] } }, 'failed 550 5.4.4'],
    ['loopback inside IPv6', { 'x.test': { aaaa: ['64:ff9b::7f00:1', '2002:7f00:1::1'] } }, 'failed 550 5.4.4'],
    ['multicast and nothing', { 'x.test': { a: ['224.0.0.1', '0.0.0.0', '255.255.255.255'] } }, 'failed 550 5.4.4'],
    ['an MX that is a loopback address', { 'x.test': { mx: ['10 127.0.0.1'] } }, 'failed 550 5.4.4'],
  ])('%s', async (_, names, outcome) => {
    expect(await summary('x.test', names)).toBe(outcome);
  });
});

describe('mail waits', () => {
  test.each<[string, Record<string, DnsName>]>([
    ['SERVFAIL for the domain', { 'x.test': { fails: 'SERVFAIL' } }],
    ['silence', { 'x.test': { fails: 'silence' } }],
    ['SERVFAIL for every host', { 'x.test': { mx: ['10 one.test'] }, 'one.test': { fails: 'SERVFAIL' } }],
    ['hosts without an address', { 'x.test': { mx: ['10 one.test'] }, 'one.test': { txt: ['nothing'] } }],
    ['hosts that do not exist', { 'x.test': { mx: ['10 gone.test'] } }],
    ['MX records that name no host', { 'x.test': { mx: ['10 mail!server.test', '20 -x.test'], a: ['192.0.2.1'] } }],
    ['an alias of a name that no host has', { 'x.test': { cname: 'bad!name.test' } }],
    ['aliases that go round', { 'x.test': { cname: 'y.test' }, 'y.test': { cname: 'x.test' } }],
  ])('%s', async (_, names) => {
    expect(await summary('x.test', names)).toBe('deferred 451 4.4.3');
  });
});

describe('a hostile domain', () => {
  test('our own name last: those before it are used', async () => {
    const names = {
      'x.test': { mx: ['10 one.test', '20 gateway.test', '30 two.test'] },
      'one.test': one,
      'two.test': two,
    };
    expect(await summary('x.test', names)).toBe('one.test=192.0.2.1');
  });

  test('a private host beside a good one is passed over', async () => {
    const names = {
      'x.test': { mx: ['10 in.test', '20 two.test'] },
      'in.test': { a: ['192.168.1.1', '192.0.2.8'], aaaa: ['fd00::1'] },
      'two.test': two,
    };
    expect(await summary('x.test', names)).toBe('in.test=192.0.2.8 two.test=192.0.2.2');
  });

  test('a private network may be allowed, and our own listener still is none', async () => {
    const names = { 'x.test': { a: ['10.1.2.3', '10.9.9.9'] } };
    expect(await summary('x.test', names, { allowPrivate: ['10.1.0.0/16'] })).toBe('x.test=10.1.2.3');
    const own = { 'x.test': { a: ['198.51.100.25'] } };
    expect(await summary('x.test', own, { allowPrivate: ['0.0.0.0/0'] })).toBe('failed 554 5.4.6');
  });

  test('of thousands of MX records the twenty best are looked at', async () => {
    const mx = Array.from({ length: 2500 }, (_, index) => `${2500 - index} m${index}.x`);
    const names = { x: { mx }, 'm2499.x': one };
    const { found, asked } = await find('x', names);
    expect('exchangers' in found && found.exchangers.map(({ name }) => name)).toEqual(['m2499.x']);
    expect(new Set(asked).size).toBe(1 + 20 * 2);
  });

  test('the same host many times is one', async () => {
    const mx = Array.from({ length: 500 }, () => '10 one.test');
    const { found } = await find('x.test', { 'x.test': { mx }, 'one.test': one });
    expect('exchangers' in found && found.exchangers).toHaveLength(1);
  });
});
