// Reports of TLS on the running program: mail by MX is counted, a restart keeps the counts, and the report leaves as mail by
// the routes, signed by the platform.

import { simpleParser } from 'mailparser';
import { afterEach, expect, test, vi } from 'vitest';
import { dkimRecords, verifySignatures } from '../support/dkim-verifier.ts';
import { startDnsServer } from '../support/dns-server.ts';
import { FaultSink } from '../support/fault-sink.ts';
import { type ReloadedConfig, startReloadableHere, testToken } from '../support/reloadable.ts';
import { openStoreOf } from '../support/store.ts';
import { readReport } from '../support/tls-reporting.ts';

vi.setConfig({ testTimeout: 90_000, hookTimeout: 60_000 });

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

test('mail by MX without TLS is reported to the domain that asks', async () => {
  const dns = await startDnsServer({
    'x.test': { mx: ['10 mx.test'] },
    'mx.test': { a: ['127.0.0.1'] },
    '_smtp._tls.x.test': { txt: ['v=TLSRPTv1; rua=mailto:tls@x.test'] },
  });
  const sink = await FaultSink.start();
  closers.push(() => sink.close());
  const edit = (config: ReloadedConfig): void => {
    config.routes = [{ name: 'out', type: 'mx', port: sink.port, allowPrivate: ['127.0.0.0/8'] }];
    config['delivery'] = { resolver: { servers: [dns.address] } };
  };
  const before = await startReloadableHere(edit);
  closers.push(() => before.postern.cleanUp());
  const url = `http://127.0.0.1:${before.postern.ports['http']}/client/v4/accounts/dev/email/sending/send`;
  const headers = { authorization: `Bearer ${testToken}`, 'content-type': 'application/json', prefer: 'wait=20' };
  const message = { from: 'a@example.com', to: 'you@x.test', subject: 'x', text: 'x' };
  const answer = await fetch(url, { method: 'POST', headers, body: JSON.stringify(message) });
  expect(await answer.json()).toMatchObject({ result: { delivered: ['you@x.test'] } });
  await before.postern.stop();
  // The day is over.
  const database = await openStoreOf(before.postern);
  expect(await database.run('UPDATE tls_reports SET due_at = 1')).toBe(1);
  await database.close();
  const after = await startReloadableHere(edit, { folder: before.postern.folder });
  closers.push(() => after.postern.cleanUp());
  await after.postern.until(() => sink.messages.length >= 2);
  const mail = sink.messages[1];
  expect(mail).toMatchObject({ mailFrom: '', recipients: ['tls@x.test'] });
  const raw = mail?.raw ?? Buffer.alloc(0);
  expect(await verifySignatures(raw, dkimRecords(after.postern.certsDir))).toMatchObject([
    { domain: 'platform.example', result: 'pass' },
  ]);
  const { attachments, headers: fields } = await simpleParser(raw);
  expect(fields.get('tls-report-domain')).toBe('x.test');
  expect(readReport(attachments[0]?.content ?? Buffer.alloc(0))).toMatchObject({
    'organization-name': 'platform.example',
    policies: [
      {
        policy: { 'policy-type': 'no-policy-found', 'policy-domain': 'x.test' },
        summary: { 'total-successful-session-count': 0, 'total-failure-session-count': 1 },
        'failure-details': [
          {
            'result-type': 'starttls-not-supported',
            'sending-mta-ip': '127.0.0.1',
            'receiving-mx-hostname': 'mx.test',
            'receiving-ip': '127.0.0.1',
            'failed-session-count': 1,
          },
        ],
      },
    ],
  });
  expect((await after.metrics()).get('postern_tls_reports_sent_total')).toBe(1);
});
