// DANE for SMTP (RFC 7672): TLSA records that a name server vouches for, and real certificates made here.

import { describe, expect, test } from 'vitest';
import type { DnsName } from '../../support/dns-server.ts';
import type { FaultSinkOptions } from '../../support/fault-sink.ts';
import { type MxEstate, policyOf, reach, startMxEstate, testAuthority, tlsaOf } from '../../support/mx-estate.ts';

const names = {
  'x.test': { mx: ['10 one.test'], secure: true },
  'one.test': { a: ['127.0.0.2'], secure: true },
};

const starttls = (certificate: { key: string; cert: string }): FaultSinkOptions => ({
  tls: { mode: 'starttls', ...certificate },
});

async function publish(estate: MxEstate, record: DnsName, host = 'one.test'): Promise<void> {
  estate.dns.names.set(`_${estate.port}._tcp.${host}`, { secure: true, ...record });
}

/** An exchanger with a certificate, its TLSA records, and what becomes of mail. */
async function outcome(
  make: (estate: MxEstate) => Promise<{ certificate: { key: string; cert: string }; tlsa: readonly string[] }>,
  changes: Record<string, DnsName> = {},
) {
  const estate = await startMxEstate({ ...names, ...changes });
  const { certificate, tlsa } = await make(estate);
  const sink = await estate.sink(2, starttls(certificate));
  await publish(estate, { tlsa });
  return { estate, sink, reached: await reach(estate.hops(), 'x.test') };
}

describe('usage 3 (the certificate itself)', () => {
  test.each([[[3, 0, 0]], [[3, 0, 1]], [[3, 0, 2]], [[3, 1, 0]], [[3, 1, 1]], [[3, 1, 2]]] as const)(
    '%j accepts it, though its name and dates are wrong',
    async (kind) => {
      const { reached, estate } = await outcome(async ({ authority }) => {
        const certificate = await authority.issue(['other.test'], { expired: true });
        return { certificate, tlsa: ['3 1 1 00', tlsaOf(certificate.cert, [kind[0], kind[1], kind[2]])] };
      });
      expect(reached).toBe('one.test TLS dane verified');
      expect(estate.results).toMatchObject([{ policy: { type: 'tlsa' }, exchanger: 'one.test' }]);
    },
  );

  test('refuses another one, although an authority has signed it', async () => {
    const { reached, estate, sink } = await outcome(async ({ authority }) => ({
      certificate: await authority.issue(['one.test']),
      tlsa: [tlsaOf((await authority.issue(['one.test'])).cert, [3, 1, 1])],
    }));
    expect(reached).toMatch(/^refused 451 4\.7\.5 one\.test\[127\.0\.0\.2\]: The certificate of one\.test is refused/);
    expect(sink.commands).toEqual(['EHLO gateway.test', 'STARTTLS']);
    expect(estate.results).toMatchObject([{ failure: 'tlsa-invalid' }]);
  });
});

describe('usage 2 (an authority)', () => {
  async function bySigner(leafNames: readonly string[], changes: { readonly expired?: boolean } = {}) {
    const signer = await testAuthority('Signer');
    const { reached } = await outcome(async () => {
      const certificate = await signer.issue(leafNames, changes);
      return { certificate, tlsa: [tlsaOf(signer.cert, [2, 0, 1])] };
    });
    return reached;
  }

  test('accepts what it has signed for the host or for the domain', async () => {
    expect(await bySigner(['one.test'])).toBe('one.test TLS dane verified');
    expect(await bySigner(['x.test'])).toBe('one.test TLS dane verified');
  });

  test('refuses what names somebody else, and what has expired', async () => {
    expect(await bySigner(['other.test'])).toMatch(/it names neither one\.test nor x\.test/);
    expect(await bySigner(['one.test'], { expired: true })).toMatch(/it is not in force now/);
  });

  test('refuses a certificate of another, which sends the pinned authority along', async () => {
    const signer = await testAuthority('Signer');
    const { reached } = await outcome(async ({ authority }) => {
      const stranger = await authority.issue(['one.test']);
      const own = stranger.cert.slice(0, stranger.cert.indexOf('-----END CERTIFICATE-----') + 26);
      return { certificate: { ...stranger, cert: `${own}\n${signer.cert}` }, tlsa: [tlsaOf(signer.cert, [2, 0, 1])] };
    });
    expect(reached).toMatch(/no authority that its TLSA records name has signed it/);
  });

  test('refuses what was signed by a certificate that is no authority', async () => {
    const { reached } = await outcome(async ({ authority }) => {
      const signer = await authority.issue(['one.test']);
      const certificate = await authority.issue(['one.test'], { by: signer });
      return { certificate, tlsa: [tlsaOf(signer.cert, [2, 0, 1])] };
    });
    expect(reached).toMatch(/^refused/);
  });

  test('does not take the certificate itself for its authority', async () => {
    const { reached } = await outcome(async ({ authority }) => {
      const certificate = await authority.issue(['one.test']);
      return { certificate, tlsa: [tlsaOf(certificate.cert, [2, 0, 1])] };
    });
    expect(reached).toMatch(/^refused/);
  });
});

describe('records that SMTP does not use', () => {
  test.each([
    ['0 0 1', '11'.repeat(32)],
    ['1 1 1', '11'.repeat(32)],
    ['3 1 1', '1122'],
    ['3 9 1', '11'.repeat(32)],
  ])('%s: TLS is a must, with any certificate', async (kind, hex) => {
    const { reached, estate, sink } = await outcome(async ({ authority }) => ({
      certificate: await authority.issue(['other.test']),
      tlsa: [`${kind} ${hex}`],
    }));
    expect(reached).toBe('one.test TLS dane');
    await sink.close();
    await estate.sink(2);
    expect(await reach(estate.hops(), 'x.test')).toMatch(/^refused 451 4\.7\.4/);
  });
});

describe('what a name server says', () => {
  test('failing for the TLSA records, nothing is sent', async () => {
    const estate = await startMxEstate(names);
    const sink = await estate.sink(2, starttls(await estate.authority.issue(['one.test'])));
    await publish(estate, { fails: 'SERVFAIL' });
    expect(await reach(estate.hops(), 'x.test')).toMatch(/^refused 451 4\.7\.5 .*SERVFAIL/);
    expect(sink.connections).toBe(0);
    expect(estate.results).toMatchObject([{ failure: 'dnssec-invalid' }]);
  });

  test.each<[string, Record<string, DnsName>]>([
    ['the MX records', { 'x.test': { mx: ['10 one.test'] } }],
    ['the address', { 'one.test': { a: ['127.0.0.2'] } }],
  ])('without vouching for %s is not believed, and the TLSA records are not asked for', async (_, changes) => {
    const { reached, estate } = await outcome(
      async ({ authority }) => ({
        certificate: await authority.issue(['other.test']),
        tlsa: [`3 1 1 ${'0'.repeat(64)}`],
      }),
      changes,
    );
    expect(reached).toBe('one.test TLS opportunistic');
    expect(estate.dns.asked.filter((question) => question.startsWith('TLSA'))).toEqual([]);
  });

  test('counts for nothing where it is not said to validate', async () => {
    const estate = await startMxEstate(names, { validates: false });
    await estate.sink(2, starttls(await estate.authority.issue(['other.test'])));
    await publish(estate, { tlsa: [`3 1 1 ${'0'.repeat(64)}`] });
    expect(await reach(estate.hops(), 'x.test')).toBe('one.test TLS opportunistic');
  });

  test('of an exchanger without TLSA records, it goes by the route', async () => {
    const estate = await startMxEstate(names);
    await estate.sink(2);
    expect(await reach(estate.hops(), 'x.test')).toBe('one.test clear opportunistic');
  });
});

describe('beside a policy of MTA-STS', () => {
  const withPolicy = {
    ...names,
    'mta-sts.x.test': { a: ['127.0.0.1'] },
    '_mta-sts.x.test': { txt: ['v=STSv1; id=1;'] },
  };

  test('a failing TLSA record is not overridden by a certificate that the policy would take', async () => {
    const estate = await startMxEstate(withPolicy);
    estate.policy = policyOf(['mode: enforce', 'mx: one.test', 'max_age: 86400']);
    await estate.sink(2, starttls(await estate.authority.issue(['one.test'])));
    await publish(estate, { tlsa: [`3 1 1 ${'0'.repeat(64)}`] });
    expect(await reach(estate.hops(), 'x.test')).toMatch(/its TLSA records name another/);
  });

  test('where there are no TLSA records the policy decides', async () => {
    const estate = await startMxEstate(withPolicy);
    estate.policy = policyOf(['mode: enforce', 'mx: one.test', 'max_age: 86400']);
    await estate.sink(2, starttls(await estate.authority.issue(['one.test'])));
    expect(await reach(estate.hops(), 'x.test')).toBe('one.test TLS mta-sts verified');
  });
});

test('a new key in DNS is another next hop, so that no connection of the old one is used', async () => {
  const estate = await startMxEstate(names);
  const hops = estate.hops();
  const keyOf = async () => {
    const hop = await hops.find('x.test');
    return 'key' in hop ? hop.key : '';
  };
  const plain = await keyOf();
  await publish(estate, { tlsa: [`3 1 1 ${'1'.repeat(64)}`] });
  estate.clock.pass(120);
  const first = await keyOf();
  await publish(estate, { tlsa: [`3 1 1 ${'2'.repeat(64)}`] });
  estate.clock.pass(120);
  expect(new Set([plain, first, await keyOf()]).size).toBe(3);
});

test('a certificate that names the domain in place of the exchanger serves that domain alone, and the order of records does not count', async () => {
  const estate = await startMxEstate({ ...names, 'y.test': { mx: ['10 one.test'], secure: true } });
  const keyOf = async (domain: string) => {
    const hop = await estate.hops().find(domain);
    return 'key' in hop ? hop.key : hop.reply.text;
  };
  await publish(estate, { tlsa: [`3 1 1 ${'00'.repeat(32)}`] });
  expect(await keyOf('x.test')).toBe(await keyOf('y.test'));
  await publish(estate, { tlsa: [`3 1 1 ${'00'.repeat(32)}`, `3 1 1 ${'11'.repeat(32)}`] });
  const two = await keyOf('x.test');
  await publish(estate, { tlsa: [`3 1 1 ${'11'.repeat(32)}`, `3 1 1 ${'00'.repeat(32)}`] });
  expect(await keyOf('x.test')).toBe(two);
  await publish(estate, { tlsa: [`2 1 1 ${'00'.repeat(32)}`] });
  expect(await keyOf('x.test')).not.toBe(await keyOf('y.test'));
});
