// Debian's Postfix as the mail exchanger of domains, with a certificate made here and a name server and a policy host of the
// test's own: opportunistic TLS, MTA-STS, DANE, REQUIRETLS.

import { writeFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import type { OutcomeEvent } from '../../src/spool/events/mail-event.ts';
import { type DnsName, startDnsServer } from '../support/dns-server.ts';
import { type MxDeliveryChanges, runMxDelivery } from '../support/mx-delivery.ts';
import { policyOf, type TestAuthority, testAuthority, tlsaOf } from '../support/mx-estate.ts';
import { startPostern, testToken } from '../support/postern-process.ts';
import { type Postfix, startPostfix } from '../support/postfix.ts';
import { scratchFolder } from '../support/scratch.ts';
import { requirePrograms } from './programs.ts';

const waiting = { timeout: 30_000, interval: 20 };
let authority: TestAuthority;
let postfix: Postfix;
let certificate: { readonly cert: string; readonly key: string };

beforeAll(async () => {
  requirePrograms('postfix');
  authority = await testAuthority();
  certificate = await authority.issue(['mx.test']);
  postfix = await startPostfix({
    mainCf: (folder) => {
      writeFileSync(join(folder, 'cert.pem'), certificate.cert);
      writeFileSync(join(folder, 'key.pem'), certificate.key, { mode: 0o600 });
      return [
        'smtpd_tls_security_level = may',
        `smtpd_tls_cert_file = ${folder}/cert.pem`,
        `smtpd_tls_key_file = ${folder}/key.pem`,
        'smtpd_tls_loglevel = 1',
        'smtpd_relay_restrictions = permit_auth_destination, reject',
        'smtpd_recipient_restrictions = permit_auth_destination, reject',
        'relay_domains = x.test',
        'relay_recipient_maps = inline:{ { known@x.test = OK } { two@x.test = OK } }',
        'transport_maps = inline:{ { x.test = discard: } }',
      ];
    },
  });
});
afterAll(() => postfix?.stop());

/** A policy host for x.test with this policy; its port. */
async function policyHost(lines: readonly string[]): Promise<number> {
  const own = await authority.issue(['mta-sts.x.test']);
  const server = createServer({ key: own.key, cert: own.cert }, policyOf(lines));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

const names = {
  'x.test': { mx: ['10 mx.test'] },
  'mx.test': { a: ['127.0.0.1'] },
  'misnamed.test': { a: ['127.0.0.1'] },
  'mta-sts.x.test': { a: ['127.0.0.1'] },
} as const satisfies Record<string, DnsName>;

async function start(changes: Partial<MxDeliveryChanges> = {}, records: Readonly<Record<string, DnsName>> = {}) {
  const caFile = join(scratchFolder(), 'ca.pem');
  writeFileSync(caFile, authority.cert);
  const running = await runMxDelivery({ ...names, ...records }, { port: postfix.port, caFile, ...changes });
  const sent = async (
    recipients: readonly string[] = ['known@x.test'],
    more = {},
  ): Promise<readonly OutcomeEvent[]> => {
    const before = running.events.length;
    await running.send(recipients, more);
    await expect.poll(() => running.events.length - before, waiting).toBe(recipients.length);
    return running.events.slice(before);
  };
  return { ...running, sent };
}

const enforced = { '_mta-sts.x.test': { txt: ['v=STSv1; id=1;'] } };
const misnamed = { 'x.test': { mx: ['10 misnamed.test'] } };
const signed = { 'x.test': { mx: ['10 mx.test'], secure: true }, 'mx.test': { a: ['127.0.0.1'], secure: true } };
const tlsaName = (): string => `_${postfix.port}._tcp.mx.test`;

test('opportunistic: mail passes over TLS, a user whom Postfix does not know fails with its words', async () => {
  const { sent } = await start();
  const events = await sent(['known@x.test', 'nobody@x.test']);
  const [delivered, failed] = [...events].sort((one, other) => one.kind.localeCompare(other.kind));
  expect(delivered).toMatchObject({
    kind: 'delivered',
    recipient: 'known@x.test',
    host: `out (mx.test[127.0.0.1]:${postfix.port})`,
    tls: { policy: 'opportunistic', version: 'TLSv1.3' },
    reply: { code: 250, enhanced: '2.0.0' },
  });
  expect(delivered?.reply.text).toMatch(/^Ok: queued as /);
  expect(failed).toMatchObject({ kind: 'failed', reply: { code: 550, enhanced: '5.1.1' } });
  expect(failed?.reply.text).toMatch(/User unknown in relay recipient table/);
  expect(postfix.mailLog()).toMatch(/Anonymous TLS connection established from .*TLSv1\.3/);
});

test('MTA-STS enforce: the right name passes, a wrong one does not, and no mail reaches Postfix', async () => {
  const policyPort = await policyHost(['mode: enforce', 'mx: mx.test', 'mx: misnamed.test', 'max_age: 86400']);
  const right = await start({ policyPort }, enforced);
  expect(await right.sent()).toMatchObject([{ kind: 'delivered', tls: { policy: 'mta-sts', verified: true } }]);
  const wrong = await start({ policyPort }, { ...enforced, ...misnamed });
  const before = postfix.mailLog().length;
  expect(await wrong.sent()).toMatchObject([{ kind: 'deferred', reply: { enhanced: '4.7.5' } }]);
  expect(postfix.mailLog().slice(before)).not.toMatch(/ from=</);
  expect(wrong.results).toMatchObject([{ domain: 'x.test', failure: 'certificate-host-mismatch' }]);
});

test('MTA-STS enforce: a message with TLS-Required: No passes all the same', async () => {
  const policyPort = await policyHost(['mode: enforce', 'mx: mx.test', 'max_age: 86400']);
  const { sent } = await start({ policyPort }, { ...enforced, ...misnamed });
  expect(await sent(['known@x.test'], { tlsOptional: true })).toMatchObject([
    { kind: 'delivered', tls: { policy: 'opportunistic' } },
  ]);
});

test('MTA-STS testing: a wrong name passes, and is reported', async () => {
  const policyPort = await policyHost(['mode: testing', 'mx: misnamed.test', 'max_age: 86400']);
  const { sent, results, lines } = await start({ policyPort }, { ...enforced, ...misnamed });
  expect(await sent()).toMatchObject([{ kind: 'delivered', tls: { policy: 'opportunistic', verified: false } }]);
  expect(results).toMatchObject([{ policy: { type: 'sts' }, failure: 'certificate-host-mismatch' }]);
  expect(lines.map(({ msg }) => msg)).toContain('an MTA-STS policy in testing is not met');
});

test('DANE: the key that DNS names is accepted, another is refused', async () => {
  const right = await start(
    { validates: true },
    { ...signed, [tlsaName()]: { tlsa: [tlsaOf(certificate.cert, [3, 1, 1])], secure: true } },
  );
  expect(await right.sent()).toMatchObject([{ kind: 'delivered', tls: { policy: 'dane', verified: true } }]);
  const wrong = await start(
    { validates: true },
    { ...signed, [tlsaName()]: { tlsa: [`3 1 1 ${'0'.repeat(64)}`], secure: true } },
  );
  expect(await wrong.sent()).toMatchObject([{ kind: 'deferred', reply: { enhanced: '4.7.5' }, host: 'out (mx.test)' }]);
  expect(wrong.results).toMatchObject([{ policy: { type: 'tlsa' }, failure: 'tlsa-invalid' }]);
  const authorityOnly = await start(
    { validates: true },
    { ...signed, [tlsaName()]: { tlsa: [tlsaOf(authority.cert, [2, 0, 1])], secure: true } },
  );
  expect(await authorityOnly.sent()).toMatchObject([{ kind: 'delivered', tls: { policy: 'dane', verified: true } }]);
});

test('a null MX, and no such domain', async () => {
  const { sent } = await start({}, { 'null.test': { mx: ['0 .'] } });
  const events = await sent(['a@null.test', 'a@gone.test']);
  expect(events.map(({ kind, reply }) => `${kind} ${reply.code} ${reply.enhanced}`).sort()).toEqual([
    'failed 550 5.1.2',
    'failed 556 5.1.10',
  ]);
});

test('REQUIRETLS fails 5.7.30, since Postfix 3.7 does not offer it', async () => {
  const { sent } = await start({ validates: true }, signed);
  expect(await sent(['known@x.test'], { requireTls: true })).toMatchObject([
    { kind: 'failed', reply: { code: 550, enhanced: '5.7.30' } },
  ]);
});

test('the whole gateway: by SMTP in, to Postfix by MX, refused for a null MX; TLS and policy in the log', async () => {
  const dns = await startDnsServer({ ...names, 'null.test': { mx: ['0 .'] } });
  const caFile = join(scratchFolder(), 'ca.pem');
  writeFileSync(caFile, authority.cert);
  const route = {
    name: 'out',
    type: 'mx',
    port: postfix.port,
    tls: { ca: caFile },
    tlsByDomain: { 'x.test': 'required' },
  };
  const postern = await startPostern({
    config: {
      development: { account: 'dev', credential: 'default' },
      http: { listen: '127.0.0.1:0', tlsListen: '' },
      smtp: { listeners: [{ name: 'in', listen: '127.0.0.1:0', tls: 'starttls' }] },
      accounts: [{ name: 'dev', id: 'a1'.repeat(16), sendingDomains: [{ name: 'example.com' }] }],
      delivery: { resolver: { servers: [dns.address] } },
      routes: [{ ...route, mtaSts: false, allowPrivate: ['127.0.0.0/8'] }],
    },
  });
  onTestFinished(() => postern.cleanUp());
  const response = await fetch(`http://127.0.0.1:${postern.ports['http']}/client/v4/accounts/dev/email/sending/send`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${testToken}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({
      from: 'a@example.com',
      to: ['known@x.test', 'a@null.test'],
      subject: 'Hello',
      text: 'Hello.',
    }),
  });
  expect(response.status).toBe(200);
  const linesOf = (msg: string) => postern.log().filter((line) => line['msg'] === msg);
  await expect.poll(() => linesOf('delivered').length + linesOf('failed').length, waiting).toBe(2);
  expect(linesOf('delivered')).toMatchObject([
    {
      recipient: 'known@x.test',
      route: 'out',
      tls: 'TLSv1.3',
      tlsPolicy: 'required',
      host: `out (mx.test[127.0.0.1]:${postfix.port})`,
    },
  ]);
  expect(linesOf('failed')).toMatchObject([{ recipient: 'a@null.test', code: 556, enhanced: '5.1.10' }]);
});
