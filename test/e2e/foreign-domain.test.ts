// A name below one account's sending domain that another account's longer sending domain covers is that other account's
// in every door: MAIL FROM, the From header, REST, send_raw, validate, the binding, `postern check` (D50).

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createEmailBinding } from '../../packages/binding/src/index.ts';
import { runPostern } from '../support/client-gateway.ts';
import { ask } from '../support/http-app.ts';
import { type PosternHere, startHere } from '../support/postern-here.ts';
import { testToken } from '../support/postern-process.ts';
import { RawClient } from '../support/smtp-peers.ts';

const dkim = [{ selector: 'e1', algorithm: 'ed25519' }];
const config = {
  development: { account: 'dev', credential: 'default' },
  http: { listen: '127.0.0.1:0' },
  smtp: {
    listeners: [
      {
        name: 'devices',
        role: 'submission',
        listen: '127.0.0.1:0',
        tls: 'none',
        credential: 'dev/default',
        allowFrom: ['127.0.0.1/32'],
      },
    ],
  },
  routes: [{ name: 'keep', type: 'capture' }],
  accounts: [
    {
      name: 'dev',
      id: 'a1'.repeat(16),
      sendingDomains: [{ name: 'example.com', dkim }],
      credentials: [{ name: 'default', scopes: ['email:send'] }],
    },
    { name: 'pay', id: 'b2'.repeat(16), sendingDomains: [{ name: 'pay.example.com', dkim }] },
  ],
};

let postern: PosternHere;
beforeAll(async () => {
  postern = await startHere({ config });
}, 60_000);
afterAll(() => postern?.cleanUp());

const refusal = 'E_SENDER_NOT_VERIFIED: pay.example.com (domain of From) is not a sending domain of account dev';

async function smtp(reversePath: string, from: string): Promise<string> {
  const client = RawClient.open(postern.ports['devices'] ?? 0);
  try {
    await client.reply();
    await client.ask('EHLO client.example');
    const answer = await client.ask(`MAIL FROM:<${reversePath}>`);
    if (!answer.startsWith('250')) return answer;
    await client.ask('RCPT TO:<a@partner.test>');
    await client.ask('DATA');
    client.send(`From: ${from}\r\nSubject: x\r\n\r\nHi\r\n.\r\n`);
    return await client.reply();
  } finally {
    client.destroy();
  }
}

async function rest(endpoint: string, body: object): Promise<{ readonly status: number; readonly text: string }> {
  const url = `http://127.0.0.1:${postern.ports['http']}/client/v4/accounts/dev/email/sending/${endpoint}`;
  const headers = { Authorization: `Bearer ${testToken}`, 'Content-Type': 'application/json' };
  const { status, json } = await ask(url, { method: 'POST', headers, body: JSON.stringify(body) });
  return { status, text: JSON.stringify(json) };
}

const mail = (from: string) => ({ from, to: 'a@partner.test', subject: 'x', text: 'Hi' });
const raw = (from: string, header: string) => ({
  from,
  recipients: ['a@partner.test'],
  mime_message: `From: ${header}\r\nSubject: x\r\n\r\nHi\r\n`,
});

test.each(['ceo@pay.example.com', 'ceo@below.Pay.Example.com'])('nobody sends as %s but its owner', async (foreign) => {
  const own = 'app@example.com';
  const domain = foreign.slice(4).toLowerCase();
  const wanted = refusal.replace('pay.example.com', domain);
  expect(await smtp(foreign, own)).toBe(`550 5.7.1 ${domain} is no sending domain of account dev\r\n`);
  expect(await smtp(own, foreign)).toBe(`550 5.7.1 ${wanted}\r\n`);
  expect(await smtp('', foreign)).toBe(`550 5.7.1 ${wanted}\r\n`);
  expect(await rest('send', mail(foreign))).toMatchObject({ status: 403, text: expect.stringContaining(wanted) });
  expect(await rest('validate', mail(foreign))).toMatchObject({ text: expect.stringContaining(wanted) });
  expect(await rest('send_raw', raw(own, foreign))).toMatchObject({ status: 403 });
  expect(await rest('send_raw', raw(foreign, own))).toMatchObject({ status: 403 });
  const endpoint = `http://127.0.0.1:${postern.ports['http']}`;
  const binding = createEmailBinding({ endpoint, token: testToken, account: 'dev' });
  await expect(binding.send(mail(foreign))).rejects.toMatchObject({ code: 'E_SENDER_NOT_VERIFIED' });
  const file = join(postern.folder, 'message.eml');
  writeFileSync(file, `From: ${foreign}\r\nSubject: x\r\n\r\nHi\r\n`);
  expect((await runPostern(postern, ['check', file])).output).toContain(wanted);
  expect(postern.captured()).toEqual([]);
});

test('a name that no longer domain covers is sent under as before', async () => {
  expect(await smtp('app@mail.example.com', 'app@payments.example.com')).toMatch(/^250 /);
});
