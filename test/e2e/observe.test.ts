// Moving an old estate (D4c): real messages by SMTP and REST through a gateway that observes one credential.

import { afterAll, beforeAll, expect, test } from 'vitest';
import { ask } from '../support/http-app.ts';
import { type PosternProcess, startPostern, testToken } from '../support/postern-process.ts';
import { runCli } from '../support/run-cli.ts';
import { RawClient } from '../support/smtp-peers.ts';

const dkim = [{ selector: 'e1', algorithm: 'ed25519' }];
const dayMs = 86_400_000;
const day = (ahead: number) => new Date(Date.now() + ahead * dayMs).toISOString().slice(0, 10);
const lastDay = day(3);
const yesterday = day(-1);

const device = (name: string, credential: string) => ({
  name,
  listen: '127.0.0.1:0',
  tls: 'none',
  credential: `dev/${credential}`,
  allowFrom: ['127.0.0.1/32'],
});
const config = {
  development: { account: 'dev', credential: 'observed' },
  http: { listen: '127.0.0.1:0' },
  smtp: {
    listeners: [
      device('observed', 'observed'),
      device('strict', 'strict'),
      device('over', 'over'),
      { ...device('old', 'strict'), policy: { observe: { until: lastDay } } },
    ],
  },
  routes: [{ name: 'keep', type: 'capture' }],
  accounts: [
    {
      name: 'dev',
      id: 'a1'.repeat(16),
      sendingDomains: [{ name: 'example.com', dkim }],
      credentials: [
        { name: 'observed', scopes: ['email:send'], policy: { observe: { until: lastDay } } },
        { name: 'strict' },
        { name: 'over', policy: { observe: { until: yesterday } } },
      ],
    },
  ],
};

let postern: PosternProcess;
beforeAll(async () => {
  postern = await startPostern({ config });
}, 60_000);
afterAll(() => postern?.cleanUp());

async function send(listener: string, lines: readonly string[]): Promise<string> {
  const client = RawClient.open(postern.ports[listener] ?? 0);
  try {
    await client.reply();
    await client.ask('EHLO client.example');
    await client.ask('MAIL FROM:<app@example.com>');
    await client.ask('RCPT TO:<a@partner.test>');
    await client.ask('DATA');
    client.send(`${lines.join('\r\n')}\r\n\r\nHi\r\n.\r\n`);
    return await client.reply();
  } finally {
    client.destroy();
  }
}

const old = (subject: string) => [
  'From: app@example.com',
  'User-Agent: mailer/0.1',
  `Subject: ${subject}`,
  'X-Old:',
  'X-Kept: yes',
];
const removed = [
  { field: 'User-Agent', code: 'E_HEADER_NOT_ALLOWED' },
  { field: 'X-Old', code: 'E_HEADER_VALUE_INVALID' },
];

async function captured(subject: string): Promise<string> {
  const file = await postern.until(() =>
    postern.captured().find((octets) => octets.includes(`\r\nSubject: ${subject}\r\n`)),
  );
  return file.toString('latin1');
}

async function acceptedLines(credential: string): Promise<readonly Record<string, unknown>[]> {
  const find = () => postern.log().filter((line) => line['msg'] === 'accepted' && line['credential'] === credential);
  await postern.until(() => find().length > 0);
  return find();
}

test('what the policy refuses leaves without the offending headers, and the log names them with their codes', async () => {
  expect(await send('observed', old('by-smtp'))).toMatch(/^250 /);
  const message = await captured('by-smtp');
  expect(message).toContain('\r\nX-Kept: yes\r\n');
  expect(message).not.toMatch(/User-Agent|X-Old|mailer\/0\.1/i);
  expect((await acceptedLines('observed'))[0]).toMatchObject({ observed: removed, observedCount: 2, via: 'smtp' });
  expect(postern.log().filter((line) => 'observed' in line)).toHaveLength(1);
});

test('the report names the program, though its mark is one of the headers removed, and cures what it would refuse', async () => {
  expect(await send('observed', old('for-the-report'))).toMatch(/^250 /);
  const { env, folder } = postern;
  const { stdout } = await runCli(['report', '--json'], { env, cwd: folder });
  expect(JSON.parse(stdout)).toMatchObject({
    credential: 'observed',
    mailers: [{ mailer: 'User-Agent: mailer/0.1', problems: [{ field: 'User-Agent' }, { message: 'X-Old is empty' }] }],
    proposal: ['strip: [User-Agent]', 'stripEmpty: true'],
  });
});

test('a listener observes whoever comes by it; elsewhere the same credential is refused', async () => {
  expect(await send('strict', old('strict'))).toMatch(/^554-?.*E_HEADER_NOT_ALLOWED/s);
  expect(await send('old', old('by-listener'))).toMatch(/^250 /);
  expect(await captured('by-listener')).not.toMatch(/User-Agent|X-Old/i);
  expect((await acceptedLines('strict'))[0]).toMatchObject({ observed: removed });
});

test('after the day the policy is enforced, and a start says so', async () => {
  expect(await send('over', old('over'))).toMatch(/^554-?.*E_HEADER_NOT_ALLOWED/s);
  const warnings = postern.log().map(({ msg }) => String(msg));
  const told = warnings.filter((text) => text.includes('observ')).map((text) => text.replace(/\(.*\)/, '(when)'));
  expect(told).toEqual([
    `credential dev/observed: the header policy is only observed until ${lastDay} (when): headers that it refuses are removed`,
    `credential dev/over: observing the header policy ended after ${yesterday}, it is enforced; remove policy.observe`,
    `listener old: the header policy is only observed until ${lastDay} (when): headers that it refuses are removed`,
  ]);
});

test('what no removal cures is refused with every reason', async () => {
  const foreign = await send('observed', ['From: a@elsewhere.example', 'User-Agent: x']);
  expect(foreign).toMatch(/^550-.*E_SENDER_NOT_VERIFIED[\s\S]*E_HEADER_NOT_ALLOWED/);
  expect(await send('observed', [...old('no-colon'), 'Loose text'])).toMatch(/^554-[\s\S]*E_HEADER_NAME_INVALID/);
});

test('10,000 headers are refused as ever: so many are not read', async () => {
  const lines = Array.from({ length: 10_000 }, (_, index) => `Foo-${index}: x`);
  expect(await send('observed', ['From: app@example.com', ...lines])).toMatch(/^554 .*E_HEADERS_TOO_LARGE/);
  const most = await send('observed', ['From: app@example.com', 'Subject: most', ...lines.slice(0, 1900)]);
  expect(most).toMatch(/^250 /);
  expect(await captured('most')).not.toContain('Foo-');
  const line = await postern.until(() => postern.log().find(({ observedCount }) => observedCount === 1900));
  expect(line['observed']).toHaveLength(50);
});

test('send_raw is observed as SMTP is; send and validate are not', async () => {
  const post = (endpoint: string, body: object) =>
    ask(`http://127.0.0.1:${postern.ports['http']}/client/v4/accounts/dev/email/sending/${endpoint}`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${testToken}`, 'Content-Type': 'application/json' },
      body: JSON.stringify(body),
    });
  const raw = {
    from: 'app@example.com',
    recipients: ['a@partner.test'],
    mime_message: [...old('by-raw'), '', 'Hi', ''].join('\r\n'),
  };
  expect(await post('send_raw', raw)).toMatchObject({ status: 200 });
  expect(await captured('by-raw')).not.toMatch(/User-Agent|X-Old/i);
  const line = await postern.until(() => postern.log().find(({ msg, via }) => msg === 'accepted' && via === 'raw'));
  expect(line).toMatchObject({ observed: removed });
  expect(JSON.stringify(await post('validate', raw))).toContain('E_HEADER_NOT_ALLOWED');
  const request = {
    from: 'app@example.com',
    to: 'a@partner.test',
    subject: 'by-rest',
    text: 'Hi',
    headers: { 'User-Agent': 'x' },
  };
  const answer = await post('send', request);
  expect(answer.status).toBe(400);
  expect(JSON.stringify(answer)).toContain('E_HEADER_NOT_ALLOWED');
});

test('/metrics tells when the policy is enforced again', async () => {
  const answer = await fetch(`http://127.0.0.1:${postern.ports['http']}/metrics`);
  const ends = (Date.parse(`${lastDay}T00:00:00Z`) + dayMs) / 1000;
  expect(await answer.text()).toContain(
    `postern_policy_observe_until_timestamp_seconds{credential="dev/observed",listener=""} ${ends}\n`,
  );
});
