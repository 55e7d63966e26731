// MTA-STS (RFC 8461): policies from a real policy host by HTTPS, kept in a real database; the mail exchangers are real too.

import { createServer, type Socket } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { isNamedBy, readStsPolicy, stsId } from '../../../src/delivery/mx/sts-policy.ts';
import type { FaultSinkOptions } from '../../support/fault-sink.ts';
import { type MxEstate, type PolicyAnswer, policyOf, reach, startMxEstate } from '../../support/mx-estate.ts';

const names = {
  'x.test': { mx: ['10 one.test'] },
  'one.test': { a: ['127.0.0.2'] },
  'two.test': { a: ['127.0.0.3'] },
  'mta-sts.x.test': { a: ['127.0.0.1'] },
  '_mta-sts.x.test': { txt: ['v=STSv1; id=1;'] },
};
const week = 604_800;
const enforce = policyOf(['mode: enforce', 'mx: one.test', `max_age: ${week}`]);
const testing = policyOf(['mode: testing', 'mx: one.test', `max_age: ${week}`]);

async function starttls(estate: MxEstate, host: string, changes = {}): Promise<FaultSinkOptions> {
  return { tls: { mode: 'starttls', ...(await estate.authority.issue([host], changes)) } };
}

async function estateWith(policy: PolicyAnswer, changes: typeof names | object = {}): Promise<MxEstate> {
  const estate = await startMxEstate({ ...names, ...changes });
  estate.policy = policy;
  return estate;
}

describe('a policy that enforces', () => {
  test('lets mail go to an exchanger that it names, with a verified certificate', async () => {
    const estate = await estateWith(enforce);
    await estate.sink(2, await starttls(estate, 'one.test'));
    expect(await reach(estate.hops(), 'x.test')).toBe('one.test TLS mta-sts verified');
    expect(estate.fetches).toEqual(['mta-sts.x.test/.well-known/mta-sts.txt']);
    expect(estate.results).toMatchObject([{ domain: 'x.test', policy: { type: 'sts' }, exchanger: 'one.test' }]);
    expect(estate.results[0]).not.toHaveProperty('failure');
  });

  test('refuses a certificate of another name, and no octet of mail is sent', async () => {
    const estate = await estateWith(enforce);
    const sink = await estate.sink(2, await starttls(estate, 'wrong.test'));
    expect(await reach(estate.hops(), 'x.test')).toMatch(
      /^refused 451 4\.7\.5 one\.test\[127\.0\.0\.2\]: The TLS handshake failed/,
    );
    expect(sink.commands).toEqual(['EHLO gateway.test', 'STARTTLS']);
    expect(estate.results).toMatchObject([{ failure: 'certificate-host-mismatch' }]);
  });

  test('refuses a certificate that has expired', async () => {
    const estate = await estateWith(enforce);
    await estate.sink(2, await starttls(estate, 'one.test', { expired: true }));
    expect(await reach(estate.hops(), 'x.test')).toMatch(/^refused 451 4\.7\.5/);
    expect(estate.results).toMatchObject([{ failure: 'certificate-expired' }]);
  });

  test('refuses STARTTLS that somebody on the way has taken out', async () => {
    const estate = await estateWith(enforce);
    await estate.sink(2);
    expect(await reach(estate.hops(), 'x.test')).toMatch(/^refused 451 4\.7\.4 .*offers no TLS/);
    expect(estate.results).toMatchObject([{ failure: 'starttls-not-supported' }]);
  });

  test('refuses an exchanger that it does not name, without a connection', async () => {
    const estate = await estateWith(enforce, { 'x.test': { mx: ['10 two.test'] } });
    const sink = await estate.sink(3, await starttls(estate, 'two.test'));
    expect(await reach(estate.hops(), 'x.test')).toMatch(/^refused 451 4\.7\.5 .*does not name two\.test/);
    expect(sink.connections).toBe(0);
    expect(estate.results).toMatchObject([{ failure: 'validation-failure', exchanger: 'two.test' }]);
  });

  test('passes over what does not meet it for what does', async () => {
    const estate = await estateWith(enforce, { 'x.test': { mx: ['5 two.test', '10 one.test'] } });
    await estate.sink(2, await starttls(estate, 'one.test'));
    await estate.sink(3, await starttls(estate, 'two.test'));
    expect(await reach(estate.hops(), 'x.test')).toBe('one.test TLS mta-sts verified');
  });

  test('keeps its domain apart from others with the same exchangers', async () => {
    const estate = await estateWith(enforce, { 'y.test': { mx: ['10 one.test'] } });
    const hops = estate.hops();
    const keys = await Promise.all(['x.test', 'y.test'].map(async (domain) => await hops.find(domain)));
    expect(new Set(keys.map((hop) => ('key' in hop ? hop.key : hop.reply.text))).size).toBe(2);
  });

  test('is passed over for a message with TLS-Required: No, and where the route says no TLS', async () => {
    const estate = await estateWith(enforce);
    await estate.sink(2, await starttls(estate, 'wrong.test'));
    expect(await reach(estate.hops(), 'x.test', 'no')).toBe('one.test TLS opportunistic');
    // Nobody asked for the policy, so that nothing can be reported of it. Reports of TLS are such messages themselves.
    expect(estate.results).toEqual([]);
    expect(await reach(estate.hops({ tls: { mode: 'none', verify: false } }), 'x.test')).toBe('one.test clear none');
  });

  test('is never asked for where the route says so', async () => {
    const estate = await estateWith(enforce);
    await estate.sink(2);
    expect(await reach(estate.hops({ mtaSts: false }), 'x.test')).toBe('one.test clear opportunistic');
    expect(estate.fetches).toEqual([]);
    expect(estate.dns.asked).not.toContain('TXT _mta-sts.x.test');
  });
});

describe('a policy in testing', () => {
  test('lets mail pass, and reports what it would have stopped', async () => {
    const estate = await estateWith(testing);
    await estate.sink(2, await starttls(estate, 'wrong.test'));
    expect(await reach(estate.hops(), 'x.test')).toBe('one.test TLS opportunistic');
    expect(estate.results).toMatchObject([{ policy: { type: 'sts' }, failure: 'certificate-host-mismatch' }]);
    expect(estate.lines).toMatchObject([
      { msg: 'an MTA-STS policy in testing is not met', domain: 'x.test', host: 'one.test' },
    ]);
  });

  test.each([
    ['no TLS', 'one.test', false, 'starttls-not-supported'],
    ['an exchanger that it does not name', 'two.test', true, 'validation-failure'],
  ])('%s passes and is reported', async (_, host, hasTls, failure) => {
    const estate = await estateWith(testing, { 'x.test': { mx: [`10 ${host}`] } });
    await estate.sink(host === 'one.test' ? 2 : 3, hasTls ? await starttls(estate, host) : {});
    expect(await reach(estate.hops(), 'x.test')).toMatch(/opportunistic/);
    expect(estate.results).toMatchObject([{ failure }]);
  });

  test('that is met is reported as such', async () => {
    const estate = await estateWith(testing);
    await estate.sink(2, await starttls(estate, 'one.test'));
    expect(await reach(estate.hops(), 'x.test')).toBe('one.test TLS opportunistic verified');
    expect(estate.results).toMatchObject([{ policy: { type: 'sts' } }]);
    expect(estate.results[0]).not.toHaveProperty('failure');
  });
});

describe('a policy that cannot be had', () => {
  const open = 'one.test TLS opportunistic verified';

  test.each<[string, PolicyAnswer, RegExp, string?]>([
    ['404', (_, response) => response.writeHead(404).end(), /answered 404/],
    [
      'a redirect',
      (_, response) => response.writeHead(302, { Location: 'https://mta-sts.x.test/' }).end(),
      /answered 302/,
    ],
    [
      'HTML',
      (_, response) => response.writeHead(200, { 'Content-Type': 'text/html' }).end('version: STSv1'),
      /text\/html/,
    ],
    [
      'one without an end',
      (_, response) => {
        response.writeHead(200, { 'Content-Type': 'text/plain' });

        const timer = setInterval(() => response.write('mx: a.test\r\n'.repeat(1000)), 1);
        response.on('close', () => clearInterval(timer));
      },
      /larger than 65536 octets/,
    ],
    [
      'one that drips',
      (_, response) => {
        response.writeHead(200, { 'Content-Type': 'text/plain' });
        const timer = setInterval(() => response.write('v'), 20);
        response.on('close', () => clearInterval(timer));
      },
      /did not answer in time/,
    ],
    [
      'another protocol',
      (request) =>
        void request.socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n'),
      /answered 101/,
    ],
    [
      'informational answers without an end',
      (request) => {
        const flood = setInterval(() => request.socket.write('HTTP/1.1 100 Continue\r\n\r\n'.repeat(100)), 1);
        request.socket.on('close', () => clearInterval(flood));
      },
      /too many informational answers/,
    ],
    ['a connection that is closed', (request) => void request.socket.destroy(), /socket hang up|closed the connection/],
    ['no version', policyOf(['mode: enforce', 'mx: one.test']), /max_age/, 'sts-policy-invalid'],
    ['no exchanger', policyOf(['mode: enforce', 'max_age: 1000']), /names no mail exchanger/, 'sts-policy-invalid'],
  ])('%s: mail goes as without one, it is logged and reported', async (_, policy, reason, failure) => {
    const estate = await estateWith(policy);
    await estate.sink(2, await starttls(estate, 'one.test'));
    const hops = estate.hops();
    expect(await reach(hops, 'x.test')).toBe(open);
    expect(estate.lines).toMatchObject([{ msg: 'an MTA-STS policy cannot be fetched', domain: 'x.test' }]);
    expect(String(estate.lines[0]?.['reason'])).toMatch(reason);
    // It is not fetched again for each message, and reported for each connection.
    estate.clock.pass(60);
    expect(await reach(hops, 'x.test')).toBe(open);
    const reported = {
      policy: { type: 'sts' },
      failure: failure ?? 'sts-policy-fetch-error',
      reason: expect.any(String),
    };
    expect(estate.results).toMatchObject([reported, reported]);
  });

  test('many policy hosts that say nothing keep only those who send to them from a policy', async () => {
    const estate = await estateWith(enforce);
    await estate.sink(2);
    const held = new Set<Socket>();
    const silent = createServer((socket) => void held.add(socket.on('error', () => undefined)));
    await new Promise<void>((resolve) => silent.listen(estate.policyPort(), '127.0.0.9', resolve));
    onTestFinished(() => {
      for (const socket of held) socket.destroy();
      silent.close();
    });
    const hops = estate.hops({}, { policyWithinMs: 60_000 });
    for (let at = 0; at < 120; at += 1) {
      const domain = `n${at}.test`;
      estate.dns.names.set(domain, { mx: ['10 one.test'] });
      estate.dns.names.set(`_mta-sts.${domain}`, { txt: ['v=STSv1; id=1;'] });
      estate.dns.names.set(`mta-sts.${domain}`, { a: ['127.0.0.9'] });
      void hops.find(domain, undefined, 'greedy');
    }
    await expect.poll(() => held.size).toBe(90);
    expect(await reach(hops, 'x.test')).toMatch(/^refused 451 4\.7\.4 .*offers no TLS/);
  });

  test('a certificate of another policy host', async () => {
    const estate = await startMxEstate(names, { policyNames: ['mta-sts.other.test'] });
    estate.policy = enforce;
    await estate.sink(2, await starttls(estate, 'one.test'));
    expect(await reach(estate.hops(), 'x.test')).toBe(open);
    expect(estate.fetches).toEqual([]);
    expect(estate.results).toMatchObject([{ policy: { type: 'sts' }, failure: 'sts-webpki-invalid' }]);
  });

  test('a policy host in a private network is not asked', async () => {
    const estate = await estateWith(enforce, { 'mta-sts.x.test': { a: ['127.0.0.1'] } });
    await estate.sink(2, await starttls(estate, 'one.test'));
    expect(await reach(estate.hops({ allowPrivate: ['127.0.0.2/32'] }), 'x.test')).toBe(open);
    expect(estate.fetches).toEqual([]);
  });

  test('is not fetched again for five minutes, unless there is a new one', async () => {
    const estate = await estateWith((_, response) => response.writeHead(503).end());
    await estate.sink(2, await starttls(estate, 'one.test'));
    const hops = estate.hops();
    await reach(hops, 'x.test');
    estate.policy = enforce;
    estate.clock.pass(200);
    expect(await reach(hops, 'x.test')).toMatch(/opportunistic/);
    estate.clock.pass(101);
    expect(await reach(hops, 'x.test')).toBe('one.test TLS mta-sts verified');
    expect(estate.fetches).toHaveLength(2);
  });
});

describe('a policy that was fetched', () => {
  async function enforced() {
    const estate = await estateWith(enforce);
    const sink = await estate.sink(2, await starttls(estate, 'one.test'));
    expect(await reach(estate.hops(), 'x.test')).toBe('one.test TLS mta-sts verified');
    await sink.close();
    await estate.sink(2);
    return estate;
  }

  test('holds through a restart, while DNS is silenced and the policy host fails', async () => {
    const estate = await enforced();
    estate.policy = (_, response) => response.writeHead(500).end();
    for (const silenced of [{ fails: 'SERVFAIL' as const }, { txt: [] }, { txt: ['v=STSv1; id=2;'] }]) {
      estate.dns.names.set('_mta-sts.x.test', silenced);
      expect(await reach(estate.hops(), 'x.test')).toMatch(/^refused 451 4\.7\.4/);
    }
    estate.dns.names.delete('_mta-sts.x.test');
    expect(await reach(estate.hops(), 'x.test')).toMatch(/^refused 451 4\.7\.4/);
  });

  test('holds until its time is over, and no longer', async () => {
    const estate = await enforced();
    estate.dns.names.delete('_mta-sts.x.test');
    estate.clock.pass(week - 10);
    expect(await reach(estate.hops(), 'x.test')).toMatch(/^refused/);
    estate.clock.pass(20);
    expect(await reach(estate.hops(), 'x.test')).toBe('one.test clear opportunistic');
  });

  test('holds where the clock was set back', async () => {
    const estate = await enforced();
    estate.clock.jump(-30 * 86_400);
    expect(await reach(estate.hops(), 'x.test')).toMatch(/^refused/);
  });

  test('is replaced by one with a new id, and ended by one of mode none', async () => {
    const estate = await enforced();
    estate.policy = policyOf(['mode: none', 'max_age: 86400']);
    const hops = estate.hops();
    expect(await reach(hops, 'x.test')).toMatch(/^refused/);
    estate.dns.names.set('_mta-sts.x.test', { txt: ['v=STSv1; id=2;'] });
    estate.clock.pass(120);
    expect(await reach(hops, 'x.test')).toBe('one.test clear opportunistic');
    expect(estate.fetches).toHaveLength(2);
  });

  test('is fetched anew each day, so that it lasts as long as the domain keeps it', async () => {
    const estate = await enforced();
    for (let days = 0; days < 10; days += 1) {
      estate.clock.pass(86_401);
      expect(await reach(estate.hops(), 'x.test')).toMatch(/^refused/);
      await expect.poll(() => estate.fetches.length).toBe(days + 2);
    }
  });

  test('many messages at once fetch it once', async () => {
    const estate = await estateWith(enforce);
    await estate.sink(2, await starttls(estate, 'one.test'));
    const hops = estate.hops();
    const found = await Promise.all(Array.from({ length: 50 }, () => hops.find('x.test')));
    expect(new Set(found.map((hop) => ('key' in hop ? hop.key : '')).values()).size).toBe(1);
    expect(estate.fetches).toHaveLength(1);
  });
});

describe('the words of a policy', () => {
  test.each([
    [['v=STSv1; id=20160831085700Z;'], '20160831085700Z'],
    [['v=STSv1;id=1'], '1'],
    [['v=spf1 -all', 'v=STSv1; id=a; x=y;'], 'a'],
    [['v=STSv1; id=1;', 'v=STSv1; id=2;'], undefined],
    [['v=STSv1; id=not valid;'], undefined],
    [[`v=STSv1; id=${'a'.repeat(33)};`], undefined],
    [['v=STSv2; id=1;'], undefined],
    [[], undefined],
  ])('%j has id %s', (texts, id) => {
    expect(stsId(texts)).toBe(id);
  });

  test('a file is read, unknown lines are passed over', () => {
    const text = 'version: STSv1\r\nmode: enforce\nmx: MX1.x.test\nmx: *.x.test\nnew: thing\nmax_age: 99999999\n';
    expect(readStsPolicy(text, '1')).toEqual({
      id: '1',
      mode: 'enforce',
      mx: ['mx1.x.test', '*.x.test'],
      maxAge: 31_557_600,
    });
  });

  test.each([
    ['mx.x.test', true],
    ['a.wild.test', true],
    ['a.b.wild.test', false],
    ['wild.test', false],
    ['xwild.test', false],
    ['', false],
  ])('%s: %s', (exchanger, isNamed) => {
    expect(isNamedBy({ mx: ['mx.x.test', '*.wild.test'] }, exchanger)).toBe(isNamed);
  });
});
