// postern doctor: what it sees of a machine in order, one whose DNS is dead and port filtered, and one with much that is wrong.

import { createSocket } from 'node:dgram';
import { chmodSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { lookAtExchangers, lookAtName, lookAtSts, type Seen, seenRecord, within } from '../../src/cli/doctor-looks.ts';
import type { DnsRecord } from '../../src/web/admin/domain-schemas.ts';
import { startDnsServer } from '../support/dns-server.ts';
import { runCli, runHere } from '../support/run-cli.ts';
import { scratchFolder } from '../support/scratch.ts';
import { unansweredPort } from '../support/unanswered-port.ts';

/** A time server that is ahead by some milliseconds. */
async function timeServer(aheadMs: number): Promise<string> {
  const socket = createSocket('udp4');
  socket.on('message', (_question, { port, address }) => {
    const answer = Buffer.alloc(48);
    const ms = Date.now() + aheadMs + 2_208_988_800_000;
    answer.writeUInt32BE(Math.floor(ms / 1000), 40);
    socket.send(answer, port, address);
  });
  await new Promise<void>((done) => socket.bind(0, '127.0.0.1', done));
  onTestFinished(() => void socket.close());
  return `127.0.0.1:${socket.address().port}`;
}

function configuration(more: object = {}): { readonly file: string; readonly folder: string } {
  const folder = scratchFolder();
  const file = join(folder, 'postern.yaml');
  const config = {
    ...{ dataDir: join(folder, 'data'), certsDir: join(folder, 'certs') },
    ...{
      smtp: { hostname: 'mx.platform.example' },
      platform: { domain: 'platform.example', bounceDomain: 'bounces.platform.example' },
    },
    routes: [{ name: 'out', type: 'smarthost', url: 'smtp://127.0.0.1:1', tls: 'none' }],
    accounts: [
      { name: 'dev', id: 'a1'.repeat(16), sendingDomains: [{ name: 'example.com' }], credentials: [{ name: 'box' }] },
    ],
    ...more,
  };
  writeFileSync(file, JSON.stringify(config));
  return { file, folder };
}

async function doctor(by: typeof runCli, file: string, ...more: readonly string[]) {
  const { exitCode, stdout, stderr } = await by(['doctor', '-c', file, '--json', ...more]);
  const seen = stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Seen);
  return { exitCode, stderr, seen, of: (what: string) => seen.filter((one) => one.what.includes(what)) };
}

test('what is missing is told with its cure, the worst decides the exit code, and nothing is written', async () => {
  const dns = await startDnsServer();
  const { file, folder } = configuration();
  const { exitCode, of } = await doctor(runCli, file, '--server', dns.address, '--ntp', await timeServer(60_000));
  expect(exitCode).toBe(2);
  expect(of('keys and certificates')).toContainEqual(
    expect.objectContaining({ state: 'fault', text: expect.stringContaining('postern dkim keygen example.com') }),
  );
  expect(of('dmarc _dmarc.example.com')).toMatchObject([
    { state: 'warning', cure: expect.stringContaining('Publish: _dmarc.example.com.') },
  ]);
  expect(of('mta-sts _mta-sts.example.com')).toMatchObject([{ state: 'ok' }]);
  expect(of('connection to 127.0.0.1:1')).toMatchObject([
    { state: 'fault', text: expect.stringContaining('ECONNREFUSED') },
  ]);
  expect(of('name mx.platform.example')).toMatchObject([{ state: 'warning', text: 'has no address in DNS' }]);
  expect(of('clock')).toMatchObject([{ state: 'warning', text: expect.stringMatching(/^\d+\.\d s behind$/) }]);
  expect(of('keys and certificates').some(({ state }) => state === 'fault')).toBe(true);
  expect(of('database sqlite')).toMatchObject([{ state: 'ok', text: expect.stringContaining('not made yet') }]);
  expect(of('room in')).toHaveLength(1);
  expect(readdirSync(folder)).toEqual(['postern.yaml']);
});

test('a sending domain that is the platform’s domain too has the records of both looked at', async () => {
  const dns = await startDnsServer();
  const { file } = configuration({ platform: { domain: 'example.com', bounceDomain: 'bounces.example.com' } });
  const { of } = await doctor(runHere, file, '--server', dns.address);
  expect(of('dmarc _dmarc.example.com')).toHaveLength(1);
  expect(of('mx bounces.example.com')).toHaveLength(1);
});

test('keys and records in place are ok, and a key that all may read is not', async () => {
  const dns = await startDnsServer();
  const { file, folder } = configuration();
  for (const domain of ['example.com', 'platform.example'])
    expect((await runHere(['dkim', 'keygen', domain, '-c', file])).exitCode).toBe(0);
  const { stdout } = await runHere(['domain', 'records', '-c', file, '--json']);
  const records = stdout
    .split('\n')
    .filter((line) => line !== '')
    .flatMap((line) => (JSON.parse(line) as { records: DnsRecord[] }).records);
  for (const { name, type, value } of records) {
    const known = dns.names.get(name.toLowerCase()) ?? {};
    dns.names.set(name.toLowerCase(), type === 'MX' ? { ...known, mx: [value] } : { ...known, txt: [value] });
  }
  dns.names.set('_mta-sts.example.com', { txt: ['v=STSv1; id=1;'] });
  dns.names.set('_mta-sts.platform.example', { txt: ['v=STSv1; no'] });
  chmodSync(join(folder, 'certs/dkim/example.com/s1.pem'), 0o644);
  const { of } = await doctor(runHere, file, '--server', dns.address, '--ntp', await timeServer(0));
  expect(of('dkim s1._domainkey.example.com')).toMatchObject([{ state: 'ok' }]);
  for (const purpose of ['spf', 'mx', 'dmarc'])
    expect(of(`${purpose} `).every(({ state }) => state === 'ok')).toBe(true);
  expect(of('_mta-sts.example.com')).toEqual([{ what: 'mta-sts _mta-sts.example.com', state: 'ok', text: 'policy 1' }]);
  expect(of('_mta-sts.platform.example')).toMatchObject([
    { state: 'warning', text: expect.stringContaining('malformed') },
  ]);
  expect(of('clock')).toMatchObject([{ state: 'ok' }]);
  expect(
    of('keys and')
      .map(({ text }) => text)
      .join(),
  ).toContain('can be read by every user of this machine');
});

test('a name server that says nothing and a port that lets nothing through cost a bounded time', async () => {
  const dns = await startDnsServer();
  for (const name of [
    's1._domainkey.example.com',
    '_dmarc.example.com',
    '_mta-sts.example.com',
    'mx.platform.example',
    'bounces.platform.example',
    'example.com',
  ])
    dns.names.set(name, { fails: 'silence' });
  const closed = await unansweredPort();
  onTestFinished(() => closed.close());
  const { file } = configuration({
    routes: [
      {
        name: 'inside',
        type: 'smarthost',
        url: `smtp://127.0.0.1:${closed.port}`,
        tls: 'none',
        match: { accounts: ['dev'] },
      },
      { name: 'out', type: 'mx' },
    ],
  });
  const { exitCode, of } = await doctor(runCli, file, '--server', dns.address);
  expect(exitCode).toBe(2);
  expect(of('connection to 127.0.0.1')).toMatchObject([{ state: 'fault', text: expect.stringContaining('no answer') }]);
  expect(of('port 25 to the outside')).toMatchObject([{ state: 'warning' }]);
  expect(of('_dmarc.example.com')).toMatchObject([{ state: 'warning', text: expect.stringContaining('not known') }]);
}, 30_000);

test('a look that never ends, and one that throws, are told as not known', async () => {
  expect(await within('torn', () => Promise.reject(new Error('torn in two')))).toMatchObject([
    { state: 'warning', text: 'not known: torn in two' },
  ]);
});

test('exchangers of sending domains show whether port 25 is let out', async () => {
  const about = { signal: new AbortController().signal };
  const none = await lookAtExchangers(['example.com'], {
    ...about,
    resolver: { resolveMx: async () => [] },
  });
  expect(none).toMatchObject([{ what: 'port 25 to the outside', state: 'warning' }]);
  const found = await lookAtExchangers(['example.com'], {
    ...about,
    resolver: { resolveMx: async () => [{ priority: 1, exchange: '127.0.0.1' }] },
  });
  expect(found).toMatchObject([{ what: 'connection to 127.0.0.1:25' }]);
});

test('the reverse name of each address is compared with the name', async () => {
  const resolver = (names: readonly string[]) => ({
    resolve4: async () => ['192.0.2.1'],
    resolve6: async () => [],
    reverse: async () => [...names],
  });
  const look = (names: readonly string[]) => lookAtName('mx.example', resolver(names) as never);
  expect(await look(['MX.example.'])).toMatchObject([{ state: 'ok' }]);
  expect(await look(['other.example'])).toMatchObject([{ state: 'warning', text: 'is other.example, not mx.example' }]);
  expect(await look([])).toMatchObject([{ state: 'warning', text: 'has none' }]);
});

test('a record that differs is a fault for DKIM alone, and one that is not known is none', async () => {
  const record = {
    purpose: 'dkim',
    type: 'TXT',
    name: 's._domainkey.a.example',
    value: 'v',
    zone: 'z',
    published_by: 'domain',
  } as const;
  expect(seenRecord(record, { state: 'different', found: ['w'] })).toMatchObject({
    state: 'fault',
    cure: 'Change it to: v',
  });
  expect(seenRecord({ ...record, purpose: 'spf' }, { state: 'missing', found: [] })).toMatchObject({
    state: 'warning',
    cure: 'Publish: z',
  });
  expect(seenRecord(record, { state: 'error', found: [], detail: 'SERVFAIL' })).toMatchObject({ state: 'warning' });
  expect(await lookAtSts('a.example', { resolveTxt: async () => [['other']] })).toMatchObject([{ state: 'ok' }]);
});
