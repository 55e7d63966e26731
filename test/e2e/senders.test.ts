// Mail of senders that nobody owns (D4d): by SMTP, REST, send_raw and `postern check`, and what tells of it.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { runPostern } from '../support/client-gateway.ts';
import { ask } from '../support/http-app.ts';
import { type PosternHere, startHere } from '../support/postern-here.ts';
import { testToken } from '../support/postern-process.ts';
import { sha256Of } from '../support/reloadable.ts';
import { RawClient } from '../support/smtp-peers.ts';

const payToken = 'pay-token-of-senders-test-0123456789';
const dkim = [{ selector: 'e1', algorithm: 'ed25519' }];
const device = (name: string, credential: string, more = {}) => ({
  ...{ name, role: 'submission', listen: '127.0.0.1:0', tls: 'none', credential, allowFrom: ['127.0.0.1/32'] },
  ...more,
});
const config = {
  development: { account: 'dev', credential: 'default' },
  http: { listen: '127.0.0.1:0' },
  smtp: {
    listeners: [
      device('devices', 'dev/default'),
      device('plain', 'dev/plain'),
      device('own', 'dev/default', { senders: { 'root@*': 'listener@example.com' } }),
      {
        ...{ name: 'everybodys', role: 'submission', listen: '127.0.0.1:0', tls: 'none', allowInsecureAuth: true },
        senders: { 'root@*': 'listener@example.com' },
      },
    ],
  },
  routes: [{ name: 'keep', type: 'capture' }],
  accounts: [
    {
      name: 'dev',
      id: 'a1'.repeat(16),
      sendingDomains: [{ name: 'example.com', dkim }],
      credentials: [
        {
          name: 'default',
          scopes: ['email:send', 'email:events', 'admin'],
          senders: { 'root@*': 'ops@example.com', '*@box.internal': '*@example.com', '*@*': 'any@example.com' },
          replyTo: 'original',
        },
        { name: 'plain', scopes: ['email:send'] },
      ],
    },
    {
      name: 'pay',
      id: 'b2'.repeat(16),
      sendingDomains: [{ name: 'pay.test', dkim }],
      credentials: [{ name: 'default', scopes: ['email:send'], tokenSha256: sha256Of(payToken) }],
    },
  ],
};

let postern: PosternHere;
beforeAll(async () => {
  postern = await startHere({ config });
}, 60_000);
afterAll(() => postern?.cleanUp());

let seen = 0;
beforeEach(() => {
  seen = postern.captured().length;
});

async function smtp(door: string, reversePath: string, header: string): Promise<string> {
  const client = RawClient.open(postern.ports[door] ?? 0);
  try {
    await client.reply();
    await client.ask('EHLO box.internal');
    const answer = await client.ask(`MAIL FROM:<${reversePath}>`);
    if (!answer.startsWith('250')) return answer;
    await client.ask('RCPT TO:<a@partner.test>');
    await client.ask('DATA');
    client.send(`${header}\r\nSubject: x\r\n\r\nHi\r\n.\r\n`);
    return await client.reply();
  } finally {
    client.destroy();
  }
}

/** The header section of the one message that has left meanwhile. */
async function left(): Promise<string> {
  await expect.poll(() => postern.captured().length).toBe(seen + 1);
  return String(postern.captured().at(-1)).split('\r\n\r\n', 1)[0] ?? '';
}

const api = (path: string) => `http://127.0.0.1:${postern.ports['http']}/client/v4/accounts/dev/email/sending/${path}`;
const headers = { Authorization: `Bearer ${testToken}`, 'Content-Type': 'application/json' };

test('cron on a host that nobody owns gets its mail through, and event and check tell what became of its sender', async () => {
  expect(await smtp('devices', 'root@box.internal', 'From: "Cron Daemon" <root@box.internal>')).toMatch(/^250 /);
  const head = await left();
  expect(head).toMatch(/^From: (?:"Cron Daemon"|Cron Daemon) <ops@example\.com>$/m);
  expect(head).toContain('\r\nX-Original-From: root@box.internal\r\n');
  expect(head).toContain('\r\nReply-To: root@box.internal\r\n');
  expect(head).toMatch(/^DKIM-Signature: [^]*d=example\.com/m);
  const { json } = await ask(api('events?order=newest&kind=accepted&per_page=1'), { headers });
  const [event] = (json as { result: Record<string, unknown>[] }).result;
  expect(event).toMatchObject({
    mapped_sender: { given: 'root@box.internal', address: 'ops@example.com', pattern: 'root@*' },
  });
  expect(JSON.stringify(event)).toContain('ops@example.com');
  const file = join(postern.folder, 'cron.eml');
  writeFileSync(file, 'From: root@box.internal\r\nSubject: x\r\n\r\nHi\r\n');
  const checked = await runPostern(postern, ['check', file]);
  expect(checked.output).toContain('becomes ops@example.com by senders "root@*"');
});

test('a client’s own X-Original-From gives way, its Reply-To stays, and a bare local part is kept', async () => {
  const header = 'From: app@box.internal\r\nX-Original-From: forged@example.com\r\nReply-To: team@example.com';
  expect(await smtp('devices', 'app@box.internal', header)).toMatch(/^250 /);
  const head = await left();
  expect(head).toContain('\r\nFrom: app@example.com\r\n');
  expect(head.match(/^X-Original-From: .*$/gm)).toEqual(['X-Original-From: app@box.internal']);
  expect(head.match(/^Reply-To: .*$/gm)).toEqual(['Reply-To: team@example.com']);
});

test('the reverse-path alone is mapped where From is the account’s, and the other way round', async () => {
  expect(await smtp('devices', 'root@box.internal', 'From: app@example.com')).toMatch(/^250 /);
  expect(await left()).not.toContain('X-Original-From');
  seen += 1;
  expect(await smtp('devices', '', 'From: root@box.internal')).toMatch(/^250 /);
  expect(await left()).toContain('\r\nFrom: ops@example.com\r\n');
});

test('a listener’s own map takes the place of its credential’s', async () => {
  expect(await smtp('own', 'root@box.internal', 'From: root@box.internal')).toMatch(/^250 /);
  expect(await left()).toContain('\r\nFrom: listener@example.com\r\n');
  expect(await smtp('own', 'app@box.internal', 'From: app@box.internal')).toMatch(/^550 5\.7\.1 box\.internal is no/);
});

test('a listener’s map gives nobody an address of another account', async () => {
  const asked = async (token: string): Promise<string> => {
    const client = RawClient.open(postern.ports['everybodys'] ?? 0);
    try {
      await client.reply();
      await client.ask('EHLO box.internal');
      const login = Buffer.from(`\0api_token\0${token}`).toString('base64');
      expect(await client.ask(`AUTH PLAIN ${login}`)).toMatch(/^235 /);
      return await client.ask('MAIL FROM:<root@box.internal>');
    } finally {
      client.destroy();
    }
  };
  expect(await asked(testToken)).toMatch(/^250 /);
  expect(await asked(payToken)).toBe('550 5.7.1 box.internal is no sending domain of account pay\r\n');
});

test('REST maps alike, and never a domain of another account; a credential without a map refuses', async () => {
  const send = async (path: string, body: object) =>
    await ask(api(path), { method: 'POST', headers, body: JSON.stringify(body) });
  const mail = { to: 'a@partner.test', subject: 'x', text: 'Hi' };
  expect((await send('send', { ...mail, from: 'root@box.internal' })).status).toBe(200);
  expect(await left()).toContain('\r\nFrom: ops@example.com\r\n');
  seen += 1;
  const raw = { from: 'root@box.internal', recipients: ['a@partner.test'] };
  const text = 'From: root@box.internal\r\nSubject: x\r\n\r\nHi\r\n';
  expect((await send('send_raw', { ...raw, mime_message: text })).status).toBe(200);
  expect(await left()).toContain('\r\nFrom: ops@example.com\r\n');
  expect((await send('send', { ...mail, from: 'root@pay.test' })).status).toBe(403);
  expect((await send('send', { ...mail, from: 'root@sub.pay.test' })).status).toBe(403);
  expect(await smtp('devices', 'root@pay.test', 'From: root@pay.test')).toMatch(/^550 5\.7\.1 pay\.test is no/);
  expect(await smtp('plain', 'root@box.internal', 'From: root@box.internal')).toMatch(/^550 5\.7\.1 box\.internal/);
});

test('the report proposes the line for a host that it saw', async () => {
  await smtp('plain', 'root@nas.internal', 'From: root@nas.internal');
  await expect
    .poll(async () => (await runPostern(postern, ['report'])).output)
    .toContain('senders: { "*@nas.internal": "*@example.com" }');
});
