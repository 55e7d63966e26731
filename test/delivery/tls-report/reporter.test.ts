// Reports of TLS (RFC 8460) from the attempts to the mail and the request that carry them.

import { simpleParser } from 'mailparser';
import { expect, onTestFinished, test } from 'vitest';
import { verdicts } from '../../support/dkim.ts';
import { attemptTo, readReport, startReportHost, startTlsReporting } from '../../support/tls-reporting.ts';
import { unansweredPort } from '../../support/unanswered-port.ts';

const hour = 3600;
const record = (...uris: readonly string[]) => ({ txt: [`v=TLSRPTv1; rua=${uris.join(',')}`] });

test('a report has the structure of RFC 8460 Appendix B, and goes by HTTPS after the end of its day', async () => {
  const host = await startReportHost();
  const { clock, run } = await startTlsReporting({
    '_smtp._tls.company-y.example': record(`https://reports.test:${host.port}/v1/tlsrpt?of=y`),
    'reports.test': { a: ['127.0.0.1'] },
  });
  const { counts, reporter } = await run();
  const mx = ['*.mail.company-y.example'];
  const sts = { type: 'sts', sts: { id: '1', mode: 'testing', mx, maxAge: 86_400 } } as const;
  const good = attemptTo('company-y.example', { policy: sts });
  const bad = { ...good, exchanger: 'mx1.mail.company-y.example', failure: 'certificate-expired' } as const;
  for (let at = 0; at < 3; at += 1) counts.count(good);
  counts.count({ ...bad, reason: 'certificate has\r\nexpired \u{1f600}' });
  await counts.flush();
  counts.count({ ...bad, domain: 'Company-Y.example', reason: 'in other words' });
  counts.count({ ...bad, failure: 'starttls-not-supported' });
  const tlsa = [{ usage: 3, selector: 1, matching: 1, data: Buffer.from('abcd', 'hex') }];
  counts.count({ ...good, policy: { type: 'tlsa', tlsa }, exchanger: 'mx2.company-y.example' });
  await counts.flush();
  clock.pass(12 * hour + 30 * 60);
  await reporter.sendDue();
  expect(host.taken).toEqual([]);
  clock.pass(60);
  await reporter.sendDue();
  await reporter.sendDue();
  expect(host.taken.map(({ path }) => path)).toEqual(['/v1/tlsrpt?of=y']);
  expect(host.taken[0]?.headers).toMatchObject({
    'content-type': 'application/tlsrpt+gzip',
    host: `reports.test:${host.port}`,
  });
  const failure = {
    'sending-mta-ip': '198.51.100.1',
    'receiving-mx-hostname': 'mx1.mail.company-y.example',
    'receiving-ip': '192.0.2.1',
  };
  const report = readReport(host.taken[0]?.body ?? Buffer.alloc(0));
  expect(report).toMatchObject({
    'organization-name': 'Example Platform',
    'date-range': { 'start-datetime': '2026-11-21T00:00:00Z', 'end-datetime': '2026-11-21T23:59:59Z' },
    'contact-info': 'postmaster@platform.example',
    'report-id': expect.stringMatching(/^[0-9a-f-]{36}$/),
  });
  const { policies } = report as { readonly policies: readonly { readonly policy: Record<string, unknown> }[] };
  expect(policies).toHaveLength(2);
  expect(policies.find(({ policy }) => policy['policy-type'] === 'sts')).toEqual({
    policy: {
      'policy-type': 'sts',
      'policy-string': ['version: STSv1', 'mode: testing', `mx: ${mx[0]}`, 'max_age: 86400'],
      'policy-domain': 'company-y.example',
      'mx-host': mx,
    },
    summary: { 'total-successful-session-count': 3, 'total-failure-session-count': 3 },
    'failure-details': [
      {
        'result-type': 'certificate-expired',
        ...failure,
        'failed-session-count': 2,
        'failure-reason-code': 'certificate has expired  ',
      },
      { 'result-type': 'starttls-not-supported', ...failure, 'failed-session-count': 1 },
    ],
  });
  expect(policies.find(({ policy }) => policy['policy-type'] === 'tlsa')).toEqual({
    policy: {
      'policy-type': 'tlsa',
      'policy-string': ['3 1 1 abcd'],
      'policy-domain': 'mx2.company-y.example',
      'mx-host': ['mx2.company-y.example'],
    },
    summary: { 'total-successful-session-count': 1, 'total-failure-session-count': 0 },
  });
});

test('a report by mail is signed by the platform, ignores failures of TLS, and can be read by another program', async () => {
  const { clock, run, queued, key } = await startTlsReporting({
    '_smtp._tls.x.test': record('mailto:tls@collector.test'),
  });
  const { counts, reporter } = await run();
  counts.count(attemptTo('x.test', { failure: 'certificate-not-trusted' }));
  await counts.flush();
  clock.pass(24 * hour);
  await reporter.sendDue();
  const [mail] = queued;
  expect(mail).toMatchObject({
    recipients: ['tls@collector.test'],
    reversePath: '',
    tlsOptional: true,
    requireTls: false,
    reports: { failure: false, delay: false, success: false },
  });
  const raw = Buffer.concat([mail?.head ?? Buffer.alloc(0), mail?.body ?? Buffer.alloc(0)]);
  expect(await verdicts(raw, [key])).toEqual(['pass platform.example p1']);
  const { headers, subject = '', from, attachments, text = '' } = await simpleParser(raw);
  expect(from?.text).toContain('tls-reports@platform.example');
  expect(subject).toMatch(
    /^Report Domain: x\.test Submitter: platform\.example Report-ID: <[0-9a-f-]{36}@platform\.example>$/,
  );
  expect(headers.get('tls-report-domain')).toBe('x.test');
  expect(headers.get('tls-report-submitter')).toBe('platform.example');
  expect(headers.get('tls-required')).toBe('No');
  expect(headers.get('content-type')).toMatchObject({ value: 'multipart/report', params: { 'report-type': 'tlsrpt' } });
  expect(text).toContain('x.test on 2026-11-21');
  expect(attachments.map(({ contentType }) => contentType)).toEqual(['application/tlsrpt+gzip']);
  const [attachment] = attachments;
  expect(attachment?.filename).toMatch(/^platform\.example!x\.test!1795219200!1795305599![0-9a-f-]{36}\.json\.gz$/);
  expect(readReport(attachment?.content ?? Buffer.alloc(0))).toMatchObject({
    policies: [{ policy: { 'policy-type': 'no-policy-found', 'policy-domain': 'x.test' } }],
  });
});

test('each day has a report of its own, and a restart between counting and sending loses nothing', async () => {
  const host = await startReportHost();
  const { clock, run } = await startTlsReporting({
    '_smtp._tls.x.test': record(`https://reports.test:${host.port}/`),
    'reports.test': { a: ['127.0.0.1'] },
  });
  const first = await run();
  first.counts.count(attemptTo('x.test'));
  first.counts.count(attemptTo('unasked.test'));
  // A stop writes down what was counted.
  await first.reporter.stop();
  await first.database.close();
  clock.pass(13 * hour);
  const second = await run();
  second.counts.count(attemptTo('x.test'));
  await second.counts.flush();
  await second.reporter.sendDue();
  clock.pass(24 * hour);
  await second.reporter.sendDue();
  const days = host.taken.map(({ body }) => readReport(body));
  expect(days).toMatchObject([
    { 'date-range': { 'start-datetime': '2026-11-21T00:00:00Z' } },
    { 'date-range': { 'start-datetime': '2026-11-22T00:00:00Z' } },
  ]);
  expect(await second.database.query('SELECT * FROM tls_sessions')).toEqual([]);
  expect(await second.database.query('SELECT * FROM tls_reports')).toEqual([]);
});

test('of several processes one sends a report', async () => {
  const host = await startReportHost();
  const { clock, run } = await startTlsReporting({
    '_smtp._tls.x.test': record(`https://reports.test:${host.port}/`),
    'reports.test': { a: ['127.0.0.1'] },
  });
  const [one, other] = [await run(), await run()];
  one.counts.count(attemptTo('x.test'));
  other.counts.count(attemptTo('x.test'));
  await Promise.all([one.counts.flush(), other.counts.flush()]);
  clock.pass(24 * hour);
  await Promise.all([one.reporter.sendDue(), other.reporter.sendDue()]);
  expect(host.taken).toHaveLength(1);
  expect(readReport(host.taken[0]?.body ?? Buffer.alloc(0))).toMatchObject({
    policies: [{ summary: { 'total-successful-session-count': 2 } }],
  });
});

test('what one place does not take is tried again there alone, and given up after a day', async () => {
  const host = await startReportHost();
  host.status = 302;
  const { clock, run, queued, lines } = await startTlsReporting({
    '_smtp._tls.x.test': record(`https://reports.test:${host.port}/`, 'mailto:tls@collector.test'),
    'reports.test': { a: ['127.0.0.1'] },
  });
  const { counts, reporter, database } = await run();
  counts.count(attemptTo('x.test'));
  await counts.flush();
  clock.pass(13 * hour);
  for (let rounds = 0; rounds < 30 * 12; rounds += 1) {
    await reporter.sendDue();
    clock.pass(300);
  }
  expect(queued).toHaveLength(1);
  // At once, after 5, 10, 20, 40, 80 and 160 minutes, four times after 4 hours, and a last time at the end.
  expect(host.taken).toHaveLength(12);
  expect(reporter.totals).toEqual({ sent: 1, givenUp: 1 });
  expect(lines.filter(({ msg }) => msg === 'TLS report given up')).toMatchObject([
    { domain: 'x.test', day: '2026-11-21', reason: expect.stringContaining('the answer was 302') },
  ]);
  expect(await database.query('SELECT * FROM tls_sessions')).toEqual([]);
});

test('a name server that fails is asked again; one that is silent does not hold up the end', async () => {
  const host = await startReportHost();
  const { clock, run, dns } = await startTlsReporting({
    '_smtp._tls.x.test': { fails: 'SERVFAIL' },
    'reports.test': { a: ['127.0.0.1'] },
  });
  const { counts, reporter } = await run();
  counts.count(attemptTo('x.test'));
  await counts.flush();
  clock.pass(24 * hour);
  await reporter.sendDue();
  dns.names.set('_smtp._tls.x.test', record(`https://reports.test:${host.port}/`));
  clock.pass(300);
  await reporter.sendDue();
  expect(host.taken).toHaveLength(1);
  counts.count(attemptTo('y.test'));
  await counts.flush();
  const release = dns.hold();
  clock.pass(24 * hour);
  const sending = reporter.sendDue();
  await reporter.stop();
  await sending;
  release();
  expect(reporter.totals).toEqual({ sent: 1, givenUp: 0 });
});

test.each([
  ['an address of loopback', (port: number) => `https://127.0.0.1:${port}/`],
  ['an address of loopback in IPv6', (port: number) => `https://[::ffff:127.0.0.1]:${port}/`],
  ['a number that is an address', (port: number) => `https://2130706433:${port}/`],
  ['a name that leads to loopback', (port: number) => `https://inside.test:${port}/`],
])('no report goes to %s', async (_, uri) => {
  const host = await startReportHost();
  const { clock, run } = await startTlsReporting(
    { '_smtp._tls.x.test': record(uri(host.port)), 'inside.test': { a: ['127.0.0.1'], aaaa: ['::1'] } },
    { allowPrivate: [] },
  );
  const { counts, reporter } = await run();
  counts.count(attemptTo('x.test'));
  await counts.flush();
  clock.pass(24 * hour);
  await reporter.sendDue();
  expect(host.taken).toEqual([]);
  expect(reporter.totals.sent).toBe(0);
});

test('records of 64 KiB, thousands of places, and hosts that never answer do not keep others back', async () => {
  const host = await startReportHost();
  const dead = await startReportHost();
  dead.silent = true;
  const other = await startReportHost();
  other.upgrades = true;
  const flooding = await startReportHost();
  flooding.floods = true;
  const unanswered = await unansweredPort();
  onTestFinished(() => unanswered.close());
  const good = record(`https://reports.test:${host.port}/`);
  const { clock, run, lines } = await startTlsReporting({
    '_smtp._tls.large.test': { txt: [`v=TLSRPTv1; rua=mailto:a@x.test,${'x'.repeat(60_000)}`] },
    '_smtp._tls.many.test': record(
      ...Array.from({ length: 1800 }, (_, at) => `https://reports.test:${host.port}/${at}`),
    ),
    '_smtp._tls.silent.test': record(`https://reports.test:${dead.port}/`),
    '_smtp._tls.other.test': record(`https://reports.test:${other.port}/`),
    '_smtp._tls.flooding.test': record(`https://reports.test:${flooding.port}/`),
    '_smtp._tls.closed.test': record(`https://reports.test:${unanswered.port}/`),
    '_smtp._tls.good.test': good,
    'reports.test': { a: ['127.0.0.1'] },
  });
  const { counts, reporter } = await run();
  for (const name of ['large', 'many', 'silent', 'other', 'flooding', 'closed', 'good'])
    counts.count(attemptTo(`${name}.test`));
  await counts.flush();
  clock.pass(24 * hour);
  await reporter.sendDue();
  expect(host.taken.map(({ path }) => path)).toEqual(['/']);
  expect(dead.taken).toHaveLength(1);
  expect(other.taken).toHaveLength(1);
  expect(lines).toContainEqual(
    expect.objectContaining({
      domain: 'flooding.test',
      reason: expect.stringMatching(/too many informational answers$/),
    }),
  );
});

test('a domain that reports go to gets one report a day about all attempts, those of the reports among them', async () => {
  const { clock, run, queued } = await startTlsReporting({ '_smtp._tls.x.test': record('mailto:tls@x.test') });
  const { counts, reporter } = await run();
  counts.count(attemptTo('x.test'));
  for (let days = 1; days <= 5; days += 1) {
    await counts.flush();
    clock.pass(24 * hour);
    await reporter.sendDue();
    // The delivery of each report is an attempt again, and some fail before.
    for (let times = 0; times < 10; times += 1) counts.count(attemptTo('x.test', { failure: 'certificate-expired' }));
    expect(queued).toHaveLength(days);
  }
});

test('where reports are switched off, what was counted before is removed and nobody is asked', async () => {
  const { clock, run, queued, settings, dns } = await startTlsReporting({
    '_smtp._tls.x.test': record('mailto:tls@x.test'),
  });
  const { counts, reporter, database } = await run();
  counts.count(attemptTo('x.test'));
  await counts.flush();
  settings.enabled = false;
  clock.pass(24 * hour);
  await reporter.sendDue();
  expect([queued, dns.asked, await database.query('SELECT * FROM tls_sessions')]).toEqual([[], [], []]);
});

test('a clock that was set back keeps no report for ever', async () => {
  const host = await startReportHost();
  host.status = 500;
  const { clock, run } = await startTlsReporting({
    '_smtp._tls.x.test': record(`https://reports.test:${host.port}/`),
    'reports.test': { a: ['127.0.0.1'] },
  });
  const { counts, reporter, database } = await run();
  clock.jump(365 * 24 * hour);
  counts.count(attemptTo('x.test'));
  await counts.flush();
  clock.jump(-365 * 24 * hour);
  for (let rounds = 0; rounds < 100; rounds += 1) {
    await reporter.sendDue();
    clock.pass(4 * hour);
  }
  expect(host.taken.length).toBe(20);
  expect(reporter.totals).toEqual({ sent: 0, givenUp: 1 });
  expect(await database.query('SELECT * FROM tls_reports')).toEqual([]);
});
