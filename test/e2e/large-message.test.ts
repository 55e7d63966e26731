// 5 MiB by the shipped limit and 25 MiB by a raised one go through whole, without the process holding many copies.

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { afterEach, expect, test } from 'vitest';
import { captureRoute, deviceConfiguration } from '../support/device-config.ts';
import { type PosternProcess, startPostern } from '../support/postern-process.ts';
import { connectSmtp } from '../support/raw-smtp-client.ts';
import { isOnPostgres } from '../support/store.ts';

let postern: PosternProcess | undefined;
afterEach(async () => {
  await postern?.cleanUp();
  postern = undefined;
});

const mebibyte = 1_048_576;

const head = 'From: a@example.com\r\nTo: b@partner.test\r\nSubject: large\r\n\r\n';

/** A message of exactly `size` octets, CRLF lines of 76. */
function messageOf(size: number): Buffer {
  const line = Buffer.from(`${'x'.repeat(74)}\r\n`);
  const message = Buffer.alloc(size, line);
  message.write(head, 'latin1');
  message.write('\r\n', size - 2, 'latin1');
  return message;
}

async function send(port: number, message: Buffer): Promise<number> {
  const client = await connectSmtp(port);
  await client.reply();
  await client.command('EHLO large.example.com');
  await client.command('MAIL FROM:<a@example.com>');
  await client.command('RCPT TO:<b@partner.test>');
  await client.command('DATA');
  client.write(message);
  client.write('.\r\n');
  const { code } = await client.reply();
  client.close();
  return code;
}

function digest(octets: Buffer): string {
  return createHash('sha256').update(octets).digest('hex');
}

function peakMebibytes(pid: number): number {
  return Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1]) / 1024;
}

test.each([
  ['5 MiB, the limit as shipped', 5 * mebibyte],
  ['25 MiB', 25 * mebibyte],
])('%s: exactly the limit passes whole, an octet more is 552', async (_, size) => {
  postern = await startPostern({
    config: deviceConfiguration({ routes: [captureRoute], smtpLimits: { messageBytes: size } }),
  });
  const running = postern;
  const port = running.ports['devices'] ?? 0;
  const before = peakMebibytes(running.pid);
  const message = messageOf(size);
  expect(await send(port, message)).toBe(250);
  const [captured] = await running.until(() => (running.captured().length > 0 ? running.captured() : undefined));
  const body = captured?.subarray((captured.indexOf('\r\n\r\n') ?? 0) + 4) ?? Buffer.alloc(0);
  expect(digest(body)).toBe(digest(message.subarray(head.length)));
  // What came in, and no more than a few passing copies of it; the way to PostgreSQL takes one more.
  const copies = isOnPostgres ? 5 : 4;
  expect(peakMebibytes(running.pid) - before).toBeLessThan(60 + (copies * size) / mebibyte);
  expect(await send(port, messageOf(size + 1))).toBe(552);
  expect(running.captured().length).toBe(1);
});
