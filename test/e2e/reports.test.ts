// A real process tells senders what became of their mail (RFC 3461, RFC 3464): who is told, what the report says to people
// and to programs, and that there is one report, whatever happens in between.

import { simpleParser } from 'mailparser';
import { afterEach, expect, test } from 'vitest';
import { captureRoute, deviceConfiguration } from '../support/device-config.ts';
import { dkimRecords, verifySignatures } from '../support/dkim-verifier.ts';
import { FaultSink, type FaultSinkOptions } from '../support/fault-sink.ts';
import { type PosternProcess, startPostern } from '../support/postern-process.ts';
import { runCli } from '../support/run-cli.ts';
import { RawClient } from '../support/smtp-peers.ts';
import { openStoreOf, queuedQuestion, soonTakenOver } from '../support/store.ts';

let postern: PosternProcess | undefined;
let sink: FaultSink | undefined;
afterEach(async () => {
  await postern?.cleanUp();
  await sink?.close();
  [postern, sink] = [undefined, undefined];
});

interface Choices {
  readonly sink?: FaultSinkOptions;
  readonly reports?: object;
  readonly accountReports?: object;
  readonly delivery?: object;
}

/** Mail to example.com is captured, all other mail goes to the sink. */
async function start(choices: Choices = {}): Promise<{ readonly config: object; readonly port: number }> {
  sink = await FaultSink.start(choices.sink ?? {});
  const base = deviceConfiguration({
    routes: [
      { ...captureRoute, name: 'own', match: { recipientDomains: ['example.com'] } },
      { name: 'sink', type: 'smarthost', url: `smtp://127.0.0.1:${sink.port}`, tls: 'none' },
    ],
    ...(choices.delivery ? { delivery: choices.delivery } : {}),
    // The same recipient fails again and again, and is to be asked each time.
    account: { suppress: { failures: false }, ...(choices.accountReports ? { reports: choices.accountReports } : {}) },
  });
  const config = { ...base, ...soonTakenOver, reports: { gatherSeconds: 1, ...choices.reports } };
  postern = await startPostern({ config });
  return { config, port: postern.ports['devices'] ?? 0 };
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
      `From: a@example.com\r\nSubject: Original\r\nMessage-ID: <own@client.example>\r\n${head}\r\n${body}.\r\n`,
    );
    const answer = await client.reply();
    expect(answer).toMatch(/^250/);
    return /<([^@]+)@/.exec(answer)?.[1] ?? '';
  } finally {
    client.destroy();
  }
}

/** The reports so far, as they were captured. */
function reports(): readonly Buffer[] {
  return (postern?.captured() ?? []).filter((one) => one.includes('report-type=delivery-status'));
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

/** Waits until nothing more is to come: all that is noted has been made. @param queued recipients that are still to be tried */
async function quiet(queued = 0): Promise<void> {
  if (!postern) return;
  const database = await openStoreOf(postern);
  const left = `SELECT (SELECT count(*) FROM spool_reports) AS noted, ${queuedQuestion(postern)}`;
  await expect.poll(() => database.query(left), { timeout: 20_000, interval: 50 }).toEqual([{ noted: 0, queued }]);
}

test('a failure is reported with the words of the next hop, and mailparser and mailauth read the report', async () => {
  const { port } = await start();
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
  ['NOTIFY=NEVER', 'fail-rcpt', {}, []],
  ['NOTIFY=SUCCESS', 'fail-rcpt', {}, []],
  ['NOTIFY=FAILURE', 'fail-rcpt', { failure: false }, ['failed']],
  ['NOTIFY=SUCCESS,FAILURE', 'good', {}, ['relayed']],
  ['', 'good', {}, []],
  ['', 'good', { success: true }, ['relayed']],
  ['', 'fail-rcpt', {}, ['failed']],
  ['', 'fail-rcpt', { failure: false }, []],
  ['NOTIFY=FAILURE', 'good', { success: true }, []],
] as const)(
  '%s to %s, account %j: %j',
  async (notify, localPart, accountReports, actions) => {
    const { port } = await start({ accountReports });
    await send(port, { recipients: [`<${localPart}@partner.test> ${notify}`.trim()] });
    await postern?.until(() => postern?.log().some(({ msg }) => msg === 'delivered' || msg === 'failed'));
    await quiet();
    expect(reports().map((report) => /^Action: (.*)$/m.exec(statusOf(report))?.[1])).toEqual(actions);
  },
  60_000,
);

test('a next hop that offers DSN is told what the sender asks, and makes the report of success itself', async () => {
  const { port } = await start({ sink: { dsn: true } });
  await send(port, {
    mail: ' RET=FULL ENVID=a+2Bb SMTPUTF8',
    recipients: [
      '<one@partner.test> NOTIFY=SUCCESS,DELAY',
      // As the client writes it: in UTF-8.
      '<two@partner.test> ORCPT=utf-8;b\u00c3\u00bccher@partner.test',
      '<three@partner.test>',
    ],
  });
  await postern?.until(() => sink?.messages.length === 1);
  expect(
    sink?.commands.filter((line) => /^(?:MAIL|RCPT)/.test(line)).map((line) => line.replace(/<b\+[^@]*/, '<b')),
  ).toEqual([
    expect.stringMatching(/^MAIL FROM:<b@bounces\.platform\.example> SIZE=\d+ RET=FULL ENVID=a\+2Bb$/),
    'RCPT TO:<one@partner.test> NOTIFY=SUCCESS,DELAY',
    'RCPT TO:<two@partner.test> ORCPT=utf-8;b\\x{FC}cher@partner.test',
    'RCPT TO:<three@partner.test>',
  ]);
  await quiet();
  expect(reports()).toEqual([]);
}, 60_000);

test('mail that is captured is delivered, not relayed', async () => {
  const { port } = await start();
  await send(port, { recipients: ['<bob@example.com> NOTIFY=SUCCESS'] });
  expect(statusOf(await firstReport())).toMatch(
    /^Action: delivered\nStatus: 2\.0\.0\nDiagnostic-Code: x-postern; 250/m,
  );
}, 60_000);

test('RET=FULL returns the whole message of a failure within the bound, REQUIRETLS and success never do', async () => {
  const { port } = await start();
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
  const { port } = await start();
  await send(port, { from: '', recipients: ['<fail-rcpt@partner.test> NOTIFY=FAILURE'] });
  await postern?.until(() => postern?.log().some(({ msg }) => msg === 'failed'));
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
  const { config, port } = await start({ reports: { gatherSeconds: 3 } });
  for (let round = 0; round < 3; round += 1) {
    await send(round === 0 ? port : (postern?.ports['devices'] ?? 0), {
      recipients: ['<fail-rcpt@partner.test>', '<slow@partner.test>', `<defer-rcpt@partner.test>`],
      head: `X-Round: ${round}\r\n`,
    });
    await postern?.until(() => postern?.log().some(({ msg }) => msg === 'failed'));
    await postern?.end('SIGKILL');
    postern = await startPostern({ config, folder: postern?.folder ?? '' });
    await postern.until(() => reports().length === round + 1, 20);
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
  const { port } = await start();
  const env = (postern?.env ?? {}) as Record<string, string>;
  const added = await runCli(['suppression', 'add', '--account', 'dev', 'alice@example.com'], { env });
  expect(added).toMatchObject({ exitCode: 0, stderr: '' });
  await send(port, { recipients: ['<fail-rcpt@partner.test>'] });
  const left = await postern?.until(() => postern?.log().find(({ msg }) => msg === 'report not sent'), 20);
  expect(left).toMatchObject({ reason: 'the sender is suppressed' });
  expect(reports()).toEqual([]);
}, 60_000);
