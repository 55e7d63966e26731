// Whoever attacks the bounce listener takes nothing from submission, and suppresses nobody.

import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  type BounceGateway,
  deliveryReport,
  type SentMessage,
  startBounceGateway,
} from '../../support/bounce-gateway.ts';
import { connectSmtp, type RawSmtpClient } from '../../support/raw-smtp-client.ts';

let gateway: BounceGateway;
let sent: SentMessage;

beforeAll(async () => {
  gateway = await startBounceGateway((config) => {
    config['bounces'] = { messagesPerMinute: 40 };
    config.smtp.limits = { authSeconds: 1, dataIdleSeconds: 1 };
  });
  sent = await gateway.send(['someone@example.net']);
}, 60_000);

afterAll(() => gateway.postern.cleanUp());

async function submissionGreets(): Promise<boolean> {
  const client = await connectSmtp(gateway.postern.ports['submission'] ?? 0);
  const { code } = await client.reply();
  client.close();
  return code === 220;
}

test('all connections of the bounce listener taken leave those of submission, and no login is waited for', async () => {
  const clients: RawSmtpClient[] = [];
  const refused = async (from: string): Promise<void> => {
    const late = await connectSmtp(gateway.postern.ports['bounce'] ?? 0, '127.0.0.1', from);
    expect((await late.reply()).code).toBe(421);
    late.close();
  };
  for (const from of ['127.0.0.2', '127.0.0.3', '127.0.0.4', '127.0.0.5']) {
    for (let count = 0; count < 50; count += 1) clients.push(await gateway.connect(from));
    await refused(from);
  }
  await refused('127.0.0.6');
  expect(await submissionGreets()).toBe(true);
  // A session of submission that began after theirs is ended for want of a login.
  const submission = await connectSmtp(gateway.postern.ports['submission'] ?? 0);
  expect((await submission.reply()).code).toBe(220);
  expect((await submission.reply()).code).toBe(421);
  submission.close();
  for (const client of clients) expect((await client.command('NOOP')).code).toBe(250);
  for (const client of clients) client.close();
  // The next test needs connections of the listener again.
  await expect.poll(async () => (await gateway.metrics()).get('postern_smtp_connections')).toBe(0);
});

test('clients that stall and vanish within a report leave nothing behind', async () => {
  for (const ending of ['stall', 'vanish'] as const) {
    const client = await gateway.connect();
    for (const line of ['MAIL FROM:<>', `RCPT TO:<${sent.reversePath}>`, 'DATA']) await client.command(line);
    client.write('Subject: half a report\r\n');
    if (ending === 'stall') expect((await client.reply()).lines[0]).toBe('421 4.4.2 Timeout');
    client.close();
  }
  await expect.poll(async () => (await gateway.metrics()).get('postern_smtp_connections')).toBe(0);
});

test('a megabyte of nested multiparts is 554, and reports behind it are read', async () => {
  const parts = Array.from(
    { length: 14_000 },
    (_, at) => `--b${at}\nContent-Type: multipart/mixed; boundary=b${at + 1}\n\n`,
  );
  const nested = `Content-Type: multipart/mixed; boundary=b0\n\n${parts.join('')}`;
  expect((await gateway.report(sent.reversePath, nested)).lines[0]).toMatch(/^554 5\.6\.0 /);
  const soft = deliveryReport(['someone@example.net'], ['Action: failed', 'Status: 4.2.1']);
  expect((await gateway.report(sent.reversePath, soft)).code).toBe(250);
  expect(await submissionGreets()).toBe(true);
});

test('a report that names ten thousand recipients suppresses those of its message alone', async () => {
  const strangers = Array.from({ length: 4000 }, (_, at) => `stranger-${at}@example.net`);
  const everybody = deliveryReport(
    [...strangers.slice(0, 500), 'someone@example.net', ...strangers],
    ['Action: failed', 'Status: 5.1.1'],
  );
  expect((await gateway.report(sent.reversePath, everybody)).code).toBe(250);
  await expect.poll(() => gateway.suppressed()).toEqual(['someone@example.net hard_bounce']);
});

test('an address that sends more reports than it may in a minute is told to come later', async () => {
  const repeated = deliveryReport(['someone@example.net'], ['Action: failed', 'Status: 5.1.1']);
  const codes: number[] = [];
  for (let count = 0; count < 45; count += 1) codes.push((await gateway.report(sent.reversePath, repeated)).code);
  expect(new Set(codes.slice(0, 30))).toEqual(new Set([250]));
  expect(codes.at(-1)).toBe(451);
  expect(await submissionGreets()).toBe(true);
});
