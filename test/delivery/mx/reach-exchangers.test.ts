// Connecting to mail exchangers: order, failover, and TLS as far as the route and the message decide about it.

import { connect, createServer, type Socket } from 'node:net';
import { queryObjects } from 'node:v8';
import { describe, expect, onTestFinished, test } from 'vitest';
import { SmtpConnection } from '../../../src/delivery/smtp/smtp-client.ts';
import { testCertificate } from '../../support/certificate.ts';
import type { FaultSinkOptions } from '../../support/fault-sink.ts';
import { type MxEstate, reach, startMxEstate } from '../../support/mx-estate.ts';

const names = {
  'x.test': { mx: ['10 one.test', '20 two.test'] },
  'y.test': { mx: ['20 two.test', '10 one.test'] },
  'z.test': { mx: ['10 one.test'] },
  'one.test': { a: ['127.0.0.2'] },
  'two.test': { a: ['127.0.0.3'] },
};

async function starttls(estate: MxEstate, host: string): Promise<FaultSinkOptions> {
  return { tls: { mode: 'starttls', ...(await estate.authority.issue([host])) } };
}

describe('order', () => {
  test('the lowest preference first, and the next where it does not answer', async () => {
    const estate = await startMxEstate(names);
    const one = await estate.sink(2);
    await estate.sink(3);
    const hops = estate.hops();
    expect(await reach(hops, 'x.test')).toBe('one.test clear opportunistic');
    await one.close();
    expect(await reach(hops, 'x.test')).toBe('two.test clear opportunistic');
  });

  test.each([
    ['a greeting of 554', { greeting: '554 no service here' }],
    ['a greeting of 421', { greeting: '421 too busy' }],
    ['garbage', { greeting: 'HTTP/1.1 400 Bad Request' }],
  ])('%s sends mail to the next', async (_, options) => {
    const estate = await startMxEstate(names);
    await estate.sink(2, options);
    await estate.sink(3);
    expect(await reach(estate.hops(), 'x.test')).toBe('two.test clear opportunistic');
  });

  test('what has failed is tried last for a minute, then first again', async () => {
    const estate = await startMxEstate(names);
    await estate.sink(3);
    const hops = estate.hops();
    expect(await reach(hops, 'x.test')).toBe('two.test clear opportunistic');
    const one = await estate.sink(2);
    expect(await reach(hops, 'x.test')).toBe('two.test clear opportunistic');
    expect(one.connections).toBe(0);
    estate.clock.pass(61);
    expect(await reach(hops, 'x.test')).toBe('one.test clear opportunistic');
  });

  test('equals share the mail at random', async () => {
    const estate = await startMxEstate({ ...names, 'x.test': { mx: ['10 one.test', '10 two.test'] } });
    await estate.sink(2);
    await estate.sink(3);
    const hops = estate.hops();
    const reached = new Set<string>();
    for (let count = 0; count < 40; count += 1) reached.add(await reach(hops, 'x.test'));
    expect([...reached].sort()).toEqual(['one.test clear opportunistic', 'two.test clear opportunistic']);
  });

  test('where nobody answers, the words of the first are told', async () => {
    const estate = await startMxEstate(names);
    expect(await reach(estate.hops(), 'x.test')).toMatch(
      /^refused 451 4\.4\.1 one\.test\[127\.0\.0\.2\]: Cannot connect: connect ECONNREFUSED/,
    );
  });

  test('an attempt that is over leaves nothing behind until the time for it would be over', async () => {
    const estate = await startMxEstate(names);
    const hops = estate.hops();
    await reach(hops, 'x.test');
    const before = queryObjects(AbortSignal, { format: 'count' });
    for (let count = 0; count < 50; count += 1) await reach(hops, 'x.test');
    expect(queryObjects(AbortSignal, { format: 'count' }) - before).toBeLessThan(25);
  });

  test('an attempt is broken off by its signal', async () => {
    const estate = await startMxEstate(names);
    const sockets = new Set<Socket>();
    const silent = createServer((socket) => sockets.add(socket));
    await new Promise<void>((resolve) => silent.listen(estate.port, '127.0.0.2', resolve));
    onTestFinished(() => {
      for (const socket of sockets) socket.destroy();
      silent.close();
    });
    const hop = await estate.hops().find('z.test');
    if ('kind' in hop) throw new Error('no hop');
    const ending = new AbortController();
    const result = hop.connect({ domain: 'z.test', signal: ending.signal });
    await expect.poll(() => sockets.size).toBe(1);
    ending.abort();
    expect(await result).toMatchObject({ refused: { code: 451 } });
  });
});

describe('keys', () => {
  test('for REQUIRETLS, exchangers that DNSSEC vouches for share no connection with those that anybody may have named', async () => {
    const estate = await startMxEstate({ ...names, 'x.test': { ...names['x.test'], secure: true } });
    const hops = estate.hops();
    const keyOf = async (domain: string, tls?: 'required') => {
      const hop = await hops.find(domain, tls);
      return 'key' in hop ? hop.key : hop.reply.text;
    };
    expect(await keyOf('x.test', 'required')).not.toBe(await keyOf('y.test', 'required'));
    expect(await keyOf('x.test')).toBe(await keyOf('y.test'));
  });

  test('domains with the same exchangers share one, others do not', async () => {
    const estate = await startMxEstate(names);
    const hops = estate.hops();
    const keyOf = async (domain: string, tls?: 'required' | 'no') => {
      const hop = await hops.find(domain, tls);
      return 'key' in hop ? hop.key : hop.reply.text;
    };
    expect(await keyOf('x.test')).toBe(await keyOf('Y.test'));
    expect(await keyOf('x.test')).not.toBe(await keyOf('z.test'));
    expect(await keyOf('x.test', 'required')).not.toBe(await keyOf('x.test'));
    expect(await keyOf('x.test', 'no')).toBe(await keyOf('x.test'));
  });
});

describe('TLS that nobody asks for', () => {
  test('is used with any certificate', async () => {
    const estate = await startMxEstate(names);
    await estate.sink(2, { tls: { mode: 'starttls', ...(await testCertificate(['other.test'])) } });
    expect(await reach(estate.hops(), 'z.test')).toBe('one.test TLS opportunistic');
    expect(estate.results).toMatchObject([{ policy: { type: 'no-policy-found' }, exchanger: 'one.test' }]);
  });

  test('that fails gives way to a connection in the clear, and the failure is told', async () => {
    const estate = await startMxEstate(names);
    const certificate = await testCertificate();
    const sink = await estate.sink(2, {
      tls: { mode: 'starttls', ...certificate },
      injectAfterStarttls: '250 injected\r\n',
    });
    expect(await reach(estate.hops(), 'z.test')).toBe('one.test clear opportunistic');
    expect(sink.connections).toBe(2);
    expect(estate.results).toMatchObject([{ failure: 'validation-failure' }]);
  });

  test('is never begun where the route says none', async () => {
    const estate = await startMxEstate(names);
    await estate.sink(2, await starttls(estate, 'one.test'));
    const hops = estate.hops({ tls: { mode: 'none', verify: false } });
    expect(await reach(hops, 'z.test')).toBe('one.test clear none');
  });
});

describe('TLS that the route asks for', () => {
  const required = { tls: { mode: 'required', verify: true } } as const;

  test('goes where the certificate is trusted and names the host', async () => {
    const estate = await startMxEstate(names);
    await estate.sink(2, await starttls(estate, 'one.test'));
    expect(await reach(estate.hops(required), 'z.test')).toBe('one.test TLS required verified');
  });

  test.each([
    ['none is offered', () => ({}), /The next hop offers no TLS, and the route or the message requires it/],
    ['STARTTLS is refused', (tls: FaultSinkOptions) => ({ ...tls, starttlsReply: '454 not now' }), /refused STARTTLS/],
    [
      'octets come before the handshake',
      (tls: FaultSinkOptions) => ({ ...tls, injectAfterStarttls: '250 x\r\n' }),
      /octets between/,
    ],
  ])('and is not had, since %s: the mail waits', async (_, change, words) => {
    const estate = await startMxEstate(names);
    const sink = await estate.sink(2, change(await starttls(estate, 'one.test')));
    expect(await reach(estate.hops(required), 'z.test')).toMatch(words);
    expect(sink.connections).toBe(1);
  });

  test('does not take the certificate of another host, unless it need not be verified', async () => {
    const estate = await startMxEstate(names);
    await estate.sink(2, await starttls(estate, 'other.test'));
    expect(await reach(estate.hops(required), 'z.test')).toMatch(/^refused 451 4\.7\.5 .*altnames/);
    const any = estate.hops({ tls: { mode: 'required', verify: false } });
    expect(await reach(any, 'z.test')).toBe('one.test TLS required');
  });

  test('may be asked for one domain alone', async () => {
    const estate = await startMxEstate(names);
    await estate.sink(2);
    const hops = estate.hops({ tlsByDomain: new Map([['z.test', { domain: 'z.test', ...required.tls }]]) });
    expect(await reach(hops, 'z.test')).toMatch(/^refused 451 4\.7\.4/);
    expect(await reach(hops, 'x.test')).toBe('one.test clear opportunistic');
  });
});

describe('REQUIRETLS (RFC 8689)', () => {
  const signed = { ...names, 'x.test': { ...names['x.test'], secure: true } };

  async function requireTls(estate: MxEstate): Promise<boolean | string> {
    const hop = await estate.hops().find('x.test', 'required');
    if ('kind' in hop) return hop.reply.text;
    const connection = await hop.connect({ domain: 'x.test', signal: new AbortController().signal });
    if (!(connection instanceof SmtpConnection)) return `${connection.refused.text}; ${connection.tlsFault}`;
    const { verifiedTls, capabilities } = connection.session;
    connection.destroy({ code: 451, text: 'the test is over' });
    return verifiedTls && capabilities.requireTls;
  }

  test('looks for an exchanger that offers it', async () => {
    const estate = await startMxEstate(signed);
    await estate.sink(2, await starttls(estate, 'one.test'));
    await estate.sink(3, { ...(await starttls(estate, 'two.test')), requiretls: true });
    expect(await requireTls(estate)).toBe(true);
  });

  test('is not met where none offers it', async () => {
    const estate = await startMxEstate(signed);
    await estate.sink(2, await starttls(estate, 'one.test'));
    await estate.sink(3, await starttls(estate, 'two.test'));
    expect(await requireTls(estate)).toBe(false);
  });

  test('waits where one does not offer it and another cannot be reached or looked up', async () => {
    const estate = await startMxEstate(signed);
    await estate.sink(2, await starttls(estate, 'one.test'));
    expect(await requireTls(estate)).toMatch(/^two\.test.*ECONNREFUSED.*; undefined$/);
    const other = await startMxEstate({ ...signed, 'two.test': { fails: 'SERVFAIL' } });
    await other.sink(2, await starttls(other, 'one.test'));
    expect(await requireTls(other)).toBe('Not every mail exchanger could be tried; undefined');
  });

  test('is not met where anybody may have forged the names of the exchangers', async () => {
    const estate = await startMxEstate(names);
    await estate.sink(2, { ...(await starttls(estate, 'one.test')), requiretls: true });
    expect(await requireTls(estate)).toBe(false);
  });

  test('is not met where no certificate is verified; where an exchanger cannot be reached that is not known', async () => {
    const estate = await startMxEstate(signed);
    await estate.sink(2, { ...(await starttls(estate, 'other.test')), requiretls: true });
    expect(await requireTls(estate)).toMatch(/altnames.*; undefined$/);
    await estate.sink(3);
    estate.clock.pass(61);
    expect(await requireTls(estate)).toMatch(/altnames.*; certificate-host-mismatch$/);
  });

  test.each([
    ['not known where the connection to one is lost in the handshake', signed, { dropsHandshake: true }],
    ['not known where the addresses of one cannot be looked up', { ...signed, 'two.test': { fails: 'SERVFAIL' } }, {}],
    ['not known where one puts STARTTLS off', signed, { starttlsReply: '454 4.7.0 not now' }],
    ['known where one refuses STARTTLS for good', signed, { starttlsReply: '502 5.5.1 never' }],
  ] as const)('whether it can be met is %s', async (words, zone, change) => {
    const estate = await startMxEstate(zone);
    const other = await starttls(estate, 'other.test');
    await estate.sink(2, other);
    await estate.sink(3, { ...other, ...change });
    const known = words.startsWith('known') ? 'certificate-host-mismatch' : 'undefined';
    expect(await requireTls(estate)).toMatch(new RegExp(`altnames.*; ${known}$`));
  });
});

describe('our own side', () => {
  test('an address of the route and the name that goes with it are used', async () => {
    const estate = await startMxEstate(names);
    const sink = await estate.sink(2);
    const hops = estate.hops({ localAddress: [{ address: '127.0.0.77', hostname: 'out.gateway.test' }] });
    const hop = await hops.find('z.test');
    if ('kind' in hop) throw new Error('no hop');
    const connection = await hop.connect({ domain: 'z.test', signal: new AbortController().signal });
    if (!(connection instanceof SmtpConnection)) throw new Error(connection.refused.text);
    expect(connection.localAddress).toBe('127.0.0.77');
    expect(sink.commands).toEqual(['EHLO out.gateway.test']);
    connection.destroy({ code: 451, text: 'the test is over' });
  });

  test('with an IPv4 address alone, a domain with IPv6 alone waits', async () => {
    const estate = await startMxEstate({ 'v6.test': { aaaa: ['2001:4860::1'] } });
    const hops = estate.hops({ localAddress: [{ address: '127.0.0.77' }] });
    expect(await reach(hops, 'v6.test')).toMatch(/^deferred 451 4\.4\.3/);
  });

  test('a domain that leads to our own listener is refused, and no connection is made', async () => {
    const estate = await startMxEstate(names);
    const sink = await estate.sink(2);
    const hops = estate.hops({}, { ownDoors: () => [{ host: '0.0.0.0', port: estate.port }] });
    expect(await reach(hops, 'z.test')).toMatch(/^failed 554 5\.4\.6/);
    expect(sink.connections).toBe(0);
  });
});

test('a port without a server refuses, as these tests presume', async () => {
  const estate = await startMxEstate(names);
  const code = await new Promise((resolve) => {
    connect(estate.port, '127.0.0.99').once('error', (error: NodeJS.ErrnoException) => resolve(error.code));
  });
  expect(code).toBe('ECONNREFUSED');
});
