// A running gateway tells senders what became of their mail (RFC 3461, RFC 3464): who is told, what the report says to people
// and to programs, and that there is one report, whatever happens in between.

import { simpleParser } from 'mailparser';
import { afterAll, afterEach, expect, test } from 'vitest';
import { captureRoute, deviceConfiguration } from '../support/device-config.ts';
import { dkimRecords, verifySignatures } from '../support/dkim-verifier.ts';
import { FaultSink } from '../support/fault-sink.ts';
import { type PosternHere, startHere } from '../support/postern-here.ts';
import { type RunningPostern, startPostern } from '../support/postern-process.ts';
import { runHere } from '../support/run-cli.ts';
import { RawClient } from '../support/smtp-peers.ts';
import { openStoreOf, queuedQuestion, soonTakenOver } from '../support/store.ts';

let postern: RunningPostern | undefined;
let sink: FaultSink | undefined;
afterEach(async () => {
  if (postern === undefined || postern !== shared?.postern) {
    await postern?.cleanUp();
    await sink?.close();
  }
  [postern, sink] = [undefined, undefined];
});

interface Choices {
  readonly reports?: object;
  readonly delivery?: object;
}

/** Accounts by the domain that they send from, with their `reports`; each has a listener of its name. */
const accounts = {
  dev: { domain: 'example.com', reports: undefined },
  // Their keys take less time to make.
  unasked: { domain: 'unasked.example', reports: { failure: false }, dkim: [{ selector: 'e1', algorithm: 'ed25519' }] },
  told: { domain: 'told.example', reports: { success: true }, dkim: [{ selector: 'e1', algorithm: 'ed25519' }] },
} as const;

type AccountName = keyof typeof accounts;

/** Mail to the accounts' domains is captured, that to dsn.test goes to `dsn`, all other mail to `sink`. */
function configWith(ports: { readonly sink: number; readonly dsn: number }, choices: Choices) {
  const base = deviceConfiguration({
    routes: [
      {
        ...captureRoute,
        name: 'own',
        match: { recipientDomains: Object.values(accounts).map(({ domain }) => domain) },
      },
      ...Object.entries({ dsn: ports.dsn, sink: ports.sink }).map(([name, port]) => ({
        ...{ name, type: 'smarthost', url: `smtp://127.0.0.1:${port}`, tls: 'none' },
        ...(name === 'dsn' ? { match: { recipientDomains: ['dsn.test'] } } : {}),
      })),
    ],
    ...(choices.delivery ? { delivery: choices.delivery } : {}),
  });
  const config = {
    ...base,
    ...soonTakenOver,
    smtp: {
      listeners: Object.keys(accounts).map((name) => ({
        ...{ name, role: 'submission', listen: '127.0.0.1:0', tls: 'none' },
        ...{ credential: `${name}/devices`, allowFrom: ['127.0.0.0/8'] },
      })),
    },
    accounts: Object.entries(accounts).map(([name, { domain, reports: wanted, ...signed }], index) => ({
      ...{ name, id: `a${index}`.repeat(16), sendingDomains: [{ name: domain, ...signed }] },
      credentials: [{ name: 'devices', scopes: ['email:send'] }],
      // The same recipient fails again and again, and is to be asked each time.
      suppress: { failures: false },
      ...(wanted ? { reports: wanted } : {}),
    })),
    reports: { gatherSeconds: 1, ...choices.reports },
  };
  return config;
}

/** A gateway for one test. */
async function start(choices: Choices): Promise<{ readonly port: number }> {
  sink = await FaultSink.start();
  const { port } = sink;
  postern = await startHere({ config: configWith({ sink: port, dsn: port }, choices) });
  return { port: postern.ports['dev'] ?? 0 };
}

let shared: { readonly postern: PosternHere; readonly sink: FaultSink; readonly dsn: FaultSink } | undefined;
let reportsBefore = 0;
afterAll(async () => {
  await shared?.postern.cleanUp();
  await Promise.all([shared?.sink.close(), shared?.dsn.close()]);
});

/** The gateway of the tests that need none of their own. What the tests before have had made counts no more. */
async function share(account: AccountName = 'dev'): Promise<{ readonly port: number; readonly from: string }> {
  if (!shared) {
    const [plain, dsn] = [await FaultSink.start(), await FaultSink.start({ dsn: true })];
    const config = configWith({ sink: plain.port, dsn: dsn.port }, {});
    shared = { postern: await startHere({ config }), sink: plain, dsn };
  }
  ({ postern, sink } = shared);
  await quiet();
  reportsBefore = allReports().length;
  return { port: postern.ports[account] ?? 0, from: `alice@${accounts[account].domain}` };
}

interface Mail {
  readonly from?: string;
  readonly mail?: string;
  readonly recipients: readonly string[];
  readonly head?: string;
  readonly body?: string;
}

async function send(
  port: number,
  { from = 'alice@example.com', mail = '', recipients, head = '', body = 'Hi\r\n' }: Mail,
) {
  const client = RawClient.open(port);
  try {
    await client.reply();
    await client.ask('EHLO client.example');
    expect(await client.ask(`MAIL FROM:<${from}>${mail}`)).toMatch(/^250/);
    for (const recipient of recipients) expect(await client.ask(`RCPT TO:${recipient}`)).toMatch(/^250/);
    await client.ask('DATA');
    client.send(
      `From: ${from || 'a@example.com'}\r\nSubject: Original\r\nMessage-ID: <own@client.example>\r\n${head}\r\n${body}.\r\n`,
    );
    const answer = await client.reply();
    expect(answer).toMatch(/^250/);
    return /<([^@]+)@/.exec(answer)?.[1] ?? '';
  } finally {
    client.destroy();
  }
}

function allReports(): readonly Buffer[] {
  return (postern?.captured() ?? []).filter((one) => one.includes('report-type=delivery-status'));
}

/** The reports of this test so far, as they were captured. */
function reports(): readonly Buffer[] {
  return allReports().slice(postern === shared?.postern ? reportsBefore : 0);
}

async function firstReport(): Promise<Buffer> {
  const [report] = (await postern?.until(() => reports().length > 0 && reports(), 20)) ?? [];
  if (!report) throw new Error('no report');
  return report;
}

function statusOf(report: Buffer): string {
  const text = report.toString('latin1');
  const start = text.indexOf('\r\nReporting-MTA:') + 2;
  return text.slice(start, text.indexOf('\r\n--report-', start)).replaceAll('\r\n', '\n');
}

/** Waits until the only recipient of a message is delivered or has failed. */
async function hasEnded(queueId: string): Promise<void> {
  const isEnd = (msg: unknown): boolean => msg === 'delivered' || msg === 'failed';
  await postern?.until(() => postern?.log().some(({ msg, id }) => isEnd(msg) && id === queueId));
}

/** Waits until nothing more is to come: all that is noted has been made. @param queued recipients that are still to be tried */
async function quiet(queued = 0): Promise<void> {
  if (!postern) return;
  const database = await openStoreOf(postern);
  const left = `SELECT (SELECT count(*) FROM spool_reports) AS noted, ${queuedQuestion(postern)}`;
  await expect.poll(() => database.query(left), { timeout: 20_000, interval: 50 }).toEqual([{ noted: 0, queued }]);
}

test('a failure is reported with the words of the next hop, and mailparser and mailauth read the report', async () => {
  const { port } = await share();
  const id = await send(port, {
    mail: ' ENVID=QQ+2B314 RET=HDRS',
    recipients: ['<fail-rcpt@partner.test> ORCPT=rfc822;Old+40partner.test', '<good@partner.test>'],
  });
  const report = await firstReport();
  expect(statusOf(report).replaceAll(/: \w{3}, .* \+0000/g, ': DATE')).toBe(`Reporting-MTA: dns; mx.platform.example
Original-Envelope-Id: QQ+314
Arrival-Date: DATE

Original-Recipient: rfc822; Old@partner.test
Final-Recipient: rfc822; fail-rcpt@partner.test
Action: failed
Status: 5.1.1
Remote-MTA: dns; 127.0.0.1
Diagnostic-Code: smtp; 550 5.1.1 No such user here
Last-Attempt-Date: DATE
Final-Log-ID: ${id}
`);
  const parsed = await simpleParser(report);
  expect(parsed.from?.text).toBe('"Mail Delivery System" <mailer-daemon@platform.example>');
  expect(parsed.to).toMatchObject({ text: 'alice@example.com' });
  expect(parsed.subject).toBe('Your message could not be delivered');
  expect(parsed.headers.get('auto-submitted')).toBe('auto-replied');
  expect(parsed.headers.get('return-path')).toMatchObject({ text: '' });
  expect(parsed.inReplyTo).toBe('<own@client.example>');
  expect(parsed.text).toContain('127.0.0.1 said:\n      550 5.1.1 No such user here');
  expect(parsed.text).toContain('This address does not seem to exist');
  // mailparser gives the second part with the text.
  expect(parsed.text).toContain('Final-Recipient: rfc822; fail-rcpt@partner.test\nAction: failed\n');
  expect(parsed.attachments.map(({ contentType }) => contentType)).toEqual(['text/rfc822-headers']);
  expect(parsed.attachments[0]?.content.toString()).toContain('Subject: Original\r\n');
  // Nothing of the body, and no address of other recipients' reports.
  expect(report.toString('latin1')).not.toContain('\r\nHi\r\n');
  expect(statusOf(report)).not.toContain('good@partner.test');
  const unsealed = report.subarray(report.indexOf('\r\n') + 2);
  expect(await verifySignatures(unsealed, dkimRecords(postern?.certsDir ?? ''))).toEqual([
    expect.objectContaining({ domain: 'platform.example', result: 'pass' }),
  ]);
  await quiet();
  expect(reports()).toHaveLength(1);
}, 60_000);

test('1,000 recipients that fail are told in one report, whose text names some of them', async () => {
  const { port } = await start({ reports: { gatherSeconds: 60 } });
  const recipients = Array.from({ length: 1000 }, (_, index) => `<fail-rcpt+${index}@partner.test>`);
  await send(port, { recipients });
  const report = await firstReport();
  expect([...statusOf(report).matchAll(/^Final-Recipient: rfc822; fail-rcpt\+(\d+)@partner\.test$/gm)]).toHaveLength(
    1000,
  );
  expect((await simpleParser(report)).text).toContain('and 980 more; the next part');
  expect(report.length).toBeLessThan(1_000_000);
  await quiet();
  expect(reports()).toHaveLength(1);
}, 60_000);

test.each([
  ['NOTIFY=NEVER', 'fail-rcpt', 'dev', []],
  ['NOTIFY=SUCCESS', 'fail-rcpt', 'dev', []],
  ['NOTIFY=FAILURE', 'fail-rcpt', 'unasked', ['failed']],
  ['NOTIFY=SUCCESS,FAILURE', 'good', 'dev', ['relayed']],
  ['', 'good', 'dev', []],
  ['', 'good', 'told', ['relayed']],
  ['', 'fail-rcpt', 'dev', ['failed']],
  ['', 'fail-rcpt', 'unasked', []],
  ['NOTIFY=FAILURE', 'good', 'told', []],
] as const)(
  '%s to %s, account %s: %j',
  async (notify, localPart, account, actions) => {
    const { port, from } = await share(account);
    await hasEnded(await send(port, { from, recipients: [`<${localPart}@partner.test> ${notify}`.trim()] }));
    await quiet();
    expect(reports().map((report) => /^Action: (.*)$/m.exec(statusOf(report))?.[1])).toEqual(actions);
  },
  60_000,
);

test('a next hop that offers DSN is told what the sender asks, and makes the report of success itself', async () => {
  const { port } = await share();
  await send(port, {
    mail: ' RET=FULL ENVID=a+2Bb SMTPUTF8',
    recipients: [
      '<one@dsn.test> NOTIFY=SUCCESS,DELAY',
      // As the client writes it: in UTF-8.
      '<two@dsn.test> ORCPT=utf-8;b\u00c3\u00bccher@partner.test',
      '<three@dsn.test>',
    ],
  });
  const dsn = shared?.dsn;
  await postern?.until(() => dsn?.messages.length === 1);
  expect(
    dsn?.commands.filter((line) => /^(?:MAIL|RCPT)/.test(line)).map((line) => line.replace(/<b\+[^@]*/, '<b')),
  ).toEqual([
    expect.stringMatching(/^MAIL FROM:<b@bounces\.platform\.example> SIZE=\d+ RET=FULL ENVID=a\+2Bb$/),
    'RCPT TO:<one@dsn.test> NOTIFY=SUCCESS,DELAY',
    'RCPT TO:<two@dsn.test> ORCPT=utf-8;b\\x{FC}cher@partner.test',
    'RCPT TO:<three@dsn.test>',
  ]);
  await quiet();
  expect(reports()).toEqual([]);
}, 60_000);

test('mail that is captured is delivered, not relayed', async () => {
  const { port } = await share();
  await send(port, { recipients: ['<bob@example.com> NOTIFY=SUCCESS'] });
  expect(statusOf(await firstReport())).toMatch(
    /^Action: delivered\nStatus: 2\.0\.0\nDiagnostic-Code: x-postern; 250/m,
  );
}, 60_000);

test('RET=FULL returns the whole message of a failure within the bound, REQUIRETLS and success never do', async () => {
  const { port } = await share();
  const whole = 'The whole text of it\r\n';
  await send(port, { mail: ' RET=FULL', recipients: ['<fail-rcpt@partner.test>'], body: whole });
  const small = await firstReport();
  expect(small.toString('latin1')).toContain(`Content-Type: message/rfc822\r\n`);
  expect(small.toString('latin1')).toContain(whole);
  await send(port, {
    mail: ' RET=FULL',
    recipients: ['<fail-rcpt@partner.test>'],
    body: `${whole}${'x\r\n'.repeat(90_000)}`,
  });
  await send(port, { mail: ' RET=FULL', recipients: ['<good@partner.test> NOTIFY=SUCCESS'], body: whole });
  await postern?.until(() => reports().length === 3, 20);
  expect(reports().filter((report) => report.includes('Content-Type: text/rfc822-headers'))).toHaveLength(2);
}, 60_000);

test('mail with the null reverse-path causes no report, and a report that fails causes no other', async () => {
  const { port } = await share();
  await hasEnded(await send(port, { from: '', recipients: ['<fail-rcpt@partner.test> NOTIFY=FAILURE'] }));
  await quiet();
  expect(reports()).toEqual([]);
}, 60_000);

test('a message that was not delivered in time is reported once as delayed, then as failed', async () => {
  const { port } = await start({
    reports: { delaySeconds: 1, gatherSeconds: 0 },
    delivery: { retry: { firstDelaySeconds: 1, maxDelaySeconds: 1, expireAfterSeconds: 5 } },
  });
  await send(port, { recipients: ['<defer-rcpt@partner.test> NOTIFY=DELAY,FAILURE'] });
  await postern?.until(() => reports().length === 2, 30);
  const [delayed, failed] = reports().map(statusOf);
  expect(delayed).toMatch(/Action: delayed\nStatus: 4\.2\.1\n.*\nDiagnostic-Code: smtp; 451 4\.2\.1 Mailbox busy\n/);
  expect(delayed).toMatch(/^Will-Retry-Until: /m);
  expect(failed).toMatch(/Action: failed\nStatus: 4\.4\.7\n.*\nDiagnostic-Code: smtp; 451 4\.2\.1 Mailbox busy\n/);
  await quiet();
  expect(reports()).toHaveLength(2);
}, 60_000);

test('kill -9 between the outcome and its report: there is exactly one report', async () => {
  sink = await FaultSink.start();
  const config = configWith({ sink: sink.port, dsn: sink.port }, { reports: { gatherSeconds: 3 } });
  let running = await startPostern({ config });
  postern = running;
  for (let round = 0; round < 3; round += 1) {
    await send(running.ports['dev'] ?? 0, {
      recipients: ['<fail-rcpt@partner.test>', '<slow@partner.test>', `<defer-rcpt@partner.test>`],
      head: `X-Round: ${round}\r\n`,
    });
    await running.until(() => running.log().some(({ msg }) => msg === 'failed'));
    await running.end('SIGKILL');
    running = await startPostern({ config, folder: running.folder });
    postern = running;
    await running.until(() => reports().length === round + 1, 20);
  }
  // The deferred recipient of each round stays.
  await quiet(3);
  expect(reports().map((report) => /X-Round: (\d)/.exec(report.toString('latin1'))?.[1])).toEqual(['0', '1', '2']);
}, 90_000);

test('no more reports a day than the limits allow; the rest is counted', async () => {
  const { port } = await start({ reports: { perAddressPerDay: 1, gatherSeconds: 0 } });
  // One to each address, and ten to those of the account.
  for (let index = 0; index < 5; index += 1) await send(port, { recipients: ['<fail-rcpt@partner.test>'] });
  for (let index = 0; index < 12; index += 1) {
    await send(port, { from: `bob${index}@example.com`, recipients: ['<fail-rcpt@partner.test>'] });
  }
  await postern?.until(() => (postern?.log() ?? []).filter(({ msg }) => msg === 'failed').length === 17, 20);
  await quiet();
  expect(reports()).toHaveLength(10);
  const metrics = await (await fetch(`http://127.0.0.1:${postern?.ports['http']}/metrics`)).text();
  expect(metrics).toMatch(/^postern_reports_sent_total 10$/m);
  expect(metrics).toMatch(/^postern_reports_limited_total 7$/m);
}, 60_000);

test('an address that the list suppresses gets no report', async () => {
  const { port } = await share();
  const from = 'suppressed@example.com';
  const added = await runHere(['suppression', 'add', '--account', 'dev', from], { env: postern?.env ?? {} });
  expect(added).toMatchObject({ exitCode: 0, stderr: '' });
  await send(port, { from, recipients: ['<fail-rcpt@partner.test>'] });
  const left = await postern?.until(() => postern?.log().find(({ msg }) => msg === 'report not sent'), 20);
  expect(left).toMatchObject({ reason: 'the sender is suppressed' });
  expect(reports()).toEqual([]);
}, 60_000);
