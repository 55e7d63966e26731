// Reports of hostile mail: what a next hop or a sender writes can begin no field, part or line of its own, and a report has a
// bound. Every report goes through the real pipeline.

import { simpleParser } from 'mailparser';
import { beforeAll, expect, test } from 'vitest';
import { composeReport, type Original } from '../../../src/delivery/notify/compose-report.ts';
import type { SigningKey } from '../../../src/pipeline/sign/sign.ts';
import { build } from '../../../src/pipeline/submit.ts';
import type { DueReport, ReportedRecipient } from '../../../src/spool/reports/report.ts';
import { platform } from '../../support/checked.ts';
import { makeKey } from '../../support/dkim.ts';
import { devAccount } from '../../support/policy-fixtures.ts';
import fc, { anyCharacter } from '../../support/properties.ts';
import { someTime } from '../../support/spool-entry.ts';

const id = '019b76da-a800-7a71-a675-d0f787795d28';

function recipient(changes: Partial<ReportedRecipient> = {}): ReportedRecipient {
  return {
    address: 'bob@partner.test',
    action: 'failed',
    at: someTime,
    reply: { code: 550, enhanced: '5.1.1', text: 'No such user' },
    host: 'default (mx.partner.test:25)',
    ...changes,
  };
}

function report(changes: Partial<DueReport> = {}): DueReport {
  return {
    key: { seq: 1, version: 1 },
    queueId: id,
    account: 'dev',
    sessionId: 'c0ffee',
    messageId: `<${id}@platform.example>`,
    senderPath: 'alice@example.com',
    smtputf8: false,
    requireTls: false,
    acceptedAt: someTime,
    expiresAt: someTime + 432_000_000,
    head: Buffer.from('From: alice@example.com\r\nSubject: x\r\n\r\n'),
    recipients: [recipient()],
    more: 0,
    ...changes,
  };
}

let keys: readonly SigningKey[] = [];
beforeAll(async () => {
  keys = [(await makeKey('platform.example', 'p1', 'ed25519')).signing];
});

/** The octets that would leave. */
async function built(given: DueReport, whole?: Original): Promise<Buffer> {
  const from = { platformDomain: 'platform.example', hostname: 'mx.platform.example' };
  const submission = await composeReport(given, { account: devAccount, whole, from });
  const result = await build(submission, {
    clock: { now: () => someTime, monotonic: () => 0 },
    hostname: from.hostname,
    platform,
    sendingDomain: (_, domain) =>
      domain === 'platform.example' ? { name: domain, subdomains: false, dkim: [] } : undefined,
    domainKeys: () => keys,
    platformKeys: [],
    wantsPlatformSignature: () => false,
  });
  if (!result.ok) throw new Error(JSON.stringify(result.violations));
  return Buffer.concat([result.signed.head, result.signed.body]);
}

/** The lines of the second part. */
function statusLines(message: Buffer): string[] {
  const text = message.toString('latin1');
  const start = text.indexOf('\r\nReporting-MTA:') + 2;
  return text.slice(start, text.indexOf(`\r\n--report-${id}`, start)).split('\r\n');
}

const names = [
  'Reporting-MTA',
  'Original-Envelope-Id',
  'Arrival-Date',
  'Original-Recipient',
  'Final-Recipient',
  'Action',
  'Status',
  'Remote-MTA',
  'Diagnostic-Code',
  'Last-Attempt-Date',
  'Final-Log-ID',
  'Will-Retry-Until',
];

const hostile = fc.oneof(
  fc.string({ unit: anyCharacter, maxLength: 700 }),
  fc
    .array(
      fc.constantFrom(
        '\r\n',
        '\n',
        '\r',
        '\r\n\r\n',
        'Bcc: v@x.test',
        `--report-${id}-1--`,
        '<b>',
        '\0',
        '\x1b[2J',
        'ü',
        '\u202e',
        ' ',
        ')',
        '(h:25)',
      ),
      { maxLength: 30 },
    )
    .map((all) => all.join('')),
);

test('whatever the next hop says, each group has its own fields once, and the report has three parts', async () => {
  await fc.assert(
    fc.asyncProperty(
      hostile,
      hostile,
      fc.constantFrom('failed', 'delayed', 'relayed') as fc.Arbitrary<'failed'>,
      async (text, host, action) => {
        const reply = { code: 550, enhanced: text.slice(0, 9), text };
        const message = await built(report({ recipients: [recipient({ reply, host, action }), recipient()] }));
        expect(message.every((octet) => octet < 0x80)).toBe(true);
        const lines = statusLines(message);
        const groups = lines.join('\n').split('\n\n');
        expect(groups).toHaveLength(3);
        for (const group of groups) {
          const found = group
            .split('\n')
            .filter((line) => line !== '')
            .map((line) => line.slice(0, line.indexOf(':')));
          expect(found.filter((name) => !names.includes(name))).toEqual([]);
          expect(new Set(found).size).toBe(found.length);
        }
        expect(message.toString('latin1').split(`\r\n--report-${id}-1`)).toHaveLength(5);
      },
    ),
    { numRuns: 150 },
  );
});

test('markup in the words stays text, and terminals are told nothing', async () => {
  const text = '<script>alert(1)</script>\x1b]0;pwned\x07\r\n.\r\nQUIT';
  const parsed = await simpleParser(await built(report({ recipients: [recipient({ reply: { code: 554, text } })] })));
  expect(parsed.text).toContain('554 <script>alert(1)</script>\\x1b]0;pwned\\x07 . QUIT');
  expect(parsed.headers.get('content-type')).toMatchObject({ value: 'multipart/report' });
  expect(parsed.html).not.toContain('<script>');
});

test('1,000 recipients with the longest of everything stay within two megabytes', async () => {
  const long = recipient({
    address: `${'a'.repeat(64)}@${'b'.repeat(250)}`,
    orcpt: `rfc822;${'c'.repeat(493)}`,
    reply: { code: 550, text: 'd'.repeat(100_000) },
    host: `route (${'e'.repeat(255)}:25)`,
  });
  const message = await built(report({ recipients: Array.from({ length: 1000 }, () => long), more: 5 }));
  expect(message.length).toBeLessThan(2_097_152);
  expect(
    Math.max(
      ...message
        .toString('latin1')
        .split('\r\n')
        .map(({ length }) => length),
    ),
  ).toBeLessThanOrEqual(998);
});

test('addresses outside ASCII are written as RFC 6533 has them, and the octets stay 7-bit', async () => {
  const head = Buffer.from('From: jörg@example.com\r\nSubject: x\r\n\r\n');
  const given = report({
    smtputf8: true,
    senderPath: 'jörg@example.com',
    head,
    recipients: [recipient({ address: '漢@partner.test', orcpt: 'utf-8;\\x{6F22}@old.test' })],
  });
  const message = (await built(given)).toString('utf8');
  const body = message.slice(message.indexOf('\r\n\r\n'));
  expect(body).toMatch(/^[\0-\x7f]*$/);
  for (const type of ['message/global-delivery-status', 'message/global-headers'])
    expect(body).toContain(`Content-Type: ${type}\r\n`);
  const decoded = body
    .replaceAll('=\r\n', '')
    .replace(/(?:=[0-9A-F]{2})+/g, (hex) => Buffer.from(hex.replaceAll('=', ''), 'hex').toString());
  expect(decoded).toContain('Original-Recipient: utf-8; 漢@old.test\r\nFinal-Recipient: utf-8; 漢@partner.test\r\n');
  expect(decoded).toContain('From: jörg@example.com\r\n');
  const whole = await built({ ...given, ret: 'FULL' }, { head, body: Buffer.from('Hi\r\n') });
  expect(whole.toString('latin1')).toContain('Content-Type: message/global\r\n');
});

test.each(['"a b"@example.com', '"<x>"@example.com', "o'brien+tag@example.com", '"a\\"b,c"@example.com'])(
  'a report goes to %s alone',
  async (senderPath) => {
    const parsed = await simpleParser(await built(report({ senderPath })));
    const to = Array.isArray(parsed.to) ? parsed.to : [parsed.to];
    expect(to.flatMap((one) => one?.value ?? [])).toHaveLength(1);
  },
);

test.each([
  ['5.1.1', 'This address does not seem to exist.'],
  ['5.2.2', 'The mailbox is full.'],
  ['5.7.26', 'The other side refuses the message by its rules.'],
  ['9.9.9', 'The other side refuses the message for good.'],
])('status %s has its advice', async (enhanced, advice) => {
  const parsed = await simpleParser(
    await built(report({ recipients: [recipient({ reply: { code: 550, enhanced, text: 'no' } })] })),
  );
  expect(parsed.text).toContain(advice);
});
