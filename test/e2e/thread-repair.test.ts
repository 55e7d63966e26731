// Threads of accounts that ask for their repair (D23): what a reply cites is the id that the message left with.

import { simpleParser } from 'mailparser';
import { afterEach, expect, test } from 'vitest';
import { captureRoute, deviceConfiguration } from '../support/device-config.ts';
import { dkimRecords, verifySignatures } from '../support/dkim-verifier.ts';
import { type PosternHere, startHere } from '../support/postern-here.ts';
import { RawClient } from '../support/smtp-peers.ts';

let postern: PosternHere | undefined;
afterEach(() => postern?.cleanUp());

async function start(account: object): Promise<PosternHere> {
  postern = await startHere({ config: deviceConfiguration({ routes: [captureRoute], account }) });
  return postern;
}

async function send(fields: readonly string[]): Promise<string> {
  const client = RawClient.open(postern?.ports['devices'] ?? 0);
  await client.reply();
  await client.ask('EHLO client.example');
  await client.ask('MAIL FROM:<alice@example.com>');
  await client.ask('RCPT TO:<bob@partner.test>');
  await client.ask('DATA');
  client.send(`${['From: a@example.com', 'Subject: x', ...fields].join('\r\n')}\r\n\r\nHi\r\n.\r\n`);
  const answer = await client.reply();
  client.destroy();
  return /<[^>]+>/.exec(answer)?.[0] ?? answer;
}

async function last(count: number): Promise<Buffer> {
  const all = await postern?.until(() => postern?.captured().length === count && postern.captured());
  return all?.at(-1) ?? Buffer.alloc(0);
}

test('a reply cites the id that the first message left with; strangers’ ids stay, and the signature is right', async () => {
  const gateway = await start({ threadRepair: true });
  const first = await send(['Message-ID: <first@client.example>']);
  const second = await send(['Message-ID: <second@client.example>', 'In-Reply-To: <first@client.example>']);
  const strangers = Array.from({ length: 20 }, (_, at) => `<stranger-${at}-with-a-long-id@elsewhere.example>`);
  await send([
    'In-Reply-To: <second@client.example>',
    `References: <first@client.example>\r\n\t${strangers.join('\r\n ')}\r\n <second@client.example>`,
  ]);
  const message = await last(3);
  const parsed = await simpleParser(message);
  expect(parsed.inReplyTo).toBe(second);
  expect(parsed.references).toEqual([first, ...strangers, second]);
  const lines = message.toString('latin1').split('\r\n');
  expect(lines.filter((line) => /first@|second@/.test(line))).toEqual([]);
  expect(lines.filter((line) => line.length > 78 && !line.startsWith('Return-Path'))).toEqual([]);
  const sent = message.subarray(message.indexOf('\r\n') + 2);
  const verdicts = await verifySignatures(sent, dkimRecords(gateway.certsDir));
  expect(verdicts.map(({ result }) => result)).toEqual(['pass', 'pass']);
}, 60_000);

test('it is off unless the account asks', async () => {
  await start({});
  await send(['Message-ID: <first@client.example>']);
  await send(['In-Reply-To: <first@client.example>']);
  expect((await simpleParser(await last(2))).inReplyTo).toBe('<first@client.example>');
}, 60_000);
