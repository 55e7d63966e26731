// What an account's rates count: messages that are in order, and no others (D41, D42a); on the running program.

import { afterEach, expect, test } from 'vitest';
import { captureRoute, deviceConfiguration } from '../support/device-config.ts';
import { type PosternHere, startHere } from '../support/postern-here.ts';
import { RawClient } from '../support/smtp-peers.ts';

let postern: PosternHere | undefined;
afterEach(async () => {
  await postern?.cleanUp();
  postern = undefined;
});

async function start(limits: object): Promise<number> {
  const config = deviceConfiguration({ routes: [captureRoute], smtpLimits: { messageBytes: 4096 } }) as {
    accounts: object[];
  };
  config.accounts = config.accounts.map((account) => ({ ...account, limits }));
  postern = await startHere({ config });
  return postern.ports['devices'] ?? 0;
}

async function greeted(port: number): Promise<RawClient> {
  const client = RawClient.open(port);
  await client.reply();
  await client.ask('EHLO client.example');
  return client;
}

async function toData(client: RawClient): Promise<string> {
  await client.ask('MAIL FROM:<a@example.com>');
  await client.ask('RCPT TO:<b@example.net>');
  return await client.ask('DATA');
}

const message = 'From: a@example.com\r\nTo: b@example.net\r\nSubject: x\r\n';

async function send(client: RawClient, text: string): Promise<string> {
  const answer = await toData(client);
  return answer.startsWith('354') ? await client.ask(`${text}\r\nHello\r\n.`) : answer;
}

test('refused and oversized messages use up nothing, accepted ones do', async () => {
  const client = await greeted(await start({ messagesPerMinute: 2, recipientsPerDay: 2 }));
  for (let round = 0; round < 4; round += 1) {
    expect(await send(client, `${message}User-Agent: x\r\n`)).toMatch(/^554 5\.7\.1 /);
    expect(await send(client, `${message}\r\n${'x'.repeat(4096)}`)).toMatch(/^552 5\.3\.4 /);
    expect(await toData(client)).toMatch(/^354 /);
    client.send('x\r\n.\r\n');
    expect(await client.reply()).toMatch(/^554[- ]/);
  }
  expect(await send(client, message)).toMatch(/^250 2\.0\.0 /);
  expect(await send(client, message)).toMatch(/^250 2\.0\.0 /);
  const limited = /^451 4\.7\.0 E_RATE_LIMIT_EXCEEDED: Account dev is limited to 2 messages a minute; /;
  expect(await send(client, message)).toMatch(limited);
  expect(await client.ask('RSET')).toBe('250 2.0.0 Ok\r\n');
});

test('whoever comes to the last message second is told behind the final dot', async () => {
  const port = await start({ recipientsPerDay: 1 });
  const [one, two] = [await greeted(port), await greeted(port)];
  expect(await toData(one)).toMatch(/^354 /);
  expect(await toData(two)).toMatch(/^354 /);
  expect(await two.ask(`${message}\r\nHello\r\n.`)).toMatch(/^250 2\.0\.0 /);
  expect(await one.ask(`${message}\r\nHello\r\n.`)).toMatch(
    /^451 4\.7\.0 E_DAILY_LIMIT_EXCEEDED: Account dev is limited to 1 recipients a day; /,
  );
  expect(await one.ask('NOOP')).toBe('250 2.0.0 Ok\r\n');
});
