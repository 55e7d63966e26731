// The account endpoints and the SMTP door of one running gateway: what is changed by HTTP or by a command beside it
// counts at once on the other side (D51, D52, D93, D94).

import { afterAll, expect, test } from 'vitest';
import { ask } from '../support/http-app.ts';
import { type PosternHere, startHere } from '../support/postern-here.ts';
import { testToken } from '../support/postern-process.ts';
import { runCli, runHere } from '../support/run-cli.ts';
import { plainResponse, RawClient } from '../support/smtp-peers.ts';

const running: PosternHere[] = [];
afterAll(async () => {
  for (const postern of running.toReversed()) await postern.cleanUp();
});

async function start(folder?: string): Promise<PosternHere> {
  const postern = await startHere(folder === undefined ? {} : { folder });
  running.push(postern);
  return postern;
}

let kept: Promise<PosternHere> | undefined;
/** The gateway of the tests that need none of their own. */
const shared = (): Promise<PosternHere> => (kept ??= start());

async function call(postern: PosternHere, method: string, path: string, body?: object): Promise<unknown> {
  const answer = await ask(`http://127.0.0.1:${postern.ports['http']}/client/v4/accounts/dev${path}`, {
    method,
    headers: {
      Authorization: `Bearer ${testToken}`,
      ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  expect(answer.json.errors).toEqual([]);
  return answer.json.result;
}

async function login(postern: PosternHere, token: string): Promise<RawClient> {
  const client = RawClient.openTls(postern.ports['submissions'] ?? 0);
  await client.reply();
  await client.ask('EHLO client.example');
  expect(await client.ask(`AUTH PLAIN ${plainResponse('api_token', token)}`)).toMatch(/^235 /);
  return client;
}

const list = '/email/sending/suppressions';

test('a suppressed address is refused at RCPT, after a restart too, and taken again once it is removed', async () => {
  const first = await start();
  const { id } = (await call(first, 'POST', list, { address: 'Gone@partner.test', reason: 'complaint' })) as {
    id: string;
  };
  let client = await login(first, testToken);
  await client.ask('MAIL FROM:<shop@example.com>');
  expect(await client.ask('RCPT TO:<gone@PARTNER.test>')).toBe(
    '550 5.7.1 E_RECIPIENT_SUPPRESSED: gone@partner.test is on the suppression list\r\n',
  );
  client.destroy();
  await first.stop();

  const second = await start(first.folder);
  client = await login(second, testToken);
  await client.ask('MAIL FROM:<shop@example.com>');
  expect(await client.ask('RCPT TO:<gone@partner.test>')).toMatch(/^550 5\.7\.1 E_RECIPIENT_SUPPRESSED/);
  await call(second, 'DELETE', `${list}/${id}`);
  expect(await client.ask('RCPT TO:<gone@partner.test>')).toMatch(/^250 /);

  const url = second.env['POSTERN_DATABASE_URL'];
  const env = {
    POSTERN_DATA_DIR: second.dataDir,
    POSTERN_CERTS_DIR: second.certsDir,
    ...(url === undefined ? {} : { POSTERN_DATABASE_URL: url }),
  };
  const added = await runCli(['suppression', 'add', '--account', 'dev', 'other@partner.test'], { env });
  expect(added.exitCode).toBe(0);
  // In a new message each time, since a recipient that was taken stays one of its message.
  const askAnew = async (): Promise<string> => {
    await client.ask('RSET');
    await client.ask('MAIL FROM:<shop@example.com>');
    return await client.ask('RCPT TO:<other@partner.test>');
  };
  await expect.poll(askAnew).toMatch(/^550 5\.7\.1 E_RECIPIENT_SUPPRESSED/);
  expect(await call(second, 'GET', list)).toMatchObject([{ address: 'other@partner.test', reason: 'manual' }]);
  client.destroy();
});

test('REST refuses the whole request for one suppressed recipient, in any spelling', async () => {
  const postern = await shared();
  await call(postern, 'POST', list, { address: 'gone@bücher.example', reason: 'unsubscribe' });
  const send = (path: string, body: object) =>
    ask(`http://127.0.0.1:${postern.ports['http']}/client/v4/accounts/dev/email/sending/${path}`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${testToken}`, 'Content-Type': 'application/json' },
      body: JSON.stringify(body),
    });
  const refused = [
    await send('send', {
      from: 'shop@example.com',
      to: 'ok@partner.test',
      cc: ['"GONE"@xn--bcher-kva.example'],
      subject: 'Hello',
      text: 'Hi.',
    }),
    await send('send_raw', {
      from: 'shop@example.com',
      recipients: ['ok@partner.test', 'Gone@bücher.example'],
      mime_message: 'From: shop@example.com\r\n\r\nHi.\r\n',
    }),
  ];
  for (const { status, json } of refused) {
    expect(json.errors.map(({ code, message }) => [code, message.split(':')[0]])).toEqual([
      [10202, 'E_RECIPIENT_SUPPRESSED'],
    ]);
    expect(status).toBe(400);
  }
  const taken = await send('send', { from: 'shop@example.com', to: 'ok@partner.test', subject: 'Hello', text: 'Hi.' });
  expect(taken.json.errors).toEqual([]);
  await postern.until(() => postern.captured().length > 0);
  expect(postern.captured()).toHaveLength(1);
});

test('a token made by HTTP opens SMTP, and revoked it ends an open session at the next MAIL', async () => {
  const postern = await shared();
  const made = (await call(postern, 'POST', '/tokens', { credential: 'default', scopes: ['email:send'] })) as {
    id: string;
    token: string;
  };
  const client = await login(postern, made.token);
  expect(await client.ask('MAIL FROM:<shop@example.com>')).toMatch(/^250 /);
  await call(postern, 'DELETE', `/tokens/${made.id}`);
  await client.ask('RSET');
  expect(await client.ask('MAIL FROM:<shop@example.com>')).toMatch(/^530 5\.7\.0 /);
  expect(postern.output()).not.toContain(made.token);
  expect(await postern.until(() => postern.log().some(({ msg }) => msg === 'token no longer valid'))).toBe(true);
  client.destroy();
});

test('the domains of the shipped configuration have the records of their keys', async () => {
  const postern = await shared();
  const domains = (await call(postern, 'GET', '/email/sending/domains')) as {
    name: string;
    records: { name: string; zone: string }[];
  }[];
  expect(domains.map(({ name }) => name)).toEqual(['example.com', 'example.net', 'example.org']);
  const env = { POSTERN_DATA_DIR: postern.dataDir, POSTERN_CERTS_DIR: postern.certsDir };
  const { stdout } = await runHere(['dkim', 'record', 'example.com'], { env });
  const zones = domains[0]?.records.filter(({ name }) => name.includes('_domainkey')).map(({ zone }) => `${zone}\n`);
  expect(stdout).toBe(zones?.join(''));
});
