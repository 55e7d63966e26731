// Debian's Postfix with Postern as its relayhost: refused for its Received field, taken as a trusted hop (D4), with
// smtp_header_checks for what it relays from others, and its bounces of what was refused (D4b).

import { simpleParser } from 'mailparser';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ClientGateway, startClientGateway } from '../support/client-gateway.ts';
import { dkimRecords, verifySignatures } from '../support/dkim-verifier.ts';
import { type Postfix, startPostfix } from '../support/postfix.ts';
import { requirePrograms, runProgram } from './programs.ts';

let gateway: ClientGateway;
let postfix: Postfix | undefined;

beforeAll(async () => {
  requirePrograms('postfix', 'swaks');
  gateway = await startClientGateway();
  const relay = `[127.0.0.1]:${gateway.port}`;
  const { default: plain, oldbox } = gateway.tokens;
  postfix = await startPostfix({
    mainCf: [
      // A name that nobody sends from: its bounces are From MAILER-DAEMON@box.internal.
      'myhostname = box.internal',
      `relayhost = ${relay}`,
      'smtp_tls_security_level = secure',
      `smtp_tls_CAfile = ${gateway.trust}`,
      'smtp_tls_secure_cert_match = localhost',
      'smtp_sasl_auth_enable = yes',
      'smtp_sasl_tls_security_options = noanonymous',
      // The sender untrusted@ logs in with a credential that is no trusted hop.
      'smtp_sender_dependent_authentication = yes',
      `smtp_sasl_password_maps = inline:{ { untrusted@example.com = api_token:${plain} }, { ${relay} = api_token:${oldbox} } }`,
      'smtp_header_checks = pcre:{ { /^(User-Agent|X-Cron-Env):/ IGNORE } }',
    ],
  });
});
afterAll(async () => {
  postfix?.stop();
  await gateway?.postern.cleanUp();
});

async function hand(from: string, subject: string, ...extra: readonly string[]): Promise<void> {
  const { code, output } = await runProgram('swaks', [
    ...['--server', '127.0.0.1', '--port', `${postfix?.port}`, '--from', from, '--to', 'a@partner.test'],
    ...['--header', `Subject: ${subject}`, '--body', 'Sent through Postfix.', ...extra],
  ]);
  expect([code, output]).toEqual([0, expect.stringContaining('250 2.0.0 Ok: queued')]);
}

/** Waits until Postfix has logged what it did with a message of this sender. */
async function relayed(from: string): Promise<string> {
  return await gateway.postern.until(() => {
    const id = new RegExp(`qmgr\\[\\d+\\]: ([0-9A-F]+): from=<${from}>`).exec(postfix?.mailLog() ?? '')?.[1];
    return id && new RegExp(`${id}: to=<a@partner\\.test>.*`).exec(postfix?.mailLog() ?? '')?.[0];
  });
}

test('Received is refused from a credential that is no trusted hop, and Postfix keeps the words', async () => {
  await hand('untrusted@example.com', 'refused Postfix');
  expect(await relayed('untrusted@example.com')).toMatch(
    /dsn=5\.7\.1, status=bounced \(host 127\.0\.0\.1\[127\.0\.0\.1\] said: 554 5\.7\.1 E_HEADER_NOT_ALLOWED: Received is set by the platform; only a trusted hop may bring its own \(in reply to end of DATA command\)\)/,
  );
});

test('a trusted hop: its Received stays below ours', async () => {
  await hand('root@example.com', 'through Postfix');
  expect(await relayed('root@example.com')).toMatch(
    /dsn=2\.0\.0, status=sent \(250 2\.0\.0 Ok <[^>]+@platform\.example>\)/,
  );
  const { head, parsed } = await gateway.arrived('through Postfix');
  expect(parsed.text).toContain('Sent through Postfix.');
  const received = head.replaceAll(/\r\n[ \t]+/g, ' ').match(/^Received: .*/gm) ?? [];
  expect(received).toEqual([
    expect.stringMatching(/ by mx\.platform\.example \(Postern\) with ESMTPSA /),
    expect.stringMatching(/ by box\.internal \(Postfix\) with ESMTP /),
  ]);
});

test('smtp_header_checks of Postfix takes out what the programs behind it add', async () => {
  const added = ['User-Agent: Old/1.0', 'X-Cron-Env: <HOME=/root>', 'X-Cron-Env: <SHELL=/bin/sh>'];
  await hand('app@example.com', 'with User-Agent', ...added.flatMap((line) => ['--add-header', line]));
  expect(await relayed('app@example.com')).toContain('status=sent');
  expect((await gateway.arrived('with User-Agent')).head).not.toMatch(/^(?:User-Agent|X-Cron-Env):/im);
});

test('a message that Postern refuses: Postfix’s bounce of it goes through Postern to its sender (D4b)', async () => {
  const text = ['--header', 'Precedence: first-class', '--body', 'Grüße, die zurückkommen.'];
  await hand('user@example.com', 'comes back', ...text);
  expect(await relayed('user@example.com')).toContain('dsn=5.6.0, status=bounced');
  const bounce = await gateway.postern.until(() =>
    gateway.postern.captured().find((message) => message.includes('\r\nTo: user@example.com\r\n')),
  );
  const head = bounce.subarray(0, bounce.indexOf('\r\n\r\n') + 2).toString('latin1');
  expect(head).toMatch(/^Return-Path: <>\r\n/);
  expect(head).toContain('\r\nFrom: MAILER-DAEMON@example.com\r\n');
  expect(head).toContain('\r\nX-Original-From: Mail Delivery System <MAILER-DAEMON@box.internal>\r\n');
  expect(head).toMatch(/\r\nContent-Type: multipart\/report; report-type=delivery-status;/);
  const words = 'E_HEADER_VALUE_INVALID: Precedence must be one of bulk, list, junk; got "first-class"';
  const parsed = await simpleParser(bounce);
  expect(parsed.text?.replaceAll(/\s+/g, ' ')).toContain(words);
  expect(bounce.toString('latin1')).toMatch(
    /\r\nContent-Type: message\/delivery-status\r\n\r\nReporting-MTA: dns; box\.internal\r\n(?:.+\r\n)*\r\nFinal-Recipient: rfc822; a@partner\.test\r\n(?:.+\r\n)*Status: 5\.6\.0\r\n/,
  );
  const verdicts = await verifySignatures(bounce, dkimRecords(gateway.postern.certsDir));
  expect(verdicts.map(({ domain, result }) => `${domain} ${result}`)).toContain('example.com pass');
});
