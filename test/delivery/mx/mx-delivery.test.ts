// Delivery by MX as a whole: a real spool, a real name server, real mail exchangers, and what events and log tell of it.

import { expect, onTestFinished, test } from 'vitest';
import type { OutcomeEvent } from '../../../src/spool/events/mail-event.ts';
import type { DnsName } from '../../support/dns-server.ts';
import { FaultSink, type FaultSinkOptions } from '../../support/fault-sink.ts';
import { runMxDelivery as run } from '../../support/mx-delivery.ts';
import { testAuthority } from '../../support/mx-estate.ts';
import { countsOf } from '../../support/spool-counts.ts';

const waiting = { timeout: 15_000, interval: 10 };

async function startSink(options: FaultSinkOptions): Promise<FaultSink> {
  const sink = await FaultSink.start(options);
  onTestFinished(() => sink.close());
  return sink;
}

const brief = ({ recipient, kind, reply, host }: OutcomeEvent): string =>
  `${recipient} ${kind} ${reply.code} ${reply.enhanced ?? ''} ${host}`;

test('one message to many domains: each goes its way, and each outcome has its reason', async () => {
  const { port, ...one } = await startSink({ host: '127.0.0.2' });
  const two = await startSink({ host: '127.0.0.3', port });
  const names = {
    'a.test': { mx: ['10 one.test'] },
    'b.test': { mx: ['10 one.test'] },
    'c.test': { mx: ['10 two.test'] },
    'null.test': { mx: ['0 .'] },
    'broken.test': { fails: 'SERVFAIL' },
    'inside.test': { a: ['10.0.0.1'] },
    'one.test': { a: ['127.0.0.2'] },
    'two.test': { a: ['127.0.0.3'] },
  } as const satisfies Record<string, DnsName>;
  const { events, send, delivery } = await run(names, { port });
  await send([
    'x@a.test',
    'y@a.test',
    'x@b.test',
    'x@C.test',
    'x@null.test',
    'x@gone.test',
    'x@broken.test',
    'x@inside.test',
  ]);
  await expect.poll(() => events.length, waiting).toBe(8);
  const hostOf = (name: string, last: number): string => `out (${name}[127.0.0.${last}]:${port})`;
  expect(events.map(brief).sort()).toEqual([
    `x@C.test delivered 250 2.0.0 ${hostOf('two.test', 3)}`,
    `x@a.test delivered 250 2.0.0 ${hostOf('one.test', 2)}`,
    `x@b.test delivered 250 2.0.0 ${hostOf('one.test', 2)}`,
    'x@broken.test deferred 451 4.4.3 out',
    'x@gone.test failed 550 5.1.2 out',
    'x@inside.test failed 550 5.4.4 out',
    'x@null.test failed 556 5.1.10 out',
    `y@a.test delivered 250 2.0.0 ${hostOf('one.test', 2)}`,
  ]);
  expect(one.messages.flatMap(({ recipients }) => recipients).sort()).toEqual(['x@a.test', 'x@b.test', 'y@a.test']);
  expect(two.messages).toHaveLength(1);
  await expect.poll(() => delivery.metrics().inHand, waiting).toBe(0);
});

test('events and log lines name the TLS of the connection, the policy, and the words of the exchanger', async () => {
  const authority = await testAuthority();
  const certificate = await authority.issue(['one.test']);
  const { port } = await startSink({ host: '127.0.0.2', tls: { mode: 'starttls', ...certificate } });
  const names = {
    'a.test': { mx: ['10 one.test'] },
    'clear.test': { mx: ['10 two.test'] },
    'one.test': { a: ['127.0.0.2'] },
    'two.test': { a: ['127.0.0.3'] },
  };
  await startSink({ host: '127.0.0.3', port });
  const { events, send, lines, spool } = await run(names, { port });
  await send(['x@a.test', 'fail-rcpt@a.test', 'x@clear.test']);
  await expect.poll(() => events.length, waiting).toBe(3);
  const tlsOf = (recipient: string) => events.find((event) => event.recipient === recipient)?.tls;
  expect(tlsOf('x@a.test')).toEqual({ policy: 'opportunistic', version: 'TLSv1.3', verified: false });
  expect(tlsOf('fail-rcpt@a.test')).toEqual({ policy: 'opportunistic', version: 'TLSv1.3', verified: false });
  expect(tlsOf('x@clear.test')).toEqual({ policy: 'opportunistic' });
  expect(lines.filter(({ msg }) => msg === 'delivered' || msg === 'failed')).toMatchObject(
    events.map(({ recipient, reply, tls }) => ({
      recipient,
      reply: reply.text,
      tls: tls?.version ?? 'none',
      tlsPolicy: 'opportunistic',
    })),
  );
  const stored = await spool.events.read({ after: 0, limit: 10 });
  expect(stored.events.map((event) => 'tls' in event && event.tls)).toContainEqual(tlsOf('x@a.test'));
});

test('a message with REQUIRETLS does not ride on the connection of one without', async () => {
  const authority = await testAuthority();
  const tls = { mode: 'starttls', ...(await authority.issue(['one.test'])) } as const;
  const { port, ...sink } = await startSink({ host: '127.0.0.2', tls, requiretls: true });
  const names = { 'a.test': { mx: ['10 one.test'] }, 'one.test': { a: ['127.0.0.2'] } };
  const { events, send } = await run(names, { port });
  await send(['x@a.test']);
  await expect.poll(() => events.length, waiting).toBe(1);
  await send(['y@a.test'], { id: '01a1fe1b-0000-7000-8000-000000000002', requireTls: true });
  await expect.poll(() => events.length, waiting).toBe(2);
  // The certificate is of an authority that nobody here trusts, and DNS vouches for nothing.
  expect(events[1]).toMatchObject({ kind: 'failed', reply: { code: 550, enhanced: '5.7.30' } });
  expect(events[1]?.reply.text).toMatch(
    /^REQUIRETLS cannot be met: one\.test\[127\.0\.0\.2\]: The TLS handshake failed: /,
  );
  expect(sink.messages.map(({ recipients }) => recipients)).toEqual([['x@a.test']]);
});

test('a drain does not wait for a name server that is silent', async () => {
  const { send, delivery, spool, dns } = await run({ 'a.test': { fails: 'silence' } }, { port: 25 });
  await send(['x@a.test']);
  await expect.poll(() => dns.asked.length, waiting).toBeGreaterThan(0);
  await delivery.drain(0);
  expect(await countsOf(spool)).toEqual({ queued: 1, failed: 0 });
});

test('a thousand domains of the same exchangers share their connections', async () => {
  const sink = await startSink({ host: '127.0.0.2' });
  const { port } = sink;
  const domains = Array.from({ length: 1000 }, (_, index) => `d${index}.test`);
  const names = Object.fromEntries([
    ...domains.map((domain) => [domain, { mx: ['10 one.test'] }] as const),
    ['one.test', { a: ['127.0.0.2'] }],
  ]);
  const { events, send } = await run(names, { port, connections: 2 });
  await send(domains.map((domain) => `x@${domain}`));
  await expect.poll(() => events.length, { timeout: 30_000, interval: 50 }).toBe(1000);
  expect(events.every(({ kind }) => kind === 'delivered')).toBe(true);
  expect(sink.messages).toHaveLength(1000);
  expect(sink.connections).toBeLessThanOrEqual(2);
}, 60_000);
